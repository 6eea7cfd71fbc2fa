//! One thread's way to a pool.

use std::mem;
use std::sync::Arc;

use transload_core::Seat;

use super::body::Core;
use super::{AcquireError, BufferPool, Lease};

/// One thread's way to a pool, for hot loops: it has a seat of its own, so no call looks for the calling thread's.
///
/// It is one thread's at a time: `Send`, not `Sync`. Keeps the pool open as any other handle does. A lease that it gave out may be dropped or released anywhere.
///
/// ```
/// # use transload::device::host::HostDevice;
/// # use transload::memory::Slab;
/// # use transload::pool::BufferPool;
/// # use transload::region::{Access, Registrar};
/// # let region = HostDevice::new().register(&Slab::new(64, 512)?, Access::READ)?;
/// let pool = BufferPool::new(&region)?;
/// let mut handle = pool.handle();
/// for round in 0..1000 {
///     let mut lease = handle.try_acquire()?;
///     lease[0] = u8::try_from(round % 256)?;
///     handle.release(lease);
/// }
/// assert_eq!(pool.statistics().acquired, 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PoolHandle {
    pool: BufferPool,
    /// The pool's, here too so that a call follows one pointer less.
    core: Arc<Core>,
    seat: Seat,
}

impl PoolHandle {
    pub(super) fn new(pool: BufferPool) -> Self {
        let core = pool.body.core.clone();
        let seat = core.sit();
        Self { pool, core, seat }
    }

    /// A lease, if there is one. Takes no lock, allocates nothing, makes no system call.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Exhausted`] if all buffers were out at one moment during the call, [`AcquireError::Closed`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as the pool's own")]
    pub fn try_acquire(&mut self) -> Result<Lease, AcquireError> {
        let claimed = self.core.pool.claim(&self.seat);
        self.pool.hand_over(claimed)
    }

    /// Gives a lease back, faster than dropping it. One of another pool goes home too, as if it were dropped.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as the pool's own")]
    pub fn release(&mut self, lease: Lease) {
        match lease.into_grant_of(&self.pool.body) {
            Ok(grant) => {
                let notice = self.core.pool.release(&self.seat, grant);
                if !notice.is_none() {
                    self.core.attend(notice);
                }
            }
            Err(foreign) => drop(foreign),
        }
    }

    /// The pool.
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }
}

impl Drop for PoolHandle {
    fn drop(&mut self) {
        self.core.stand(mem::replace(&mut self.seat, Seat::shared()));
    }
}
