//! Claiming one buffer.

use core::fmt;

use super::pool::Pool;
use super::seat::Seat;
use super::slot::{Claimer, Grant, Slot};
use super::summary::HintWord;
use crate::sync::{Ordering, is_weak};
use crate::wait::Barrier;

/// Why there is no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGrant {
    /// All buffers were out at one moment during the call.
    Exhausted,
    /// The pool is closed.
    Closed,
}

impl fmt::Display for NoGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exhausted => "all buffers are leased",
            Self::Closed => "the pool is closed",
        })
    }
}

impl core::error::Error for NoGrant {}

impl<S: AsRef<[Slot]>, H: AsRef<[HintWord]>, B: Barrier> Pool<S, H, B> {
    /// Claims a buffer, in no particular order.
    ///
    /// Lock-free: a claim looks on only because another one got what it saw free.
    ///
    /// # Errors
    ///
    /// [`NoGrant::Exhausted`] only if all buffers were leased at one moment during the call, [`NoGrant::Closed`] once
    /// the pool is closed.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call's stores delay the next swap")]
    pub fn claim(&self, seat: &Seat) -> Result<Grant, NoGrant> {
        if !self.is_closed()
            && let Some(grant) = self.claim_top(seat)
        {
            return Ok(grant);
        }
        self.claim_on(seat)
    }

    /// Claims the buffer that the seat gave back last: for most claims this is all. It stays the top when it is
    /// claimed, as forgetting it would be one more store that the next claim's swap has to wait for. The shared seat
    /// has no top.
    #[inline]
    fn claim_top(&self, seat: &Seat) -> Option<Grant> {
        let record = self.seats.own(seat)?;
        let top = record.top_or_none();
        let slot = self.slots.as_ref().get(top as usize)?;
        let twin_counts_first = is_weak!(TallyFirst);
        if twin_counts_first {
            record.count_acquired_alone();
        }
        if !slot.claim(self.claimer(seat)) {
            return None;
        }
        if !twin_counts_first {
            record.count_acquired_alone();
        }
        Some(Grant::new(top))
    }

    /// Out of the way of `claim`, which is straight without it.
    #[cold]
    #[inline(never)]
    fn claim_on(&self, seat: &Seat) -> Result<Grant, NoGrant> {
        if self.is_closed() {
            return Err(NoGrant::Closed);
        }
        match self.claim_hinted(seat) {
            Some(grant) => Ok(grant),
            None => self.find(seat),
        }
    }

    /// Claims one of the buffers that the seat has hints of; the shared one has none.
    pub(super) fn claim_hinted(&self, seat: &Seat) -> Option<Grant> {
        while let Some(index) = self.seats.record(seat).pop() {
            if let Some(grant) = self.claim_this(seat, index) {
                return Some(grant);
            }
        }
        None
    }

    /// Claims this very buffer, if it is free.
    #[inline]
    pub(super) fn claim_this(&self, seat: &Seat, index: u32) -> Option<Grant> {
        if is_weak!(TallyFirst) {
            // The twin: a claim that is counted before it is made.
            self.seats.record(seat).count_acquired(seat);
            return self.slot(index).claim(self.claimer(seat)).then(|| Grant::new(index));
        }
        self.slot(index).claim(self.claimer(seat)).then(|| self.grant(seat, index))
    }

    #[inline]
    pub(super) fn claimer(&self, seat: &Seat) -> Claimer {
        // Whether claims of a whole run fall into one tick or the next is no matter.
        Claimer::new(seat.index(), self.shared.stamp.load(Ordering::Relaxed))
    }

    /// Counts a claim that was made.
    #[inline]
    pub(super) fn grant(&self, seat: &Seat, index: u32) -> Grant {
        self.seats.record(seat).count_acquired(seat);
        Grant::new(index)
    }
}
