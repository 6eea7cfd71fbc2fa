//! The pool, and what does not wait.

use std::sync::Arc;

use transload_core::{Grant, HintWord, MAX_BUFFERS, NoGrant, SEATS, Slot};

use super::body::{Body, Core, CorePool, LastHandle};
use super::statistics::{OldestLease, PoolStatistics};
use super::{AcquireError, Lease, PoolError, PoolHandle, RawLease, RawLeaseError, local};
use crate::barrier::ProcessBarrier;
use crate::region::Region;

/// Buffers of a region, lent one at a time. A clone is another handle on the same pool; all of them may be used on any
/// thread.
///
/// When the last handle is dropped, the pool is over. Leases that are out stay good; memory and registration go when the
/// last of them comes back.
#[derive(Clone, Debug)]
pub struct BufferPool {
    pub(super) body: Arc<Body>,
    /// Abandons the pool with the last clone. Beside the body rather than around it, so that a claim goes through one
    /// pointer.
    _last: Arc<LastHandle>,
    /// Whether buffers are filled with zeros before they are handed out. Here, so that a claim need not ask the body.
    zeroed: bool,
}

/// How a pool is made.
#[derive(Clone, Debug)]
pub struct PoolBuilder {
    region: Region,
    zeroed: bool,
}

impl PoolBuilder {
    /// Fills each buffer with zeros before it is handed out, so that no owner sees what another wrote. Off at first. It
    /// costs a write of the whole buffer with each lease.
    #[must_use]
    pub fn zeroed(mut self, zeroed: bool) -> Self {
        self.zeroed = zeroed;
        self
    }

    /// Makes the pool: 8 bytes for each buffer, and some 33 KiB.
    ///
    /// # Errors
    ///
    /// [`PoolError::TooManyBuffers`] above 2^31, [`PoolError::BuffersTooLarge`] from 4 GiB on, [`PoolError::Slab`] if a ring or another pool hands out the slab's
    /// parts. The slab is then as it was.
    pub fn build(self) -> Result<BufferPool, PoolError> {
        let count = self.region.slab().buffer_count();
        let size = self.region.slab().buffer_size();
        let Ok(buffer_len) = u32::try_from(size) else {
            return Err(PoolError::BuffersTooLarge { actual: size, max: u32::MAX as usize });
        };
        let too_many = || PoolError::TooManyBuffers { actual: count, max: MAX_BUFFERS };
        if count > MAX_BUFFERS {
            return Err(too_many());
        }
        // Before the control words are allocated, which an occupied slab would not need.
        let tenancy = self.region.slab().occupy()?;
        let slots: Box<[Slot]> = (0..count).map(|_| Slot::new()).collect();
        let hints = (0..CorePool::hint_words(count)).map(|_| HintWord::new()).collect();
        let pool = CorePool::new(slots, hints, ProcessBarrier::new()).map_err(|_| too_many())?;
        let body = Body::new(Core::new(pool), self.region, tenancy, buffer_len);
        Ok(BufferPool { _last: Arc::new(LastHandle(body.clone())), body, zeroed: self.zeroed })
    }
}

impl BufferPool {
    /// A pool of all buffers of the region's slab.
    ///
    /// # Errors
    ///
    /// As [`PoolBuilder::build`].
    pub fn new(region: &Region) -> Result<Self, PoolError> {
        Self::builder(region).build()
    }

    /// Starts a pool with options.
    pub fn builder(region: &Region) -> PoolBuilder {
        PoolBuilder { region: region.clone(), zeroed: false }
    }

    /// A lease, if there is one, of any buffer. Takes no lock and makes no system call; allocates at a thread's first use
    /// of the pool and never again.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Exhausted`] if all buffers were out at one moment during the call, [`AcquireError::Closed`].
    #[inline]
    pub fn try_acquire(&self) -> Result<Lease, AcquireError> {
        self.hand_over(local::claim(&self.body.core))
    }

    /// Up to `count` leases, appended to `leases`; says how many, at least one unless `count` is zero.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](BufferPool::try_acquire); nothing was appended then.
    pub fn acquire_batch(&self, count: usize, leases: &mut Vec<Lease>) -> Result<usize, AcquireError> {
        for got in 0..count {
            match self.try_acquire() {
                Ok(lease) => leases.push(lease),
                Err(error) if got == 0 => return Err(error),
                Err(_) => return Ok(got),
            }
        }
        Ok(count)
    }

