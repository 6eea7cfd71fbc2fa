//! The words that all members see.

use core::fmt;

use super::cell::Cell;
use super::layout::{
    CONSUMER, CONTROL_WORDS, HEAD, MAX_MEMBERS, MAX_RING_SLOTS, MAX_SHARED_BUFFERS, MEMBER_WORDS, RELEASED,
    SLEEPER_WORDS, SharedCount, Sleeper, TAIL,
};
use super::slot::{Holding, SlotState, SlotWord};
use super::word::{FutexWord, SharedWord};
use crate::sync::{AtomicU64, Ordering, order};

/// The words of a pool and its ring, in memory that processes share: zeroed memory is a free pool and an empty ring.
///
/// Each process, and each thread that only recovers, has its own.
#[derive(Debug)]
pub struct SharedParts<W, F> {
    control: W,
    sleepers: F,
    members: W,
    slots: W,
    cells: W,
    #[cfg(feature = "model")]
    fuse: crate::sync::Fuse,
}

/// Words that make no pool and ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedGeometryError {
    /// Of which words.
    pub what: &'static str,
    /// How many there are.
    pub actual: usize,
    /// How many there must be at least.
    pub least: usize,
    /// How many there may be at most.
    pub most: usize,
}

impl fmt::Display for SharedGeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, actual, least, most } = self;
        write!(f, "{actual} {what}, where there must be from {least} to {most}")
    }
}

impl core::error::Error for SharedGeometryError {}

impl<W: AsRef<[SharedWord]>, F: AsRef<[FutexWord]>> SharedParts<W, F> {
    /// The words, each kind in one piece: [`CONTROL_WORDS`], [`SLEEPER_WORDS`], [`MEMBER_WORDS`] for each member and
    /// for number 0, one a buffer, one a message in flight (a power of two).
    ///
    /// # Errors
    ///
    /// [`SharedGeometryError`] if there are too few or too many of one kind.
    pub fn new(control: W, sleepers: F, members: W, slots: W, cells: W) -> Result<Self, SharedGeometryError> {
        let check = |what, actual, least, most| {
            let fits = (least..=most).contains(&actual);
            if fits { Ok(()) } else { Err(SharedGeometryError { what, actual, least, most }) }
        };
        check("control words", control.as_ref().len(), CONTROL_WORDS, usize::MAX)?;
        check("sleeper words", sleepers.as_ref().len(), SLEEPER_WORDS, usize::MAX)?;
        check("members", members.as_ref().len() / MEMBER_WORDS, 2, MAX_MEMBERS + 1)?;
        check("slot words", slots.as_ref().len(), 1, MAX_SHARED_BUFFERS)?;
        let count = cells.as_ref().len();
        check("cells", count, 1, MAX_RING_SLOTS)?;
        check("cells of a power of two", count, count.next_power_of_two(), MAX_RING_SLOTS)?;
        Ok(Self {
            control,
            sleepers,
            members,
            slots,
            cells,
            #[cfg(feature = "model")]
            fuse: crate::sync::Fuse::new(),
        })
    }

    /// Fills new words as if so many laps and leases were over: for tests that begin next to a wrap.
    #[doc(hidden)]
    pub fn start_at(&self, lap: u64, tag: u32) {
        let position = lap.wrapping_mul(self.ring_slots() as u64);
        self.word(TAIL).store(position, Ordering::Relaxed);
        self.word(HEAD).store(position, Ordering::Relaxed);
        for cell in self.cells.as_ref() {
            cell.0.store(Cell::empty(lap).0, Ordering::Relaxed);
        }
        for slot in self.slots.as_ref() {
            slot.0.store(SlotWord::new(0, SlotState::Free, false, tag, 0).0, Ordering::Relaxed);
        }
    }

    /// Whoever uses these words dies at its `writes`th next write to one of them, before it takes place.
    #[cfg(feature = "model")]
    pub fn die_before_write(&self, writes: u32) {
        self.fuse.set(writes);
    }

    /// Called before each write to a word.
    #[inline]
    #[cfg_attr(not(feature = "model"), expect(clippy::unused_self, reason = "only models let members die"))]
    pub(super) fn step(&self) {
        #[cfg(feature = "model")]
        self.fuse.burn();
    }

    /// How many buffers there are.
    pub fn buffers(&self) -> usize {
        self.slots.as_ref().len()
    }

    /// How many messages the ring has room for.
    pub fn ring_slots(&self) -> usize {
        self.cells.as_ref().len()
    }

    /// How many members there can be.
    pub fn members(&self) -> usize {
        self.members.as_ref().len() / MEMBER_WORDS - 1
    }

    /// Whether this can be a member's number.
    pub(super) fn is_member(&self, number: u16) -> bool {
        (1..=self.members()).contains(&usize::from(number))
    }

