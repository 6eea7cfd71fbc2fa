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

/// In a note: there is a message, taken and not done.
const HELD: u64 = 1 << 32;
/// In a note: it had been taken before.
const AGAIN: u64 = 1 << 33;

/// The consumer's place in the ring. There is one consumer at a time, which is for the caller to see to.
#[derive(Debug)]
pub struct SharedReader {
    next: u64,
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

    /// Notes a message, if the place is free, as it always is unless somebody lies. Ordered by the cell, as everything
    /// here.
    fn note(&self, position: u64, message: &SharedMessage) -> bool {
        let note = self.at(position);
        let is_free = note.load(Ordering::Relaxed) == 0;
        if is_free {
            let again = if message.redelivered { AGAIN } else { 0 };
            note.store(HELD | again | u64::from(message.index), Ordering::Relaxed);
        }
        is_free
    }

    /// The buffer of a message, and whether it had been taken before.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is the buffer")]
    fn get(&self, position: u64) -> Option<(u32, bool)> {
        let note = self.at(position).load(Ordering::Relaxed);
        (note & HELD != 0).then_some((note as u32, note & AGAIN != 0))
    }

    /// Takes a note out, before its cell is empty: afterwards it is the next message's.
    fn take(&self, position: u64) -> Option<u32> {
        let (index, _) = self.get(position)?;
        self.at(position).store(0, Ordering::Relaxed);
        Some(index)
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
        SharedReader { next: self.parts.oldest(self.parts.head().load(Ordering::Acquire)) }
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
            match self.look_at(reader.next) {
                Look::Message(message) if notes.note(reader.next, &message) => count += 1,
                // The message of a lap before, in the same cell, is not done: two batches would have one buffer.
                Look::Message(_) => {
                    return Err(self.poisoned(Poisoned::Astray { position: reader.next }).into());
                }
                // A run has no gaps.
                Look::Pass if count > 0 => break,
                Look::Pass => first = reader.next.wrapping_add(1),
                Look::Stop(why) if count == 0 => return Err(why),
                Look::Stop(_) => break,
            }
            reader.next = reader.next.wrapping_add(1);
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
        // Done positions are to be passed by a take.
        Ok(match cell.lap(self.parts.lap_of(reader.next)) {
            Lap::Here => cell.is_full(),
            Lap::Done => true,
            Lap::Behind | Lap::Astray => false,
        })
    }

    /// Takes the message at a position, if there is one.
    fn look_at(&self, position: u64) -> Look {
        let lap = self.parts.lap_of(position);
        // SYNC: shared-publish (acquire): the bytes and the word that this cell names come before our use of them.
        let cell = Cell(self.parts.cell(position).load(order!(SharedPublish, Acquire)));
        match cell.lap(lap) {
            Lap::Here if cell.is_full() => self.take_from(position, cell),
            // Of a lap before, which this consumer has taken and is not done with.
            Lap::Here | Lap::Behind => Look::Stop(SharedTakeError::Empty),
            Lap::Done => Look::Pass,
            Lap::Astray => Look::Stop(self.poisoned(Poisoned::Astray { position }).into()),
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
        (1..=self.parts.members()).contains(&usize::from(owner))
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
    pub fn message(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: &SharedTaken,
        nth: usize,
    ) -> Option<SharedMessage> {
        let position = (nth < taken.count).then(|| taken.first.wrapping_add(nth as u64))?;
        let (index, redelivered) = notes.get(position)?;
        let len_bytes = SlotWord(self.held(index).load(Ordering::Relaxed)).len();
        Some(SharedMessage { index, len_bytes, redelivered })
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
            let Some(index) = notes.take(position) else { continue };
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
        let Some(index) = notes.take(taken.first) else { return Ok(None) };
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
            .filter_map(|nth| notes.get(taken.first.wrapping_add(nth as u64)))
            .try_for_each(|(index, _)| self.turn(index, state))
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
