//! The side that reads slots.

use super::fault::SpscFault;
use super::sender::slot_of;
use super::side::{SpscOwn, SpscPeer};
use crate::shared::{FutexWord, SharedWord};
use crate::sync::Ordering;
use crate::wait::Barrier;

/// The side that reads slots.
#[derive(Debug)]
pub struct SpscReceiver<W, F, B> {
    own: SpscOwn<W, F>,
    peer: SpscPeer<W, F>,
    /// One a slot, written by the other side.
    lengths: W,
    slot_bytes: u32,
    /// What this side is done with: the word is only told so.
    head: u64,
    /// What it has taken.
    next: u64,
    /// What the other side was last seen to have published.
    tail: u64,
    fault: Option<SpscFault>,
    barrier: B,
}

/// Positions that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpscRun {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: usize,
}

impl<W, F, B> SpscReceiver<W, F, B>
where
    W: AsRef<[SharedWord]>,
    F: AsRef<[FutexWord]>,
    B: Barrier,
{
    /// A receiver, where its own word says, of slots of so many bytes.
    ///
    /// # Panics
    ///
    /// If the number of slots is no power of two.
    pub fn new(own: SpscOwn<W, F>, peer: SpscPeer<W, F>, lengths: W, slot_bytes: u32, barrier: B) -> Self {
        assert!(lengths.as_ref().len().is_power_of_two(), "slots are counted around");
        let head = own.position();
        Self { own, peer, lengths, slot_bytes, head, next: head, tail: head, fault: None, barrier }
    }

    /// How many messages can be taken.
    ///
    /// # Errors
    ///
    /// [`SpscFault`], which stays, once what was seen before it has been taken.
    #[inline]
    pub fn available(&mut self) -> Result<u64, SpscFault> {
        if self.next == self.tail {
            self.look()?;
        }
        Ok(self.tail.wrapping_sub(self.next))
    }

    fn look(&mut self) -> Result<(), SpscFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let most = self.head.wrapping_add(self.lengths.as_ref().len() as u64);
        self.tail = self.peer.position(self.tail, most).inspect_err(|&fault| self.fault = Some(fault))?;
        Ok(())
    }

    /// Takes at most so many messages; nothing if there is none. `note` is given the slot and the length of each: these
    /// words are never looked at again.
    ///
    /// # Errors
    ///
    /// [`SpscFault`], which stays: of a message whose length cannot be, nothing is taken, nor of those behind it.
    pub fn take(
        &mut self,
        max: usize,
        mut note: impl FnMut(usize, u32),
    ) -> Result<Option<SpscRun>, SpscFault> {
        let available = usize::try_from(self.available()?).unwrap_or(usize::MAX);
        let first = self.next;
        let lengths = self.lengths.as_ref();
        for _ in 0..max.min(available) {
            let slot = slot_of(self.next, lengths);
            let found = lengths[slot].0.load(Ordering::Relaxed);
            match u32::try_from(found) {
                Ok(len_bytes) if len_bytes <= self.slot_bytes => note(slot, len_bytes),
                _ => {
                    // What is behind it was never seen.
                    self.tail = self.next;
                    let fault = SpscFault::Length { position: self.next, found, most: self.slot_bytes };
                    self.fault = Some(fault);
                    break;
                }
            }
            self.next = self.next.wrapping_add(1);
        }
        let count = usize::try_from(self.next.wrapping_sub(first)).unwrap_or(0);
        match self.fault {
            Some(fault) if count == 0 => Err(fault),
            _ => Ok((count > 0).then_some(SpscRun { first, count })),
        }
    }

    /// Is done with the first so many of those that were taken. Gives the word whose sleeper is to be woken, if there may
    /// be one.
    ///
    /// # Panics
    ///
    /// If so many were not taken.
    pub fn finish(&mut self, count: usize) -> Option<&FutexWord> {
        let count = count as u64;
        assert!(count <= self.next.wrapping_sub(self.head), "only what was taken can be done");
        self.head = self.head.wrapping_add(count);
        self.own.move_to(self.head);
        if self.peer.is_asleep(&self.barrier) { Some(self.own.signal()) } else { None }
    }

    /// Begins to sleep on the other side's [signal](super::SPSC_SIGNAL), while it is what this returns. Look whether anything is
    /// [available](SpscReceiver::available) once more before, and sleep not for ever.
    pub fn begin_sleep(&self) -> u32 {
        let signal = self.peer.signal();
        self.own.announce(&self.barrier);
        signal
    }

    /// Ends it.
    pub fn end_sleep(&self) {
        self.own.withdraw();
    }
}
