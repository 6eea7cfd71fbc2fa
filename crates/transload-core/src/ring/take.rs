//! The consumer's side: take runs of written positions, then give them back.

use core::fmt;

use super::batches::MAX_OPEN_BATCHES;
use super::claim::CLOSED;
use super::ring::Ring;
use super::words::{Mark, Word};
use crate::sync::{Ordering, order};
use crate::wait::Barrier;

/// A consumer that asks for so many messages at once can wait a moment for them.
const MANY: u64 = 32;

/// The longest that it waits, in spin hints: 3 to 6 microseconds in all, as a hint takes 20 to 45 ns.
const LONGEST_PACE: u32 = 128;

/// The right to take from a ring. There is one a ring; it is not `Clone`.
#[derive(Debug)]
pub struct Reader {
    /// The next position to look at.
    next: u64,
    /// The number of the next batch.
    batch: u64,
    /// The oldest open batch when last looked at.
    oldest: u64,
    /// How many spin hints to wait before the next look for many.
    pace: u32,
    /// Whether the last look ended at a position whose producer gave up, or whose slot is held.
    at_skip: bool,
}

impl Reader {
    pub(super) fn new(start: u64) -> Self {
        Self { next: start, batch: 0, oldest: 0, pace: 0, at_skip: false }
    }

    /// Whether the last look ended at a position to be passed by [`Ring::pass_skipped`].
    #[inline]
    pub fn is_at_skip(&self) -> bool {
        self.at_skip
    }

    /// Waits before a look for many messages, longer and longer while looks find few.
    ///
    /// A consumer that is faster than its producers stands right behind them, and each look takes the cache lines of
    /// words and slots away from whoever is about to write them. If it lets them get ahead, one transfer of a line
    /// serves many messages, on both sides.
    #[inline]
    fn let_them_get_ahead(&self, max: u64) {
        if max >= MANY {
            for _ in 0..self.pace {
                core::hint::spin_loop();
            }
        }
    }

    #[inline]
    fn note_found(&mut self, max: u64, count: u64) {
        if max >= MANY {
            self.pace = if count < MANY { (self.pace + 4).min(LONGEST_PACE) } else { self.pace / 2 };
        }
    }
}

/// Written positions that follow each other, for a consumer that copies them out at once and then calls
/// [`Ring::finish`].
#[derive(Debug)]
#[must_use = "the slots go back to the producers only through `finish`"]
pub struct Run {
    first: u64,
    count: u64,
}

impl Run {
    /// The first position.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// How many positions, at least one.
    #[expect(clippy::cast_possible_truncation, reason = "at most the slots of a ring")]
    pub fn count(&self) -> usize {
        self.count as usize
    }
}

/// Written positions that follow each other, lent to whoever holds this, on any thread, until
/// [`Ring::release`].
#[derive(Debug)]
#[must_use = "the slots go back to the producers only through `release`"]
pub struct Taken {
    batch: u64,
    first: u64,
    count: u64,
}

impl Taken {
    /// The first position.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// How many positions, at least one.
    #[expect(clippy::cast_possible_truncation, reason = "at most the slots of a ring")]
    pub fn count(&self) -> usize {
        self.count as usize
    }
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeError {
    /// Nothing is published at the front.
    Empty,
    /// The ring is closed, and everything that it accepted has been taken.
    Closed,
    /// [`MAX_OPEN_BATCHES`] are open.
    TooManyBatches,
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the ring is empty"),
            Self::Closed => f.write_str("the ring is closed and drained"),
            Self::TooManyBatches => {
                write!(
                    f,
                    "{MAX_OPEN_BATCHES} batches are open or wait behind one that is: drop the oldest first"
                )
            }
        }
    }
}

impl core::error::Error for TakeError {}

impl<S: AsRef<[Word]>, B: Barrier> Ring<S, B> {
    /// Steps over positions at the front whose producers gave up, and frees them. Says how many sleeping producers
    /// to wake. A run never spans such a position, so the consumer calls this when a look
    /// [ended there](Reader::is_at_skip).
    #[cold]
    #[must_use = "producers that sleep for these slots are not woken by anybody else"]
    pub fn pass_skipped(&self, reader: &mut Reader) -> usize {
        if self.is_at_limit(reader) {
            return 0; // The take that follows refuses for the same reason.
        }
        // At most one lap, so that the call ends while producers skip on.
        let limit = reader.next + self.words.slots();
        let mut end = reader.next;
        while end < limit {
            match self.words.load(end) {
                Some(Mark::Skipped) => self.consumer.skipped.add_as_only_writer(1),
                // A held word says nothing about this lap: pass the slot only if its position is claimed.
                Some(Mark::Held) if end < self.tail() => {}
                _ => break,
            }
            end += 1;
        }
        if end == reader.next { 0 } else { self.free_to(reader, end) }
    }

