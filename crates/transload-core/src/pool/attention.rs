//! What a release has to look at once its buffer is free: does anybody wait, and is this the end?

use crate::sync::{AtomicU32, Ordering, order};
use crate::wait::Barrier;

/// No claim succeeds any more.
const CLOSED: u32 = 1 << 31;
/// Nobody is left who could claim: the last release ends the pool.
const ABANDONED: u32 = 1 << 30;
const WAITERS: u32 = ABANDONED - 1;

/// One word that claims and releases read and that seldom changes: it is non-zero while somebody waits, and once the
/// pool is closed.
#[derive(Debug)]
pub(super) struct Attention(AtomicU32);

/// What a release must tell others, besides having given its buffer back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a sleeper is not woken, and a closed pool not ended, by anybody else"]
pub struct Notice(u32);

impl Notice {
    /// Nothing: so it is nearly always.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Somebody sleeps until a buffer is free: wake one.
    pub fn wakes(self) -> bool {
        self.0 & WAITERS != 0
    }

    /// The pool was abandoned: ask whether this was the last buffer, with [`Pool::is_drained`](super::Pool::is_drained).
    pub fn is_abandoned(self) -> bool {
        self.0 & ABANDONED != 0
    }
}

impl Attention {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        // The thread that closed, or was told so, sees it; for others a moment more or less is no matter.
        self.0.load(Ordering::Relaxed) & CLOSED != 0
    }

    pub(super) fn is_abandoned(&self) -> bool {
        // SYNC: abandon (acquire): all claims that were counted before.
        self.0.load(order!(Abandon, Acquire)) & ABANDONED != 0
    }

    pub(super) fn close(&self) -> bool {
        self.0.fetch_or(CLOSED, Ordering::Relaxed) & CLOSED == 0
    }

    /// SYNC: abandon (release). Claims are over; and the bit comes before the look at the counts, as seen by any release.
    pub(super) fn abandon(&self, barrier: &impl Barrier) {
        self.0.fetch_or(CLOSED | ABANDONED, order!(Abandon, Release));
        barrier.heavy();
    }

    /// SYNC: sleep-lease. The count grows before the sleeper's last look at the buffers.
    pub(super) fn announce(&self, barrier: &impl Barrier) {
        self.0.fetch_add(1, Ordering::Relaxed);
        barrier.heavy();
    }

    pub(super) fn withdraw(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// What the caller, who has just freed a buffer, must tell others.
    ///
    /// SYNC: sleep-lease. The store of the slot's word comes before the look at the count.
    /// SYNC: drain. The count of the release comes before the look at the bit.
    #[inline]
    pub(super) fn notice(&self, barrier: &impl Barrier) -> Notice {
        barrier.light();
        Notice(self.0.load(Ordering::Relaxed))
    }
}
