//! The producers' side: claim positions, then publish them.

use core::fmt;

use super::ring::Ring;
use super::words::{Mark, Word};
use crate::sync::{Ordering, order};
use crate::wait::Barrier;

/// The bit of `tail` that says: no further claim succeeds.
///
/// A bit of the same word, so that closing and claiming are ordered by one location: the tail that the closer
/// finds is final, and everything below it will be published.
pub(super) const CLOSED: u64 = 1 << 63;

/// Positions that one producer owns and has not yet published.
///
/// Not `Clone`: publishing consumes it. One that is dropped instead stops the consumer at its first position for
/// ever, so the owner keeps it in a guard.
#[derive(Debug)]
#[must_use = "the consumer waits for each claimed position: publish it, as skipped if nothing was written"]
pub struct Claim {
    first: u64,
    count: u64,
}

impl Claim {
    /// The first position.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// How many positions: at least one, unless all were split off.
    #[expect(clippy::cast_possible_truncation, reason = "at most the slots of a ring")]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Splits off the first `count` positions, or all if there are fewer.
    pub fn split_to(&mut self, count: usize) -> Claim {
        let count = (count as u64).min(self.count);
        let front = Claim { first: self.first, count };
        self.first += count;
        self.count -= count;
        front
    }

    /// Takes all positions out, leaving none.
    pub fn take(&mut self) -> Claim {
        self.split_to(usize::MAX)
    }
}

/// Why nothing was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// All slots were in use at one moment during the call.
    Full,
    /// The ring is closed.
    Closed,
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the ring is full",
            Self::Closed => "the ring is closed",
        })
    }
}

impl core::error::Error for ClaimError {}

impl<S: AsRef<[Word]>, B: Barrier> Ring<S, B> {
    /// Claims from 1 to `max` positions that follow each other; `max` of zero counts as one.
    ///
    /// Lock-free: a claim fails to move `tail` only because another one moved it.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Full`] only if the ring was full at one moment during the call, [`ClaimError::Closed`] once it
    /// is closed.
    #[inline]
    pub fn claim(&self, max: usize) -> Result<Claim, ClaimError> {
        let max = (max as u64).max(1);
        let side = &*self.producers;
        // SYNC: tail. What the claimer of the position before knew of `head`, we know as well.
        let mut tail = side.tail.load(Ordering::Acquire);
        loop {
            if tail & CLOSED != 0 {
                return Err(ClaimError::Closed);
            }
            // SYNC: cached-head. Whoever stored the copy had acquired `head`; loading it acquires the same.
            let Some(mut room) = self.room(tail, side.cached_head.load(order!(CachedHead, Acquire))) else {
                tail = side.tail.load(Ordering::Acquire);
                continue;
            };
            if room < max {
                // SYNC: free. The last reads of the slots below `head` come before our writes to them.
                let head = self.consumer.head.load(order!(Free, Acquire));
                // SYNC: cached-head
                side.cached_head.store(head, order!(CachedHead, Release));
                match self.room(tail, head) {
                    None => {
                        tail = side.tail.load(Ordering::Acquire);
                        continue;
                    }
                    // `tail` only grows: the ring was full when `head` was read, however old our `tail` is.
                    Some(0) => return Err(ClaimError::Full),
                    Some(now) => room = now,
                }
            }
            let mut count = room.min(max);
            // Read after `head`, so that a slot that was held before `head` passed it is seen.
            if self.held.load(Ordering::Relaxed) != 0 {
                match self.step_over_held(tail, count)? {
                    Ok(free) => count = free,
                    Err(moved) => {
                        tail = moved;
                        continue;
                    }
                }
            }
            // SYNC: tail.
            match side.tail.compare_exchange_weak(tail, tail + count, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(Claim { first: tail, count }),
                Err(now) => tail = now,
            }
        }
    }

    /// Free slots between `tail` and `head`; nothing if `tail` is so old that `head` has passed it.
    #[inline]
    fn room(&self, tail: u64, head: u64) -> Option<u64> {
        let used = tail.wrapping_sub(head);
        // A late store may leave a copy of `head` more than a lap behind: then there is no room by that copy.
        if used > i64::MAX as u64 { None } else { Some(self.words.slots().saturating_sub(used)) }
    }

    /// How many of the next `count` slots come before a held one; if the very first is held, moves `tail` over it
    /// and gives the new `tail` to look from.
    #[cold]
    fn step_over_held(&self, tail: u64, count: u64) -> Result<Result<u64, u64>, ClaimError> {
        if self.capacity() == 0 {
            return Err(ClaimError::Full);
        }
        let free = (0..count).take_while(|step| !self.words.is_held(tail + step)).count() as u64;
        if free > 0 {
            return Ok(Ok(free));
        }
        // The consumer steps over it too: a held word stays, so nobody needs to publish it. If the consumer sleeps for
        // it, whoever publishes the next position wakes it.
        let swapped =
            self.producers.tail.compare_exchange(tail, tail + 1, Ordering::AcqRel, Ordering::Acquire);
        Ok(Err(match swapped {
            Ok(_) => tail + 1,
            Err(now) => now,
        }))
    }

    /// Publishes claimed positions and says whether the consumer sleeps for one of them: then the caller must
    /// wake it.
    #[inline]
    #[must_use = "a consumer that sleeps for this position is not woken by anybody else"]
    pub fn publish(&self, claim: Claim, mark: Mark) -> bool {
        let Claim { first, count } = claim;
        if mark == Mark::Held {
            self.count_held(count);
        }
        for position in first..first + count {
            self.words.store(position, mark);
        }
        // The consumer may have fallen asleep for a position whose slot was held only then. Who claimed behind it
        // has seen that there are held slots.
        if self.held.load(Ordering::Relaxed) == 0 {
            self.sleepers.consumer_waits_for(first, count, &self.barrier)
        } else {
            self.sleepers.consumer_waits_before(first + count, &self.barrier)
        }
    }

    #[cold]
    pub(super) fn count_held(&self, count: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "at most the slots of a ring")]
        let count = count as usize;
        // Before the mark's release, so that whoever acquires `head` behind it sees the count.
        self.held.fetch_add(count, Ordering::Relaxed);
    }

    /// Closes the ring: no claim succeeds any more, everything claimed is still delivered. Says whether this call
    /// was the one that closed it; the caller then wakes all sleepers.
    pub fn close(&self) -> bool {
        let closed = self.producers.tail.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED == 0;
        self.closing.raise();
        closed
    }

    /// Whether the ring is closed. What was accepted before may still be there.
    pub fn is_closed(&self) -> bool {
        self.closing.is_raised()
    }

    /// Announces a producer that is about to sleep until there is room. It must look once more (claim) after
    /// this, then sleep, then call [`withdraw_producer`](Ring::withdraw_producer).
    pub fn announce_producer(&self) {
        self.sleepers.announce_producer(&self.barrier);
    }

    /// Ends what [`announce_producer`](Ring::announce_producer) began.
    pub fn withdraw_producer(&self) {
        self.sleepers.withdraw_producer();
    }
}
