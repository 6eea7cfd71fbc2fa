//! The classical free list: a stack whose head is an index with a generation, in one word of 64 bits.
//!
//! Written anew from a description of what pools of this kind do: generation, count and head in one word, an array of
//! 32-bit links beside it, compare-and-swap until it succeeds, no back-off. A lease is an index; it keeps nothing alive.
#![expect(clippy::inline_always, reason = "the adapter must not cost a call")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::subject::{Subject, Worker};

const END: u64 = 0xFFFF;
const COUNT: u32 = 16;
const GENERATION: u32 = 32;

/// The free list. At most 65,534 buffers, as the head has 16 bits.
#[derive(Clone, Debug)]
pub struct Tagged(Arc<Stack>);

#[derive(Debug)]
struct Stack {
    /// Generation in the upper 32 bits, then the count of free buffers, then the first of them.
    head: AtomicU64,
    next: Box<[AtomicU32]>,
}

fn pack(generation: u64, count: u64, first: u64) -> u64 {
    generation << GENERATION | count << COUNT | first
}

impl Stack {
    #[inline]
    fn pop(&self) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let first = head & 0xFFFF;
            if first == END {
                return None;
            }
            let next = self.next[usize::try_from(first).ok()?].load(Ordering::Relaxed);
            let count = head >> COUNT & 0xFFFF;
            let now = pack(((head >> GENERATION) + 1) & 0xFFFF_FFFF, count - 1, u64::from(next));
            match self.head.compare_exchange_weak(head, now, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return u32::try_from(first).ok(),
                Err(other) => head = other,
            }
        }
    }

    #[inline]
    fn push(&self, index: u32) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            self.next[index as usize].store((head & 0xFFFF) as u32, Ordering::Relaxed);
            let count = head >> COUNT & 0xFFFF;
            let now = pack(((head >> GENERATION) + 1) & 0xFFFF_FFFF, count + 1, u64::from(index));
            match self.head.compare_exchange_weak(head, now, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => head = other,
            }
        }
    }
}

impl Subject for Tagged {
    const NAME: &'static str = "tagged-head stack";
    type Worker = Self;

    fn open(buffers: usize) -> Self {
        let count = u16::try_from(buffers).expect("at most 65,534 buffers");
        assert!(u64::from(count) < END, "at most 65,534 buffers");
        let link = |index: u16| if index + 1 == count { 0xFFFF } else { u32::from(index) + 1 };
        let next = (0..count).map(|index| AtomicU32::new(link(index))).collect();
        Self(Arc::new(Stack { head: AtomicU64::new(pack(0, count.into(), 0)), next }))
    }

    fn worker(&self) -> Self {
        self.clone()
    }
}

impl Worker for Tagged {
    type Lease = u32;

    #[inline(always)]
    fn acquire(&mut self) -> Option<u32> {
        self.0.pop()
    }

    #[inline(always)]
    fn release(&mut self, lease: u32) {
        self.0.push(lease);
    }

    fn index(lease: &u32) -> u32 {
        *lease
    }
}
