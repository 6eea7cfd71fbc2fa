//! The state of a pool and what anyone may ask of it.

use core::fmt;

use super::attention::Attention;
use super::geometry::{MAX_BUFFERS, PoolGeometryError};
use super::seat::{Seat, Seats};
use super::slot::{Slot, stamp};
use super::summary::{HintWord, Summary, words_for};
use crate::sync::{AtomicU64, Ordering};
use crate::wait::Barrier;
use crate::{Counter, Padded};

/// Equal buffers, lent one at a time, over control words in memory of the caller's.
///
/// `S` holds one [`Slot`] a buffer, `H` the words of hints, `B` is the barrier of its sleepers. The pool hands out
/// indices; what stands in the buffers is the caller's business.
///
/// ```
/// use transload_core::{FullBarrier, HintWord, NoGrant, Pool, Slot};
///
/// let slots = [Slot::new(), Slot::new(), Slot::new()];
/// let pool = Pool::new(slots, [HintWord::new()], FullBarrier)?;
/// let seat = pool.take_seat();                  // one a thread
///
/// let grants = [(); 3].map(|()| pool.claim(&seat).unwrap());
/// assert_eq!(pool.claim(&seat).unwrap_err(), NoGrant::Exhausted);
/// for grant in grants {
///     assert!(pool.release(&seat, grant).is_none()); // nobody to be woken
/// }
/// pool.leave(seat);
/// # Ok::<(), transload_core::PoolGeometryError>(())
/// ```
pub struct Pool<S, H, B> {
    // Read by all, never written.
    pub(super) slots: S,
    pub(super) summary: Summary<H>,
    pub(super) barrier: B,
    pub(super) shared: Padded<Shared>,
    pub(super) seats: Seats,
}

/// What all read and hardly anybody writes.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) attention: Attention,
    /// The [`stamp`] of the time as far as the pool knows it. Moved by whoever asks for ages; added to the word by each
    /// claim.
    pub(super) stamp: AtomicU64,
    /// Buffers that never come back.
    pub(super) quarantined: Counter,
}

/// What a pool has counted. Each number is of some moment during the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Claims that found a buffer.
    pub acquired: u64,
    /// Buffers given back.
    pub released: u64,
    /// Claims that found none.
    pub exhausted: u64,
    /// Buffers kept back for ever.
    pub quarantined: u64,
}

/// The lease that has been out longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// Its buffer.
    pub index: u32,
    /// How many ticks ago it was claimed, modulo 2^18.
    pub ticks: u64,
    /// The seat that claimed it.
    pub seat: usize,
}

impl<S: AsRef<[Slot]>, H: AsRef<[HintWord]>, B: Barrier> Pool<S, H, B> {
    /// A pool of as many buffers as there are slots, all free. `slots.as_ref()` and `hints.as_ref()` must give the same
    /// slice each time; there must be [`hint_words`](Pool::hint_words) hints.
    ///
    /// # Errors
    ///
    /// [`PoolGeometryError`] if there are no slots, or more than [`MAX_BUFFERS`], or not as many hints as needed.
    pub fn new(slots: S, hints: H, barrier: B) -> Result<Self, PoolGeometryError> {
        let count = slots.as_ref().len();
        if !(1..=MAX_BUFFERS).contains(&count) {
            return Err(PoolGeometryError::Slots { actual: count });
        }
        let (needed, available) = (Self::hint_words(count), hints.as_ref().len());
        if needed != available {
            return Err(PoolGeometryError::Hints { needed, available });
        }
        let shared = Shared {
            attention: Attention::new(),
            stamp: AtomicU64::new(stamp(0)),
            quarantined: Counter::new(),
        };
        Ok(Self {
            summary: Summary::full(count, hints),
            slots,
            barrier,
            shared: Padded(shared),
            seats: Seats::new(),
        })
    }

    /// Words of hints for a pool of so many buffers: one for 64, and few more.
    pub fn hint_words(buffers: usize) -> usize {
        words_for(buffers)
    }

    /// How many buffers there are.
    pub fn capacity(&self) -> usize {
        self.slots.as_ref().len()
    }

    #[inline]
    pub(super) fn slot(&self, index: u32) -> &Slot {
        &self.slots.as_ref()[index as usize]
    }

