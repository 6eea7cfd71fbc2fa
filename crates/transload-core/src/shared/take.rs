//! Taking messages out of the ring.

use core::fmt;

use super::cell::{Cell, Lap};
use super::layout::SharedCount;
use super::member::SharedMember;
use super::poison::Poisoned;
use super::slot::{SlotState, SlotWord};
use super::taken::{SharedMessage, SharedNotes, SharedTaken};
use super::word::{FutexWord, SharedWord};
use crate::sync::{Ordering, order};
use crate::wait::Barrier;

/// The consumer's place in the ring. There is one consumer at a time, which is for the caller to see to.
#[derive(Debug)]
pub struct SharedReader {
    next: u64,
    /// How many positions it may find done: those of consumers before it, which are known to end.
    passes_left: u64,
}

impl SharedReader {
    /// The position that is looked at next.
    pub fn position(&self) -> u64 {
        self.next
    }
}

/// Why there is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedTakeError {
    /// None is there.
    Empty,
    /// The next one was taken by this member, who had been the consumer before and is not known to be dead. It may be the
    /// one who asks.
    Blocked {
        /// Who.
        member: u16,
    },
    /// The words are spoilt.
    Poisoned(Poisoned),
}

impl fmt::Display for SharedTakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no message is there"),
            Self::Blocked { member } => write!(f, "the next message is still with member {member}"),
            Self::Poisoned(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for SharedTakeError {}

impl From<Poisoned> for SharedTakeError {
    fn from(why: Poisoned) -> Self {
        Self::Poisoned(why)
    }
}

/// What a look at one position found.
enum Look {
    /// A message, now ours.
    Message(SharedMessage),
    /// Done before, or worth nothing.
    Pass,
    /// Nothing that could be taken now.
    Stop(SharedTakeError),
}

impl<W, F, P, B> SharedMember<W, F, P, B>
where
    W: AsRef<[SharedWord]>,
    F: AsRef<[FutexWord]>,
    P: AsRef<[SharedWord]>,
    B: Barrier,
{
    /// The consumer's place, at the first message that is not done.
    pub fn reader(&self) -> SharedReader {
        // The last consumer may have died before it moved the head on: then it lags. This is the one time that the tail is
        // asked, whose line is the senders'.
        let head = self.parts.head().load(Ordering::Acquire);
        self.advance_head_from(head, self.parts.oldest(head));
        let next = self.parts.oldest(self.parts.head().load(Ordering::Acquire));
        // Done before it began, or taken then and done since: a ring of each, and the one that the tail may lack.
        SharedReader { next, passes_left: 2 * self.parts.ring_slots() as u64 + 1 }
    }

    /// Takes at most `max` messages that follow each other.
    ///
    /// They stay in the ring, and come to the next consumer if this member dies, until they are
    /// [done](SharedMember::finish) or [kept](SharedMember::keep).
    ///
    /// # Errors
    ///
    /// [`SharedTakeError`].
    pub fn take(
        &self,
        reader: &mut SharedReader,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        max: usize,
    ) -> Result<SharedTaken, SharedTakeError> {
        self.take_with(reader, notes, max, |_| {})
    }

    /// As [`take`](SharedMember::take), and calls `coming` with each buffer as soon as it is known, before its word is
    /// touched: its bytes can be asked for meanwhile. It may turn out to hold no message.
    ///
    /// # Errors
    ///
    /// [`SharedTakeError`].
    #[inline]
    pub fn take_with(
        &self,
        reader: &mut SharedReader,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        max: usize,
        coming: impl Fn(u32),
    ) -> Result<SharedTaken, SharedTakeError> {
        self.check()?;
        let mut first = reader.next;
        let mut count = 0;
        // So many may an earlier consumer have had and be done with, and so many follow.
        for _ in 0..2 * self.parts.ring_slots() {
            if count == max {
                break;
            }
            let position = reader.next;
            match self.look_at(reader, notes, &coming) {
                Look::Message(message) => {
                    notes.note(position, &message);
                    reader.next = position.wrapping_add(1);
                    count += 1;
                }
                Look::Pass => {
                    reader.next = position.wrapping_add(1);
                    // A run has no gaps.
                    if count > 0 {
                        break;
                    }
                    first = reader.next;
                }
                Look::Stop(why) if count == 0 => return Err(why),
                Look::Stop(_) => break,
            }
        }
        if count == 0 { Err(SharedTakeError::Empty) } else { Ok(SharedTaken { first, count }) }
    }

    /// Whether a message can be taken at this place.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn is_ready(&self, reader: &SharedReader) -> Result<bool, Poisoned> {
        self.check()?;
        let cell = Cell(self.parts.cell(reader.next).load(Ordering::Relaxed));
        Ok(match cell.lap(self.parts.lap_of(reader.next)) {
            Lap::Here => cell.is_full(),
            Lap::Behind => !cell.is_full(),
            // A take says what is wrong.
            Lap::Done | Lap::Astray => true,
        })
    }

    /// Takes the message at a place, if there is one.
    #[inline]
    fn look_at(
        &self,
        reader: &mut SharedReader,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        coming: &impl Fn(u32),
    ) -> Look {
        let position = reader.next;
        let lap = self.parts.lap_of(position);
        // SYNC: shared-publish (acquire): the bytes and the word that this cell names come before our use of them.
        let cell = Cell(self.parts.cell(position).load(order!(SharedPublish, Acquire)));
        match cell.lap(lap) {
            // A note would be of a message of the lap before: it goes before the cell is empty.
            Lap::Here if cell.is_full() && !notes.is_noted(position) => {
                self.take_from(position, cell, coming)
            }
            Lap::Here if !cell.is_full() => Look::Stop(SharedTakeError::Empty),
            // Of a lap before, which this consumer has taken and is not done with.
            Lap::Behind if cell.is_full() => Look::Stop(SharedTakeError::Empty),
            // Nobody but consumers is ever done with a position.
            Lap::Done if reader.passes_left > 0 => {
                reader.passes_left -= 1;
                Look::Pass
            }
            Lap::Here | Lap::Behind | Lap::Done | Lap::Astray => {
                Look::Stop(self.poisoned(Poisoned::Astray { position }).into())
            }
        }
    }

    #[inline]
    fn take_from(&self, position: u64, cell: Cell, coming: &impl Fn(u32)) -> Look {
        let index = cell.index();
        let Some(slot) = self.parts.slot(index) else { return self.spoiled(position) };
        coming(index);
        let word = SlotWord(slot.load(Ordering::Relaxed));
        if !cell.names(index, word) {
            return self.spoiled(position);
        }
        match word.state() {
            Some(SlotState::Sent) => {
                let owned = word.with(self.number, SlotState::Owned);
                self.parts.step();
                // The sender's use of the bytes is ordered by the cell.
                // SYNC: shared-lend (acquire): that of a consumer that died comes before ours.
                let order = order!(SharedLend, Acquire);
                if slot.compare_exchange(word.0, owned.0, order, Ordering::Relaxed).is_err() {
                    // Nobody else may change the word of a published message.
                    return self.spoiled(position);
                }
                if let Err(why) = self.hold(index, owned) {
                    return Look::Stop(why.into());
                }
                let redelivered = word.owner() == 0;
                if redelivered {
                    self.parts.add(SharedCount::Redelivered, 1);
                }
                Look::Message(SharedMessage { index, len_bytes: word.len(), redelivered })
            }
            Some(SlotState::Owned | SlotState::Lent) if self.may_have(index, word) => {
                Look::Stop(SharedTakeError::Blocked { member: word.owner() })
            }
            _ => self.spoiled(position),
        }
    }

    /// Whether the owner that a slot's word names may have it: a member, and if it is this one, by its own record.
    fn may_have(&self, index: u32, word: SlotWord) -> bool {
        let owner = word.owner();
        self.parts.is_member(owner)
            && (owner != self.number || self.held(index).load(Ordering::Relaxed) == word.0)
    }

    /// Is done with a position that holds no message of anybody's.
    #[cold]
    fn spoiled(&self, position: u64) -> Look {
        self.empty(position);
        self.parts.add(SharedCount::Spoiled, 1);
        self.advance_head();
        Look::Pass
    }

    /// One of the messages taken, counted from 0.
    pub fn message(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: &SharedTaken,
        nth: usize,
    ) -> Option<SharedMessage> {
        let position = (nth < taken.count).then(|| taken.first.wrapping_add(nth as u64))?;
        let index = notes.index(position);
        let len_bytes = SlotWord(self.held(index).load(Ordering::Relaxed)).len();
        Some(SharedMessage { index, len_bytes, redelivered: notes.is_again(position) })
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::super::claim::ClaimCursor;
    use super::super::layout::{CONTROL_WORDS, MEMBER_WORDS, SLEEPER_WORDS};
    use super::super::parts::SharedParts;
    use super::*;
    use crate::wait::SwapBarrier;

    type Words = [SharedWord];
    type Consumer<'a> = SharedMember<&'a Words, &'a [FutexWord], [SharedWord; 4], SwapBarrier>;

    fn words<const COUNT: usize>() -> [SharedWord; COUNT] {
        core::array::from_fn(|_| SharedWord::default())
    }

    #[test]
    fn what_a_consumer_was_done_with_hides_no_message_from_the_next() {
        let (control, table) = (words::<CONTROL_WORDS>(), words::<{ 3 * MEMBER_WORDS }>());
        let (slots, cells) = (words::<4>(), words::<4>());
        let sleepers: [FutexWord; SLEEPER_WORDS] = core::array::from_fn(|_| FutexWord::default());
        let member = |number| -> Consumer<'_> {
            let parts = SharedParts::new(&control[..], &sleepers[..], &table[..], &slots[..], &cells[..]);
            SharedMember::new(parts.unwrap(), number, words(), SwapBarrier)
        };
        let (sender, dead, next) = (member(1), member(2), member(2));
        let cursor = ClaimCursor::new(0);
        let fill = || {
            for len in 1..=4 {
                sender.send(sender.claim(&cursor).unwrap(), len).unwrap();
            }
        };
        let notes = SharedNotes::new(words::<4>());
        // Consumers that die before they move the head, one after the other.
        for round in 0..3 {
            fill();
            let mut reader = dead.reader();
            let taken = dead.take(&mut reader, &notes, 4).unwrap();
            assert_eq!((taken.first(), taken.count()), (4 * round, 4));
            assert!(!dead.finish(&notes, taken).unwrap());
            dead.parts().head().store(0, Ordering::Relaxed);
        }
        fill();
        let mut reader = next.reader();
        let taken = next.take(&mut reader, &notes, 9).unwrap();
        assert_eq!((taken.first(), taken.count()), (12, 4));
    }
}
