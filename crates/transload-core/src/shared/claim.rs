//! Claiming one buffer.

use core::fmt;

use super::grant::SharedGrant;
use super::member::SharedMember;
use super::poison::Poisoned;
use super::slot::{SlotState, SlotWord};
use super::word::{FutexWord, SharedWord};
use crate::sync::{AtomicU32, AtomicU64, Ordering, order};
use crate::wait::Barrier;

/// How often all words are looked at while others give buffers back and get them first.
const LAPS: u32 = 4;

/// Why there is no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedNoGrant {
    /// All buffers were out at one moment during the call. A release that had not returned may count as not begun.
    Exhausted,
    /// Others were faster several times over.
    Contended,
    /// The words are spoilt.
    Poisoned(Poisoned),
}

impl fmt::Display for SharedNoGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted => f.write_str("all buffers are leased"),
            Self::Contended => f.write_str("others took each buffer that became free"),
            Self::Poisoned(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for SharedNoGrant {}

impl From<Poisoned> for SharedNoGrant {
    fn from(why: Poisoned) -> Self {
        Self::Poisoned(why)
    }
}

/// Where a thread looks for a free buffer next. Several threads may share one, and get into each other's way then.
#[derive(Debug, Default)]
pub struct ClaimCursor {
    next: AtomicU32,
    /// One more than the number of releases at which all words were found taken; 0 if none were.
    exhausted_at: AtomicU64,
}

impl ClaimCursor {
    /// Begins at a buffer; best at different ones for different threads.
    pub fn new(first: u32) -> Self {
        Self { next: AtomicU32::new(first), exhausted_at: AtomicU64::new(0) }
    }
}

impl<W, F, P, B> SharedMember<W, F, P, B>
where
    W: AsRef<[SharedWord]>,
    F: AsRef<[FutexWord]>,
    P: AsRef<[SharedWord]>,
    B: Barrier,
{
    /// Claims a buffer: the next free one from the cursor on, so that buffers which one thread claims in a row lie in a
    /// row where that is possible.
    ///
    /// # Errors
    ///
    /// [`SharedNoGrant`].
    #[inline]
    pub fn claim(&self, cursor: &ClaimCursor) -> Result<SharedGrant, SharedNoGrant> {
        self.check()?;
        let next = cursor.next.load(Ordering::Relaxed);
        // Somebody else's cursor may have been made for more.
        let first = if (next as usize) < self.parts.buffers() { next } else { 0 };
        match self.claim_this(first)? {
            Some(grant) => {
                cursor.next.store(first + 1, Ordering::Relaxed);
                Ok(grant)
            }
            None => self.look(cursor, first),
        }
    }

    /// Looks at all words, from the one behind `first` on.
    #[inline(never)]
    #[expect(clippy::cast_possible_truncation, reason = "at most 2^24 buffers")]
    fn look(&self, cursor: &ClaimCursor, first: u32) -> Result<SharedGrant, SharedNoGrant> {
        let buffers = self.parts.buffers() as u32;
        let mut before = self.parts.released();
        if cursor.exhausted_at.load(Ordering::Relaxed) == before.wrapping_add(1) {
            return Err(SharedNoGrant::Exhausted);
        }
        for _ in 0..LAPS {
            for index in (first + 1..buffers).chain(0..=first) {
                if let Some(grant) = self.claim_this(index)? {
                    cursor.next.store(index + 1, Ordering::Relaxed);
                    return Ok(grant);
                }
            }
            // What was given back during the lap was counted behind its word, and whatever came before the claims that
            // the lap has seen is in this sum. So if no count has changed, none of those claims came behind a release
            // that the lap has not seen: there was a moment at which all buffers were out.
            let after = self.parts.released();
            if after == before {
                cursor.exhausted_at.store(before.wrapping_add(1), Ordering::Relaxed);
                return Err(SharedNoGrant::Exhausted);
            }
            before = after;
        }
        Err(SharedNoGrant::Contended)
    }

    /// Claims this very buffer, if it is free.
    #[inline]
    fn claim_this(&self, index: u32) -> Result<Option<SharedGrant>, SharedNoGrant> {
        let slot = self.own_slot(index);
        // SYNC: shared-look (acquire): whatever its owner did before it got the buffer, a release for one, comes before
        // the sum behind our look. A word that is old fails the swap.
        let word = SlotWord(slot.load(order!(SharedLook, Acquire)));
        if !word.is(SlotState::Free) {
            return Ok(None);
        }
        let claimed = word.claimed_by(self.number);
        self.parts.step();
        // SYNC: shared-lend (acquire): the last owner's use of the bytes comes before ours. And the other side of
        // shared-look (release).
        let swapped =
            slot.compare_exchange(word.0, claimed.0, order!(SharedLend, AcqRel), order!(SharedLook, Acquire));
        if swapped.is_err() {
            return Ok(None);
        }
        self.hold(index, claimed)?;
        Ok(Some(SharedGrant::new(index)))
    }
}