    /// A seat for one thread: its own, or the [shared](Seat::shared) one when all [`SEATS`](super::SEATS) are taken. To
    /// be given back by [`leave`](Pool::leave), else it is lost to all others.
    pub fn take_seat(&self) -> Seat {
        self.seats.take()
    }

    /// Gives a seat back, and its hints to all.
    pub fn leave(&self, seat: Seat) {
        if !seat.is_shared() {
            self.shed(&seat, true);
        }
        self.seats.leave(seat);
    }

    /// Buffers that are leased, raw or quarantined: at no moment of the call were fewer of them at once, but for
    /// claims and releases that have begun and not ended. From 0 to the capacity.
    pub fn leased(&self) -> usize {
        // In this order the difference is never more than what was leased between the two.
        let acquired = self.seats.acquired();
        let leased = self.seats.out(acquired);
        // Less than none: what was claimed behind our first sum and is back before our second.
        let leased = if leased > MAX_BUFFERS as u64 { 0 } else { leased };
        usize::try_from(leased).map_or(self.capacity(), |leased| leased.min(self.capacity()))
    }

    /// What has been counted so far.
    pub fn tally(&self) -> Tally {
        let acquired = self.seats.acquired();
        let out = self.seats.out(acquired);
        let released = if out > MAX_BUFFERS as u64 { acquired } else { acquired.wrapping_sub(out) };
        Tally {
            acquired,
            released,
            exhausted: self.seats.exhausted(),
            quarantined: self.shared.quarantined.value(),
        }
    }

    /// Time goes on: claims bear this number from now on. Compared modulo 2^18.
    pub fn set_tick(&self, tick: u64) {
        self.shared.stamp.store(stamp(tick), Ordering::Relaxed);
    }

    /// The lease with the oldest tick, of all that are out now. Looks at every slot.
    pub fn oldest(&self) -> Option<Oldest> {
        let now = self.shared.stamp.load(Ordering::Relaxed);
        let mut oldest: Option<Oldest> = None;
        for (index, slot) in (0..).zip(self.slots.as_ref()) {
            if let Some((ticks, seat)) = slot.holder(now)
                && oldest.is_none_or(|oldest| oldest.ticks < ticks)
            {
                oldest = Some(Oldest { index, ticks, seat });
            }
        }
        oldest
    }

    /// No claim succeeds any more, for those who learn of it. Says whether this call was the one that closed; the
    /// caller then wakes all sleepers. Buffers go on coming back.
    pub fn close(&self) -> bool {
        self.shared.attention.close()
    }

    /// Whether the pool is closed.
    pub fn is_closed(&self) -> bool {
        self.shared.attention.is_closed()
    }

    /// Nobody is left who could claim, and whatever there is ends when the last buffer is back.
    ///
    /// Call it once, when no claim is going on and none can begin. Afterwards, and after each release whose
    /// [`Notice`](super::Notice) says so, take a lock that is common to all of them and ask
    /// [`is_drained`](Pool::is_drained): at least one finds it so, and it is for whoever has the lock then to end what is
    /// to be ended, once.
    pub fn abandon(&self) {
        self.shared.attention.abandon(&self.barrier);
    }

    /// Whether [`abandon`](Pool::abandon) has been called.
    pub fn is_abandoned(&self) -> bool {
        self.shared.attention.is_abandoned()
    }

    /// Whether every buffer is back, of an abandoned pool. Then no owner touches the bytes of any; but a release may not
    /// yet be done with the control words.
    pub fn is_drained(&self) -> bool {
        // Claims are over, and whoever sees the pool abandoned sees all of them: one of the sums stands still, and the
        // other is no higher.
        self.is_abandoned() && self.seats.out(self.seats.acquired()) == 0
    }

    /// Announces somebody who is about to sleep until a buffer is free. It must look once more (claim) after this, then
    /// sleep, then call [`withdraw_waiter`](Pool::withdraw_waiter).
    pub fn announce_waiter(&self) {
        self.shared.attention.announce(&self.barrier);
    }

    /// Ends what [`announce_waiter`](Pool::announce_waiter) began.
    pub fn withdraw_waiter(&self) {
        self.shared.attention.withdraw();
    }
}

impl<S: AsRef<[Slot]>, H: AsRef<[HintWord]>, B: Barrier> fmt::Debug for Pool<S, H, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("capacity", &self.capacity())
            .field("leased", &self.leased())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