    #[inline]
    pub(super) fn hand_over(&self, claimed: Result<Grant, NoGrant>) -> Result<Lease, AcquireError> {
        match claimed {
            Ok(grant) => {
                let grant = if self.zeroed { self.body.wipe(grant) } else { grant };
                Ok(Lease::new(&self.body, grant))
            }
            Err(none) => Err(self.refusal(none)),
        }
    }

    #[cold]
    fn refusal(&self, none: NoGrant) -> AcquireError {
        match none {
            NoGrant::Exhausted => AcquireError::Exhausted { capacity: self.capacity() },
            NoGrant::Closed => AcquireError::Closed,
        }
    }

    /// For one thread's hot loop.
    pub fn handle(&self) -> PoolHandle {
        PoolHandle::new(self.clone())
    }

    /// Buffers that are free. Exact when nobody is active, else a hint.
    pub fn available(&self) -> usize {
        self.capacity() as usize - self.body.core.pool.leased()
    }

    /// Buffers in all.
    pub fn capacity(&self) -> u32 {
        u32::try_from(self.body.core.pool.capacity()).unwrap_or(u32::MAX)
    }

    /// Bytes of a buffer.
    pub fn buffer_size(&self) -> usize {
        self.body.buffer_size
    }

    /// The region.
    pub fn region(&self) -> &Region {
        &self.body.region
    }

    /// What the pool has done so far. Looks at all control words, 8 bytes a buffer.
    pub fn statistics(&self) -> PoolStatistics {
        let core = &self.body.core;
        let tally = core.pool.tally();
        let out = u64::try_from(core.pool.leased()).unwrap_or(u64::MAX);
        PoolStatistics {
            capacity: self.capacity(),
            leased: u32::try_from(out.saturating_sub(tally.quarantined)).unwrap_or(u32::MAX),
            acquired: tally.acquired,
            released: tally.released,
            quarantined: tally.quarantined,
            exhausted: tally.exhausted,
            waited: core.waited.value(),
            oldest: self.oldest(),
        }
    }

    pub(super) fn oldest(&self) -> Option<OldestLease> {
        let core = &self.body.core;
        let (oldest, held) = core.at_time(|clock| {
            let oldest = core.pool.oldest()?;
            Some((oldest, clock.age(oldest.ticks)))
        })?;
        let thread = if oldest.seat < SEATS { core.holder(oldest.seat) } else { None };
        Some(OldestLease { index: oldest.index, held, thread })
    }

    /// Hands out nothing more, and ends all waiting with [`AcquireError::Closed`]. Leases that are out stay good and come
    /// back as ever, raw ones can still be redeemed. The memory goes when handles and leases are gone, as for any pool.
    pub fn close(&self) {
        if self.body.core.pool.close() {
            self.body.core.freed.notify(usize::MAX);
        }
    }

    /// Whether the pool is closed.
    pub fn is_closed(&self) -> bool {
        self.body.core.pool.is_closed()
    }

    /// Redeems a raw lease: of all copies of it one, once.
    ///
    /// # Errors
    ///
    /// [`RawLeaseError`]; nothing was changed then.
    pub fn lease_from_raw(&self, raw: RawLease) -> Result<Lease, RawLeaseError> {
        let core = &self.body.core;
        if raw.pool != core.id {
            return Err(RawLeaseError::Foreign { expected: core.id, actual: raw.pool });
        }
        if raw.index >= self.capacity() {
            return Err(RawLeaseError::NoSuchBuffer { index: raw.index, capacity: self.capacity() });
        }
        let grant = core.pool.take_up(raw.index, raw.generation);
        grant.map(|grant| Lease::new(&self.body, grant)).ok_or(RawLeaseError::Stale { index: raw.index })
    }

    /// Redeems a raw lease and gives the buffer back.
    ///
    /// # Errors
    ///
    /// [`RawLeaseError`]; nothing was changed then.
    pub fn release_raw(&self, raw: RawLease) -> Result<(), RawLeaseError> {
        self.lease_from_raw(raw).map(drop)
    }
}
