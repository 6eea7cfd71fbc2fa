//! The pool. Placeholder.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use event_listener::{Event, Listener};

use super::{AcquireError, Lease, PoolError, PoolHandle, RawLease, RawLeaseError};
use crate::memory::Tenancy;
use crate::region::Region;

/// Buffers of a region, lent one at a time. A clone is another handle.
#[derive(Clone, Debug)]
pub struct BufferPool {
    pub(super) body: Arc<Body>,
}

#[derive(Debug)]
pub(super) struct Body {
    pub(super) region: Region,
    free: Mutex<Vec<u32>>,
    event: Event,
    zero: bool,
    _tenancy: Tenancy,
}

/// How a pool is made.
#[derive(Clone, Debug)]
pub struct PoolBuilder {
    region: Region,
    zero: bool,
}

/// What a pool has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatistics {
    /// Leases handed out.
    pub acquired: u64,
    /// Leases given back.
    pub released: u64,
    /// The lease that has been out longest.
    pub oldest: Option<OldestLease>,
}

/// The lease that has been out longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldestLease {
    /// Its buffer.
    pub index: u32,
    /// For how long, at least.
    pub held: Duration,
}

impl PoolBuilder {
    /// Fills each buffer with zeros before it is handed out, so that no owner sees what another wrote.
    pub fn zeroed(mut self, zeroed: bool) -> Self {
        self.zero = zeroed;
        self
    }

    /// Makes the pool.
    ///
    /// # Errors
    ///
    /// [`PoolError`]
    pub fn build(self) -> Result<BufferPool, PoolError> {
        let tenancy = self.region.slab().occupy()?;
        let count = u32::try_from(self.region.slab().buffer_count()).unwrap_or(u32::MAX);
        Ok(BufferPool {
            body: Arc::new(Body {
                region: self.region,
                free: Mutex::new((0..count).rev().collect()),
                event: Event::new(),
                zero: self.zero,
                _tenancy: tenancy,
            }),
        })
    }
}

impl BufferPool {
    /// A pool of all buffers of the region's slab.
    ///
    /// # Errors
    ///
    /// [`PoolError`]
    pub fn new(region: &Region) -> Result<Self, PoolError> {
        Self::builder(region).build()
    }

    /// Starts a pool with options.
    pub fn builder(region: &Region) -> PoolBuilder {
        PoolBuilder { region: region.clone(), zero: false }
    }

    /// A lease, if there is one.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]
    pub fn try_acquire(&self) -> Result<Lease, AcquireError> {
        let index = self.body.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let index = index.ok_or(AcquireError::Exhausted { capacity: self.capacity() })?;
        let mut lease = Lease::new(self.body.clone(), index);
        if self.body.zero {
            lease.fill(0);
        }
        Ok(lease)
    }

    /// Up to `count` leases, appended to `leases`; says how many, at least one.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]; nothing was appended then.
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

    /// A lease, waited for.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Lease, AcquireError> {
        let end = Instant::now() + timeout;
        loop {
            let listener = self.body.event.listen();
            match self.try_acquire() {
                Err(AcquireError::Exhausted { .. }) if Instant::now() < end => {
                    let _ = listener.wait_deadline(end);
                }
                done => return done,
            }
        }
    }

    /// A lease, waited for.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Closed`]
    pub fn acquire(&self) -> impl Future<Output = Result<Lease, AcquireError>> + Send + 'static {
        let pool = self.clone();
        async move {
            loop {
                let listener = pool.body.event.listen();
                match pool.try_acquire() {
                    Err(AcquireError::Exhausted { .. }) => listener.await,
                    done => return done,
                }
            }
        }
    }

    /// For one thread's hot loop.
    pub fn handle(&self) -> PoolHandle {
        PoolHandle::new(self.clone())
    }

    /// Buffers that are free: a hint.
    pub fn available(&self) -> usize {
        self.body.free.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Buffers in all.
    pub fn capacity(&self) -> u32 {
        u32::try_from(self.body.region.slab().buffer_count()).unwrap_or(u32::MAX)
    }

    /// Bytes of a buffer.
    pub fn buffer_size(&self) -> usize {
        self.body.region.slab().buffer_size()
    }

    /// The region.
    pub fn region(&self) -> &Region {
        &self.body.region
    }

    /// What the pool has done so far.
    pub fn statistics(&self) -> PoolStatistics {
        PoolStatistics::default()
    }

    /// Hands out nothing more. Leases that are out stay good.
    pub fn close(&self) {}

    /// Redeems a raw lease.
    ///
    /// # Errors
    ///
    /// [`RawLeaseError`]
    pub fn lease_from_raw(&self, raw: RawLease) -> Result<Lease, RawLeaseError> {
        Err(RawLeaseError::Stale { index: raw.index })
    }
}

impl Body {
    pub(super) fn give_back(&self, index: u32) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(index);
        self.event.notify(1);
    }
}