    /// The next run of at most `max` written positions (zero counts as one), which the caller reads and then gives to
    /// [`finish`](Ring::finish), before any other call with this reader.
    ///
    /// # Errors
    ///
    /// [`TakeError`], each of its reasons.
    #[inline]
    pub fn peek(&self, reader: &mut Reader, max: usize) -> Result<Run, TakeError> {
        if self.is_at_limit(reader) {
            return Err(TakeError::TooManyBatches);
        }
        let first = reader.next;
        // Zero counts as one.
        let max = (max as u64).clamp(1, self.words.slots());
        reader.let_them_get_ahead(max);
        let mut count = 0;
        reader.at_skip = loop {
            match self.words.load(first + count) {
                Some(Mark::Written) => count += 1,
                word => break word.is_some(),
            }
            if count == max {
                break false;
            }
        };
        reader.note_found(max, count);
        if count == 0 { Err(self.nothing_there(reader)) } else { Ok(Run { first, count }) }
    }

    /// Whether the `count`th position from the front is published (zero counts as one). Those before it may still be
    /// being written. Cheaper than [`len`](Ring::len) for who polls: it takes no line from producers that are not
    /// there yet.
    #[inline]
    pub fn reaches(&self, reader: &Reader, count: usize) -> bool {
        let position = reader.next + (count as u64).clamp(1, self.words.slots()) - 1;
        match self.words.load(position) {
            // A held word says nothing about this lap.
            Some(Mark::Held) => position < self.tail(),
            word => word.is_some(),
        }
    }

    /// Whether a drained ring is closed. Asked after the look that found nothing.
    #[cold]
    fn nothing_there(&self, reader: &Reader) -> TakeError {
        if !self.is_closed() {
            return TakeError::Empty;
        }
        let tail = self.producers.tail.load(Ordering::Relaxed);
        if tail & CLOSED != 0 && tail & !CLOSED == reader.next { TakeError::Closed } else { TakeError::Empty }
    }

    /// Gives a run back to the producers; says how many sleeping ones to wake.
    #[inline]
    #[must_use = "producers that sleep for these slots are not woken by anybody else"]
    pub fn finish(&self, reader: &mut Reader, run: Run) -> usize {
        let Run { first, count } = run;
        debug_assert_eq!(first, reader.next, "a run is finished before the reader moves on");
        self.consumer.delivered.add_as_only_writer(count);
        self.free_to(reader, first + count)
    }

    /// Throws away what is written, up to the tail at the time of the call, and stops early at a position that is
    /// not yet published. Says how many messages that were, and how many sleeping producers to wake.
    #[must_use = "producers that sleep for these slots are not woken by anybody else"]
    pub fn discard(&self, reader: &mut Reader) -> (u64, usize) {
        let end = self.tail();
        let (mut discarded, mut wake) = (0, 0);
        while reader.next < end {
            wake += self.pass_skipped(reader);
            let most = usize::try_from(end.saturating_sub(reader.next)).unwrap_or(usize::MAX);
            if most == 0 {
                break;
            }
            let Ok(Run { first, count }) = self.peek(reader, most) else { break };
            discarded += count;
            wake += self.free_to(reader, first + count);
        }
        self.consumer.discarded.add_as_only_writer(discarded);
        (discarded, wake)
    }

    /// Takes at most `max` written positions out of the ring, to be held on any thread for as long as need be.
    ///
    /// # Errors
    ///
    /// [`TakeError`], each of its reasons.
    #[inline]
    pub fn take(&self, reader: &mut Reader, max: usize) -> Result<Taken, TakeError> {
        let Run { first, count } = self.peek(reader, max)?;
        let batch = self.open(reader, first + count);
        self.consumer.delivered.add_as_only_writer(count);
        Ok(Taken { batch, first, count })
    }

