//! How one side sleeps and the other side knows that it must wake it.
//!
//! Both directions have the same shape. The sleeper *announces* what it waits for, passes a barrier and looks
//! once more; the waker makes its change, passes a barrier and looks for an announcement. With a full barrier on
//! both sides at least one of them sees the other, whichever was first: a store and a later load of another
//! address may otherwise swap places on every processor, x86 included.
//!
//! The waker's side runs for each message, the sleeper's only before a sleep. So the barrier may be lopsided:
//! nearly free for the waker, expensive for the sleeper.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// The barrier between "I have changed something" and "does anybody wait for it?", and its counterpart.
///
/// If one thread calls [`light`](Barrier::light) and another calls [`heavy`](Barrier::heavy), then either
/// everything before the light one is visible after the heavy one, or the other way round. An implementation
/// that does not keep this loses wake-ups.
pub trait Barrier {
    /// Called once for each publish and each release.
    fn light(&self);
    /// Called once before each sleep.
    fn heavy(&self);
}

/// Two sequentially consistent fences: right everywhere, some 5 to 20 ns for each message.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullBarrier;

impl Barrier for FullBarrier {
    fn light(&self) {
        fence(Ordering::SeqCst);
    }

    fn heavy(&self) {
        fence(Ordering::SeqCst);
    }
}

/// For whoever has just made its change by a locked instruction, which on x86-64 is a full fence in itself: between that
/// and the look it needs none. Elsewhere a full fence.
///
/// It works between processes too.
#[derive(Clone, Copy, Debug, Default)]
pub struct SwapBarrier;

impl Barrier for SwapBarrier {
    #[inline]
    fn light(&self) {
        // The processor keeps a load behind a locked instruction; the compiler must as well (Intel SDM 3A, 9.2.3.9).
        #[cfg(all(target_arch = "x86_64", not(feature = "model")))]
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        #[cfg(not(all(target_arch = "x86_64", not(feature = "model"))))]
        fence(Ordering::SeqCst);
    }

    fn heavy(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Nobody waits for a position.
const NOBODY: u64 = u64::MAX;

/// Who sleeps on a ring. Read by the other side after each publish or release, written only around a sleep.
#[derive(Debug)]
pub(crate) struct Sleepers {
    /// The position that the sleeping consumer waits for, or `NOBODY`. Written by the consumer, read by publishers.
    wanted: AtomicU64,
    /// How many producers sleep. Written by producers, read by whoever releases.
    producers: AtomicU32,
}

impl Sleepers {
    pub(crate) fn new() -> Self {
        Self { wanted: AtomicU64::new(NOBODY), producers: AtomicU32::new(0) }
    }

    /// SYNC: sleep-consumer. The store of `wanted` comes before the look at the word, as seen by any publisher.
    pub(crate) fn announce_consumer(&self, position: u64, barrier: &impl Barrier) {
        self.wanted.store(position, Ordering::Relaxed);
        barrier.heavy();
    }

    pub(crate) fn withdraw_consumer(&self) {
        self.wanted.store(NOBODY, Ordering::Relaxed);
    }

    /// Whether the consumer sleeps and waits for one of these positions, which the caller has just published.
    ///
    /// SYNC: sleep-consumer. The store of the word comes before the look at `wanted`, as seen by the consumer.
    /// Only the one publisher that covers the position wakes, so a busy ring makes no needless system calls.
    pub(crate) fn consumer_waits_for(&self, first: u64, count: u64, barrier: &impl Barrier) -> bool {
        barrier.light();
        // Positions stay below 2^63, so that NOBODY is never within a range.
        self.wanted.load(Ordering::Relaxed).wrapping_sub(first) < count
    }

    /// Whether the consumer sleeps and waits for any position before `end`: for rings with held slots, where
    /// producers step over positions that the consumer may wait for, and publish nothing there.
    ///
    /// SYNC: sleep-consumer. As [`consumer_waits_for`](Sleepers::consumer_waits_for).
    #[cold]
    pub(crate) fn consumer_waits_before(&self, end: u64, barrier: &impl Barrier) -> bool {
        barrier.light();
        self.wanted.load(Ordering::Relaxed) < end
    }

    /// SYNC: sleep-producer. The count grows before the producer's last look at `head`.
    pub(crate) fn announce_producer(&self, barrier: &impl Barrier) {
        self.producers.fetch_add(1, Ordering::Relaxed);
        barrier.heavy();
    }

    pub(crate) fn withdraw_producer(&self) {
        self.producers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether any producer sleeps; the caller has just moved `head`.
    ///
    /// SYNC: sleep-producer. The store of `head` comes before the look at the count.
    pub(crate) fn producers_wait(&self, barrier: &impl Barrier) -> bool {
        barrier.light();
        self.producers.load(Ordering::Relaxed) != 0
    }
}
