//! The right to one buffer that processes share.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use transload_core::{SharedGrant, Sleeper};

use super::member::Member;
use super::member_error::OutOfBuffer;
use super::region::SharedRegion;

/// The right to one buffer of a shared region. Gives it back when it is dropped, on any thread.
///
/// It gives no references to the bytes: other processes map them too, and one that does not keep to the rules may write
/// them at any time. They are written and read by copies.
pub struct SharedLease {
    member: Arc<Member>,
    /// Taken out by whoever ends the lease.
    grant: ManuallyDrop<SharedGrant>,
}

impl SharedLease {
    pub(super) fn new(member: Arc<Member>, grant: SharedGrant) -> Self {
        Self { member, grant: ManuallyDrop::new(grant) }
    }

    /// Ends the lease without giving the buffer back.
    pub(super) fn into_grant(self) -> (Arc<Member>, SharedGrant) {
        let mut lease = ManuallyDrop::new(self);
        // SAFETY: the lease is never used or dropped again.
        let grant = unsafe { ManuallyDrop::take(&mut lease.grant) };
        // SAFETY: as above; read once, and dropped by whoever gets it.
        let member = unsafe { std::ptr::read(&raw const lease.member) };
        (member, grant)
    }

    pub(super) fn grant(&self) -> &SharedGrant {
        &self.grant
    }

    pub(super) fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// Which buffer it is.
    pub fn index(&self) -> u32 {
        self.grant.index()
    }

    /// Bytes of the buffer.
    pub fn capacity(&self) -> usize {
        self.member.region.buffer_size()
    }

    /// The region that it is a part of.
    pub fn region(&self) -> &SharedRegion {
        &self.member.region
    }

    /// Its address in this process, valid for [`capacity`](SharedLease::capacity) bytes while the lease is out.
    pub fn as_ptr(&self) -> *mut u8 {
        self.member.region.address(self.index())
    }

    /// Writes bytes into the buffer.
    ///
    /// # Errors
    ///
    /// [`OutOfBuffer`] if they reach beyond its end; nothing is written then.
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBuffer> {
        self.member.region.write(self.index(), offset, bytes)
    }

    /// Reads bytes out of the buffer.
    ///
    /// # Errors
    ///
    /// [`OutOfBuffer`] if they reach beyond its end; nothing is read then.
    pub fn read_at(&self, offset: usize, bytes: &mut [u8]) -> Result<(), OutOfBuffer> {
        self.member.region.read(self.index(), offset, bytes)
    }

    /// Gives the buffer back, as dropping does.
    pub fn release(self) {}
}

impl Drop for SharedLease {
    fn drop(&mut self) {
        // SAFETY: taken once, as a value is dropped once.
        let grant = unsafe { ManuallyDrop::take(&mut self.grant) };
        if self.member.check_process().is_err() {
            return;
        }
        // Of a spoilt region nothing is given back.
        let waits = self.member.core.release(grant).unwrap_or(false);
        self.member.wake(Sleeper::Room, waits);
    }
}

impl fmt::Debug for SharedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLease").field("index", &self.index()).finish_non_exhaustive()
    }
}
