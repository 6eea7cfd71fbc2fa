//! Putting a message into the ring.

use core::fmt;

use super::cell::{Cell, Lap};
use super::grant::SharedGrant;
use super::layout::Sleeper;
use super::member::SharedMember;
use super::poison::Poisoned;
use super::slot::{SlotState, SlotWord};
use super::word::{FutexWord, SharedWord};
use crate::sync::{Ordering, order};
use crate::wait::Barrier;

/// How often a send looks for its place, beyond twice the ring: as often as all members may be faster.
const PATIENCE: usize = 1024;

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedSendError {
    /// The ring is full: the oldest message is not done.
    Full,
    /// Others were faster, again and again.
    Contended,
    /// The words are spoilt.
    Poisoned(Poisoned),
}

/// A message that was not sent: its buffer is still its sender's.
#[derive(Debug)]
pub struct SharedSendRefused {
    /// The buffer. Worth nothing if the words are spoilt.
    pub grant: SharedGrant,
    /// Why.
    pub error: SharedSendError,
}

impl fmt::Display for SharedSendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the ring is full"),
            Self::Contended => f.write_str("others took each place in the ring"),
            Self::Poisoned(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for SharedSendError {}

impl From<Poisoned> for SharedSendError {
    fn from(why: Poisoned) -> Self {
        Self::Poisoned(why)
    }
}

impl<W, F, P, B> SharedMember<W, F, P, B>
where
    W: AsRef<[SharedWord]>,
    F: AsRef<[FutexWord]>,
    P: AsRef<[SharedWord]>,
    B: Barrier,
{
    /// Sends the first `len_bytes` of a buffer, and says whether the consumer is to be woken.
    ///
    /// Lock-free, and nobody else waits for it: there is no moment at which a place in the ring is taken and not full.
    /// Messages of one thread stay in order.
    ///
    /// # Errors
    ///
    /// [`SharedSendRefused`] gives the buffer back.
    #[inline]
    pub fn send(&self, grant: SharedGrant, len_bytes: u32) -> Result<bool, SharedSendRefused> {
        if let Err(why) = self.check() {
            return Err(SharedSendRefused { grant, error: SharedSendError::Poisoned(why) });
        }
        // Before the word is touched: who waits for room asks often. Else the cell is not looked at before it is filled.
        if self.was_full.load(Ordering::Relaxed) && self.is_full() {
            return Err(SharedSendRefused { grant, error: SharedSendError::Full });
        }
        let index = grant.index();
        let held = self.let_go(index);
        let sent = held.with_len(len_bytes).with(self.number, SlotState::Sent);
        self.parts.step();
        // Whoever dies from here on leaves a message that nobody names, or one that is in the ring. Released for the
        // consumer by the swap of the cell.
        // SYNC: shared-look (release): for whoever looks for a free buffer, as the claim that this store hides.
        self.own_slot(index).store(sent.0, order!(SharedLook, Release));
        match self.publish(index, sent) {
            Ok(()) => {
                self.note_full(false);
                self.barrier.light();
                Ok(self.parts.sleeper(Sleeper::Consumer).take_announcement())
            }
            Err(error) => {
                self.note_full(true);
                Err(self.unsend(grant, held, sent, error))
            }
        }
    }

    /// Private, and written only when it changes.
    #[inline]
    fn note_full(&self, full: bool) {
        if self.was_full.load(Ordering::Relaxed) != full {
            self.was_full.store(full, Ordering::Relaxed);
        }
    }

    /// Whether the cell of the next position still holds the message of a lap before.
    #[inline]
    fn is_full(&self) -> bool {
        // SYNC: shared-tail (acquire): a message whose end comes before the one that moved the tail here is not taken
        // for one that is still there.
        let tail = self.parts.tail().load(order!(SharedTail, Acquire));
        let cell = Cell(self.parts.cell(tail).load(Ordering::Relaxed));
        let is_behind = cell.is_full() && cell.lap(self.parts.lap_of(tail)) == Lap::Behind;
        is_behind && self.parts.tail().load(Ordering::Relaxed) == tail
    }

    /// Names the buffer in the cell of the next position.
    #[inline]
    fn publish(&self, index: u32, sent: SlotWord) -> Result<(), SharedSendError> {
        for _ in 0..2 * self.parts.ring_slots() + PATIENCE {
            // SYNC: shared-tail (acquire): the cell is then seen at most a lap behind.
            let tail = self.parts.tail().load(order!(SharedTail, Acquire));
            let cell = self.parts.cell(tail);
            let lap = self.parts.lap_of(tail);
            let full = Cell::full(lap, index, sent);
            let put = |empty: Cell| {
                self.parts.step();
                // SYNC: shared-publish (release): bytes and word come before the cell that names them.
                let order = order!(SharedPublish, Release);
                cell.compare_exchange(empty.0, full.0, order, Ordering::Acquire)
            };
            // Without a look at it first: the consumer, which polls it, would get the line back in between.
            let Err(seen) = put(Cell::empty(lap)) else {
                self.pass(tail);
                return Ok(());
            };
            let seen = Cell(seen);
            match seen.lap(lap) {
                // Emptied by somebody who lies.
                Lap::Here if !seen.is_full() => {
                    if put(seen).is_ok() {
                        self.pass(tail);
                        return Ok(());
                    }
                }
                // Its sender has not moved the tail on yet, and may be dead.
                Lap::Here | Lap::Done => self.pass(tail),
                // The tail has moved on meanwhile; if somebody lies, the bound ends that.
                Lap::Behind | Lap::Astray if self.parts.tail().load(Ordering::Relaxed) != tail => {}
                Lap::Behind if seen.is_full() => return Err(SharedSendError::Full),
                // A tail never passes a position that is not published.
                Lap::Behind | Lap::Astray => {
                    return Err(self.poisoned(Poisoned::Astray { position: tail }).into());
                }
            }
        }
        Err(SharedSendError::Contended)
    }

    /// Moves the tail over a position that is published. It is no matter who does, so nor is the outcome.
    #[inline]
    fn pass(&self, tail: u64) {
        self.parts.step();
        // SYNC: shared-tail (release): the full cell comes before the tail behind it.
        let order = order!(SharedTail, Release);
        let _ = self.parts.tail().compare_exchange(tail, tail.wrapping_add(1), order, Ordering::Relaxed);
    }

    /// Takes back a message that did not get into the ring.
    #[cold]
    fn unsend(
        &self,
        grant: SharedGrant,
        held: SlotWord,
        sent: SlotWord,
        error: SharedSendError,
    ) -> SharedSendRefused {
        let index = grant.index();
        self.parts.step();
        let swapped =
            self.own_slot(index).compare_exchange(sent.0, held.0, Ordering::Relaxed, Ordering::Relaxed);
        let held = if swapped.is_ok() {
            self.hold(index, held)
        } else {
            Err(self.poisoned(Poisoned::TakenAway { buffer: index }))
        };
        SharedSendRefused { grant, error: held.err().map_or(error, SharedSendError::Poisoned) }
    }
}
