//! Taking messages out of the ring, and being done with them.

use core::fmt;

use super::cell::{Cell, Lap};
use super::grant::SharedGrant;
use super::layout::{SharedCount, Sleeper};
use super::member::SharedMember;
use super::poison::Poisoned;
use super::slot::{SlotState, SlotWord};
use super::word::{FutexWord, SharedWord};
use crate::sync::{AtomicU64, Ordering, is_weak, order};
use crate::wait::Barrier;

/// In a note: there is one.
const NOTED: u64 = 1 << 33;
/// In a note: the message had been taken before.
const AGAIN: u64 = 1 << 32;

/// The consumer's place in the ring. There is one consumer at a time, which is for the caller to see to.
#[derive(Debug)]
pub struct SharedReader {
    next: u64,
    /// How many positions it may find done: those of consumers before it, which are known to end.
    passes_left: u64,
}

/// What a consumer has noted of the messages that it has taken, in private memory: for each position, which buffer it is
/// in.
#[derive(Debug)]
pub struct SharedNotes<P>(P);

/// Messages that follow each other, taken and not done.
///
/// Not `Clone`. If it is dropped instead of being given back, its messages stay where they are until the member dies.
#[derive(Debug)]
#[must_use = "messages that are dropped are never done"]
pub struct SharedTaken {
    first: u64,
    count: usize,
}

impl SharedTaken {
    /// The position of the first.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMessage {
    /// The buffer that it is in.
    pub index: u32,
    /// How long its sender says that it is.
    pub len_bytes: u32,
    /// Whether an earlier consumer had taken it, and died.
    pub redelivered: bool,
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

impl<P: AsRef<[SharedWord]>> SharedNotes<P> {
    /// Notes for a ring with as many cells as there are words: a power of two.
    pub fn new(words: P) -> Self {
        Self(words)
    }

    #[expect(clippy::cast_possible_truncation, reason = "masked to the words there are")]
    fn at(&self, position: u64) -> &AtomicU64 {
        let words = self.0.as_ref();
        &words[(position & (words.len() as u64 - 1)) as usize].0
    }

    fn note(&self, position: u64, message: &SharedMessage) {
        let again = if message.redelivered { AGAIN } else { 0 };
        self.at(position).store(NOTED | again | u64::from(message.index), Ordering::Relaxed);
    }

    /// Whether a message of a lap before is not done: then there can be none at this position.
    fn is_noted(&self, position: u64) -> bool {
        self.at(position).load(Ordering::Relaxed) & NOTED != 0
    }

