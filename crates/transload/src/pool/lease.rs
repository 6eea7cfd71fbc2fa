//! The right to one buffer.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use transload_core::Grant;

use super::body::Body;
use super::{AcquireError, FrozenLease, RawLease, local};
use crate::region::{Region, Span};

/// The right to one buffer of a pool: dereferences to its bytes, and gives the buffer back when it is dropped, on any
/// thread.
///
/// It cannot be copied. Its bytes stay where they are when it is moved. It keeps the pool's memory alive, without
/// counting, also when all handles on the pool are gone. One that is forgotten ([`std::mem::forget`]) keeps its buffer,
/// and with it the memory, for ever.
pub struct Lease {
    body: NonNull<Body>,
    /// Taken out by whoever ends the lease.
    grant: ManuallyDrop<Grant>,
    /// Buffers of pools are shorter than 4 GiB, so that a lease fits in two registers.
    len: u32,
}

// SAFETY: the lease is the only owner of its buffer (I1) and may be so on any thread; the body is shared between all
// threads, which its type allows, and there while the lease is (I5).
unsafe impl Send for Lease {}
// SAFETY: through a shared lease bytes are only read, by references that borrow it (I3).
unsafe impl Sync for Lease {}

impl Lease {
    /// Takes a grant of this very pool.
    #[inline]
    pub(super) fn new(body: &Arc<Body>, grant: Grant) -> Self {
        let len = body.buffer_len;
        Self { body: NonNull::from(&**body), grant: ManuallyDrop::new(grant), len }
    }

    #[inline]
    fn body(&self) -> &Body {
        // SAFETY: the body exists while its lease is out (I5), and nobody has a mutable reference to it.
        unsafe { self.body.as_ref() }
    }

    /// Ends the lease without giving the buffer back.
    #[inline]
    fn into_grant(self) -> Grant {
        let mut lease = ManuallyDrop::new(self);
        // SAFETY: the lease is never used or dropped again.
        unsafe { ManuallyDrop::take(&mut lease.grant) }
    }

    /// The grant, if it is one of this pool.
    #[inline]
    pub(super) fn into_grant_of(self, body: &Arc<Body>) -> Result<Grant, Self> {
        if ptr::eq(self.body.as_ptr(), Arc::as_ptr(body)) { Ok(self.into_grant()) } else { Err(self) }
    }

    /// Which buffer it is.
    pub fn index(&self) -> u32 {
        self.grant.index()
    }

    /// The region that it is a part of.
    pub fn region(&self) -> &Region {
        &self.body().region
    }

    /// Where its bytes are in the region: as many as it dereferences to.
    pub fn span(&self) -> Span {
        let body = self.body();
        body.region.part(body.offset(self.index()), self.len as usize)
    }

    /// Bytes of the whole buffer.
    pub fn capacity(&self) -> usize {
        self.body().buffer_size
    }

    /// Makes it dereference to the first `len_bytes` of the buffer, or to all if that is more. A fresh lease has all
    /// of them, a received one those that were received.
    pub fn resize(&mut self, len_bytes: usize) {
        let most = self.body().buffer_len;
        self.len = u32::try_from(len_bytes).map_or(most, |len| len.min(most));
    }

    /// Its address, valid for [`capacity`](Lease::capacity) bytes while the lease is out.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.body().address(self.grant.index())
    }

    /// Gives the buffer back, as dropping does.
    pub fn release(self) {}

    /// Makes it read-only, to be shared. Allocates a counter.
    pub fn freeze(self) -> FrozenLease {
        FrozenLease::new(self)
    }

    /// Turns it into numbers. Until they are redeemed, the buffer stays leased.
    ///
    /// ```
    /// # use transload::device::host::HostDevice;
    /// # use transload::memory::Slab;
    /// # use transload::pool::{BufferPool, RawLeaseError};
    /// # use transload::region::{Access, Registrar};
    /// # let region = HostDevice::new().register(&Slab::new(4, 512)?, Access::READ)?;
    /// let pool = BufferPool::new(&region)?;
    /// let raw = pool.try_acquire()?.into_raw();
    /// let lease = pool.lease_from_raw(raw)?;
    /// assert_eq!(pool.lease_from_raw(raw).unwrap_err(), RawLeaseError::Stale { index: raw.index });
    /// drop(lease);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_raw(self) -> RawLease {
        let body = self.body;
        let grant = self.into_grant();
        // SAFETY: the buffer is still out, so the body exists (I5).
        let core = unsafe { &body.as_ref().core };
        let index = grant.index();
        RawLease { pool: core.id, generation: core.pool.lay_down(grant), index }
    }

    /// Keeps the buffer back for ever: somebody may still write there of whom nobody will know when it is done. It is
    /// counted as `quarantined` in the statistics, and the pool's memory and registration are never let go.
    pub fn quarantine(self) {
        let body = self.body;
        let grant = self.into_grant();
        // SAFETY: the buffer is out, and from now on for ever, so the body exists (I5).
        let core = unsafe { &body.as_ref().core };
        core.pool.quarantine(grant);
    }
}

impl Deref for Lease {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the buffer is ours alone (I1, I3), initialised, at least as long, and there while the lease is (I2, I5).
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for Lease {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the lease is borrowed mutably for as long.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.len as usize) }
    }
}

impl AsRef<[u8]> for Lease {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Lease {
    #[inline]
    fn drop(&mut self) {
        let body = self.body;
        let core = Arc::as_ptr(&self.body().core);
        // SAFETY: taken once, as a value is dropped once.
        let grant = unsafe { ManuallyDrop::take(&mut self.grant) };
        // The body may go while this runs, so from here on nothing borrows it.
        let strong = || {
            // SAFETY: called before the buffer is given back, so the body exists (I5).
            unsafe { body.as_ref() }.core.clone()
        };
        local::release(core, strong, grant);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("index", &self.index()).field("len", &self.len).finish_non_exhaustive()
    }
}

const _: () = assert!(size_of::<Result<Lease, AcquireError>>() == 16, "returned in two registers");