    /// Gives a batch back, from any thread and in any order; says how many sleeping producers to wake. Its slots
    /// are free once all batches taken before it are given back as well.
    #[inline]
    #[must_use = "producers that sleep for these slots are not woken by anybody else"]
    pub fn release(&self, taken: Taken) -> usize {
        let Taken { batch, .. } = taken;
        self.finish_batch(batch)
    }

    /// Marks the slots of a batch as held for ever, because somebody may still access them. The batch itself is
    /// released as usual; the slots are never claimed again.
    pub fn hold(&self, taken: &Taken) {
        self.count_held(taken.count);
        for position in taken.first..taken.first + taken.count {
            self.words.store(position, Mark::Held);
        }
    }

    /// Whether as many batches are open as there can be. The table is asked only if that is so by what the reader knew.
    #[inline]
    fn is_at_limit(&self, reader: &mut Reader) -> bool {
        if reader.batch - reader.oldest == MAX_OPEN_BATCHES as u64 {
            reader.oldest = self.batches.oldest();
        }
        reader.batch - reader.oldest == MAX_OPEN_BATCHES as u64
    }

    /// Opens a batch that ends before `end`, and moves the reader there.
    #[inline]
    fn open(&self, reader: &mut Reader, end: u64) -> u64 {
        let batch = reader.batch;
        self.batches.open(batch, end);
        reader.batch += 1;
        self.move_to(reader, end);
        batch
    }

    #[inline]
    fn move_to(&self, reader: &mut Reader, end: u64) {
        reader.next = end;
        self.consumer.taken.store(end, Ordering::Relaxed);
    }

    /// Frees everything before `end` as far as open batches allow.
    #[inline]
    fn free_to(&self, reader: &mut Reader, end: u64) -> usize {
        if reader.batch == 0 {
            // There never was a batch, so nobody else has ever moved `head`.
            let freed = end - self.head();
            self.move_to(reader, end);
            // SYNC: free. As in `free`.
            self.consumer.head.store(end, order!(Free, Release));
            return self.producers_to_wake(freed);
        }
        self.free_beside_batches(reader, end)
    }

    fn free_beside_batches(&self, reader: &mut Reader, end: u64) -> usize {
        if reader.batch != reader.oldest {
            reader.oldest = self.batches.oldest();
        }
        if reader.batch == reader.oldest {
            self.move_to(reader, end);
            let freed = self.free(end);
            return if freed == 0 { 0 } else { self.producers_to_wake(freed) };
        }
        // Slots behind an open batch: a batch of their own that nobody holds. There is an entry for it, since the
        // look that found them refuses at the limit.
        let batch = self.open(reader, end);
        self.finish_batch(batch)
    }

    #[inline]
    fn finish_batch(&self, batch: u64) -> usize {
        let mut freed = 0;
        self.batches.finish(batch, |end| freed += self.free(end));
        if freed == 0 { 0 } else { self.producers_to_wake(freed) }
    }

    /// Frees all slots before `end`; says how many that were.
    #[inline]
    fn free(&self, end: u64) -> u64 {
        // SYNC: free. The last reads of the slots come before the next claimer's writes. Threads may come here in
        // another order than they finished their batches: the furthest end wins.
        let before = self.consumer.head.fetch_max(end, order!(Free, AcqRel));
        end.saturating_sub(before)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most the slots of a ring")]
    fn producers_to_wake(&self, freed: u64) -> usize {
        if self.sleepers.producers_wait(&self.barrier) { freed as usize } else { 0 }
    }

    /// Announces that the consumer is about to sleep until its next position is published. It must look once more
    /// (take or peek) after this, then sleep, then call [`withdraw_consumer`](Ring::withdraw_consumer).
    pub fn announce_consumer(&self, reader: &mut Reader) {
        // Whoever sleeps has not been chasing anybody.
        reader.pace = 0;
        // A held slot is published by nobody: wait for the first that will be.
        let slots = self.words.slots();
        let free = (0..slots).find(|step| !self.words.is_held(reader.next + step)).unwrap_or(0);
        self.sleepers.announce_consumer(reader.next + free, &self.barrier);
    }

    /// Ends what [`announce_consumer`](Ring::announce_consumer) began.
    pub fn withdraw_consumer(&self) {
        self.sleepers.withdraw_consumer();
    }
}