    /// Forgets a message. Before its cell is empty: the note is the next message's then.
    fn forget(&self, position: u64) -> u32 {
        let index = self.index(position);
        self.at(position).store(0, Ordering::Relaxed);
        index
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower half is the buffer")]
    fn index(&self, position: u64) -> u32 {
        self.at(position).load(Ordering::Relaxed) as u32
    }
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
        // The last consumer may have died before it did.
        self.advance_head();
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
        self.check()?;
        let mut first = reader.next;
        let mut count = 0;
        // So many may an earlier consumer have had and be done with, and so many follow.
        for _ in 0..2 * self.parts.ring_slots() {
            if count == max {
                break;
            }
            let position = reader.next;
            match self.look_at(reader, notes) {
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
    fn look_at(&self, reader: &mut SharedReader, notes: &SharedNotes<impl AsRef<[SharedWord]>>) -> Look {
        let position = reader.next;
        let lap = self.parts.lap_of(position);
        // SYNC: shared-publish (acquire): the bytes and the word that this cell names come before our use of them.
        let cell = Cell(self.parts.cell(position).load(order!(SharedPublish, Acquire)));
        match cell.lap(lap) {
            // A note would be of a message of the lap before: it goes before the cell is empty.
            Lap::Here if cell.is_full() && !notes.is_noted(position) => self.take_from(position, cell),
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

    fn take_from(&self, position: u64, cell: Cell) -> Look {
        let index = cell.index();
        let Some(slot) = self.parts.slot(index) else { return self.spoiled(position) };
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

    /// Empties the cell of a position that is the consumer's.
    fn empty(&self, position: u64) {
        let empty = Cell::empty(self.parts.lap_of(position).wrapping_add(1));
        self.parts.step();
        self.parts.cell(position).store(empty.0, Ordering::Release);
    }

    /// One of the messages taken, counted from 0.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is the buffer")]
    pub fn message(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: &SharedTaken,
        nth: usize,
    ) -> Option<SharedMessage> {
        let position = (nth < taken.count).then(|| taken.first.wrapping_add(nth as u64))?;
        let note = notes.at(position).load(Ordering::Relaxed);
        let index = note as u32;
        let len_bytes = SlotWord(self.held(index).load(Ordering::Relaxed)).len();
        Some(SharedMessage { index, len_bytes, redelivered: note & AGAIN != 0 })
    }

    /// Is done with messages: they will not be delivered again, their buffers are free. Says whether somebody waits for
    /// room. In any order, on any thread.
    ///
    /// # Errors
    ///
    /// [`Poisoned`] if somebody took one of the buffers away.
    pub fn finish(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: SharedTaken,
    ) -> Result<bool, Poisoned> {
        self.done(notes, &taken, |index| self.free(index))
    }

    /// As [`finish`](SharedMember::finish), and nobody ever gets the buffers: somebody may still access them of whom
    /// nobody will know when it is done.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn finish_in_quarantine(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: SharedTaken,
    ) -> Result<bool, Poisoned> {
        self.done(notes, &taken, |index| self.retire(index))
    }

    fn done(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: &SharedTaken,
        end: impl Fn(u32) -> Result<(), Poisoned>,
    ) -> Result<bool, Poisoned> {
        self.check()?;
        let twin_frees_first = is_weak!(SharedFreeFirst);
        for nth in 0..taken.count {
            let position = taken.first.wrapping_add(nth as u64);
            let index = notes.forget(position);
            if twin_frees_first {
                end(index)?;
            }
            // The cell first: a full cell always names a message. If we die in between, the buffer is one that we had.
            self.empty(position);
            if !twin_frees_first {
                end(index)?;
            }
        }
        self.advance_head();
        self.barrier.light();
        Ok(self.parts.sleeper(Sleeper::Room).take_announcement())
    }

    /// Is done with the first of the messages, and keeps its buffer. It says too whether somebody waits for room.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn keep(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: &mut SharedTaken,
    ) -> Result<Option<(SharedGrant, bool)>, Poisoned> {
        self.check()?;
        if taken.count == 0 {
            return Ok(None);
        }
        let index = notes.forget(taken.first);
        self.empty(taken.first);
        taken.first = taken.first.wrapping_add(1);
        taken.count -= 1;
        self.advance_head();
        self.barrier.light();
        Ok(Some((SharedGrant::new(index), self.parts.sleeper(Sleeper::Room).take_announcement())))
    }

    /// Notes of all messages whether a kernel or a device may access them.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn lend_taken(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: &SharedTaken,
        lent: bool,
    ) -> Result<(), Poisoned> {
        let state = if lent { SlotState::Lent } else { SlotState::Owned };
        (0..taken.count)
            .try_for_each(|nth| self.turn(notes.index(taken.first.wrapping_add(nth as u64)), state))
    }

    /// Leaves messages in the ring, for the next consumer: to it they come once more. Buffers that are lent then are
    /// never used again once it is done with them.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn put_back(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: SharedTaken,
    ) -> Result<(), Poisoned> {
        self.check()?;
        for nth in 0..taken.count {
            let index = notes.forget(taken.first.wrapping_add(nth as u64));
            let word = self.let_go(index);
            self.parts.step();
            // SYNC: shared-lend (release): our use of the bytes comes before the next consumer's.
            let swapped = self.own_slot(index).compare_exchange(
                word.0,
                word.put_back().0,
                order!(SharedLend, Release),
                Ordering::Relaxed,
            );
            if swapped.is_err() {
                return Err(self.poisoned(Poisoned::TakenAway { buffer: index }));
            }
        }
        Ok(())
    }

    /// Moves the head over the positions that are done. A hint for the next consumer, who looks for itself from there.
    fn advance_head(&self) {
        let head = self.parts.head().load(Ordering::Relaxed);
        let oldest = self.parts.oldest(head);
        let mut next = oldest;
        while next.wrapping_sub(oldest) < self.parts.ring_slots() as u64 {
            let cell = Cell(self.parts.cell(next).load(Ordering::Relaxed));
            if cell.lap(self.parts.lap_of(next)) != Lap::Done {
                break;
            }
            next = next.wrapping_add(1);
        }
        self.parts.step();
        // If it fails, somebody else moves it, over this as well or with the next message. Tried also if there is nothing
        // to move: a light barrier may rest on a locked instruction behind the emptied cell.
        let _ = self.parts.head().compare_exchange(head, next, Ordering::Release, Ordering::Relaxed);
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
