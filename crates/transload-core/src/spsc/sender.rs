//! The side that fills slots.

use core::fmt;

use super::fault::SpscFault;
use super::side::{SpscOwn, SpscPeer};
use crate::shared::{FutexWord, SharedWord};
use crate::sync::Ordering;
use crate::wait::Barrier;

/// The side that fills slots.
#[derive(Debug)]
pub struct SpscSender<W, F, B> {
    own: SpscOwn<W, F>,
    peer: SpscPeer<W, F>,
    /// One a slot, written by this side.
    lengths: W,
    /// What this side has published: the word is only told so.
    tail: u64,
    /// What the other side was last seen to be done with.
    head: u64,
    fault: Option<SpscFault>,
    barrier: B,
}

/// Why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpscSendError {
    /// All are published, and the other side is not done with the first.
    Full,
    /// The other side lies.
    Fault(SpscFault),
}

impl fmt::Display for SpscSendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("all slots are taken"),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

impl core::error::Error for SpscSendError {}

impl<W, F, B> SpscSender<W, F, B>
where
    W: AsRef<[SharedWord]>,
    F: AsRef<[FutexWord]>,
    B: Barrier,
{
    /// A sender, where its own word says. One length a slot.
    ///
    /// # Panics
    ///
    /// If the number of slots is no power of two.
    pub fn new(own: SpscOwn<W, F>, peer: SpscPeer<W, F>, lengths: W, barrier: B) -> Self {
        assert!(lengths.as_ref().len().is_power_of_two(), "slots are counted around");
        let tail = own.position();
        Self { own, peer, lengths, tail, head: tail, fault: None, barrier }
    }

    /// The slot that is filled next, if it is free. It stays the same until it is published.
    ///
    /// # Errors
    ///
    /// [`SpscSendError`]; a fault stays.
    #[inline]
    pub fn slot(&mut self) -> Result<usize, SpscSendError> {
        if let Some(fault) = self.fault {
            return Err(SpscSendError::Fault(fault));
        }
        if self.is_full() {
            match self.peer.position(self.head, self.tail) {
                Ok(head) => self.head = head,
                Err(fault) => {
                    self.fault = Some(fault);
                    return Err(SpscSendError::Fault(fault));
                }
            }
            if self.is_full() {
                return Err(SpscSendError::Full);
            }
        }
        Ok(slot_of(self.tail, self.lengths.as_ref()))
    }

    fn is_full(&self) -> bool {
        self.tail.wrapping_sub(self.head) >= self.lengths.as_ref().len() as u64
    }

    /// Publishes the slot that [`slot`](SpscSender::slot) has just given, with a message of so many bytes in it. Gives the
    /// word whose sleeper is to be woken, if there may be one.
    #[inline]
    pub fn publish(&mut self, len_bytes: u32) -> Option<&FutexWord> {
        let lengths = self.lengths.as_ref();
        // Released by the position.
        lengths[slot_of(self.tail, lengths)].0.store(len_bytes.into(), Ordering::Relaxed);
        self.tail = self.tail.wrapping_add(1);
        self.own.move_to(self.tail);
        if self.peer.is_asleep(&self.barrier) { Some(self.own.signal()) } else { None }
    }

    /// Messages that are published and not known to be done.
    pub fn pending(&self) -> u64 {
        self.tail.wrapping_sub(self.head)
    }

    /// Begins to sleep on the other side's [signal](super::SPSC_SIGNAL), while it is what this returns. Look for a [slot](SpscSender::slot) once more before, and
    /// sleep not for ever: the other side may be dead, or lie.
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

/// The slot of a position.
#[expect(clippy::cast_possible_truncation, reason = "masked to the slots there are")]
pub(super) fn slot_of(position: u64, slots: &[SharedWord]) -> usize {
    (position & (slots.len() as u64 - 1)) as usize
}