    /// A count at this moment.
    pub fn count(&self, count: SharedCount) -> u64 {
        self.word(count.place()).load(Ordering::Relaxed)
    }

    /// Adds to a count.
    pub fn add(&self, count: SharedCount, more: u64) {
        self.step();
        // SYNC: shared-tally (release): whoever sees the count of a recovery sees what it has freed.
        self.word(count.place()).fetch_add(more, order!(SharedTally, Release));
    }

    /// Who says that it is the consumer; 0 if nobody does.
    pub fn consumer(&self) -> u16 {
        u16::try_from(self.word(CONSUMER).load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Notes who is the consumer.
    pub fn set_consumer(&self, member: u16) {
        self.word(CONSUMER).store(member.into(), Ordering::Relaxed);
    }

    /// The word that some sleep on.
    pub fn sleeper(&self, sleeper: Sleeper) -> &FutexWord {
        &self.sleepers.as_ref()[sleeper.place()]
    }

    /// How many messages were published since the words were made; a sender that is about to say so, or has died before it
    /// did, may have published one more.
    pub fn published(&self) -> u64 {
        let (tail, head) = (self.tail().load(Ordering::Relaxed), self.head().load(Ordering::Relaxed));
        if head.wrapping_sub(tail).cast_signed() > 0 { head } else { tail }
    }

    /// Messages in the ring that are published and not done: at some moment during the call, and at most the ring's size.
    pub fn pending(&self) -> usize {
        let oldest = self.oldest(self.head().load(Ordering::Relaxed));
        let pending = self.tail().load(Ordering::Relaxed).wrapping_sub(oldest);
        // Of two moments, or of somebody who lies.
        usize::try_from(pending).map_or(0, |pending| if pending > self.ring_slots() { 0 } else { pending })
    }

    /// How many of the messages that were published are done, from the first on; or fewer, for a while after a consumer has
    /// died.
    pub fn done(&self) -> u64 {
        self.oldest(self.head().load(Ordering::Relaxed))
    }

    /// Who has a buffer at this moment; nobody if it is free, or if its word makes no sense.
    pub fn holding(&self, index: u32) -> Option<Holding> {
        let word = self.slot_word(index)?;
        let state = word.state().filter(|&state| state != SlotState::Free)?;
        Some(Holding { member: word.owner(), state })
    }

    /// The word of a slot; nothing if there is no such slot.
    pub(super) fn slot_word(&self, index: u32) -> Option<SlotWord> {
        self.slot(index).map(|word| SlotWord(word.load(Ordering::Relaxed)))
    }

    pub(super) fn slot(&self, index: u32) -> Option<&AtomicU64> {
        self.slots.as_ref().get(index as usize).map(|word| &word.0)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "masked to the cells there are")]
    pub(super) fn cell(&self, position: u64) -> &AtomicU64 {
        let cells = self.cells.as_ref();
        // As many as a power of two.
        &cells[(position & (cells.len() as u64 - 1)) as usize].0
    }

    #[inline]
    pub(super) fn lap_of(&self, position: u64) -> u64 {
        position >> self.ring_slots().trailing_zeros()
    }

    #[inline]
    pub(super) fn tail(&self) -> &AtomicU64 {
        self.word(TAIL)
    }

    #[inline]
    pub(super) fn head(&self) -> &AtomicU64 {
        self.word(HEAD)
    }

    /// The first position that may not be done, by this head. It lags if consumers died before they moved it on, but
    /// what is done for certain is all that stands a ring before the tail: a cell was emptied before it was filled.
    pub(super) fn oldest(&self, head: u64) -> u64 {
        let least = self.tail().load(Ordering::Relaxed).wrapping_sub(self.ring_slots() as u64);
        if least.wrapping_sub(head).cast_signed() > 0 { least } else { head }
    }

    fn word(&self, place: usize) -> &AtomicU64 {
        &self.control.as_ref()[place].0
    }

    /// How many buffers a member has given back. Its alone to write.
    #[inline]
    pub(super) fn released_by(&self, member: u16) -> &AtomicU64 {
        &self.members.as_ref()[usize::from(member) * MEMBER_WORDS + RELEASED].0
    }

    /// A number that changes with each buffer that is given back, and with each recovery.
    pub(super) fn released(&self) -> u64 {
        // SYNC: shared-tally (acquire): whoever sees the count of a release sees the freed word.
        let load = |word: &AtomicU64| word.load(order!(SharedTally, Acquire));
        let members = self.members.as_ref().chunks_exact(MEMBER_WORDS).map(|entry| load(&entry[RELEASED].0));
        let recoveries = load(self.word(SharedCount::Recoveries.place()));
        members.fold(recoveries, u64::wrapping_add)
    }
}
