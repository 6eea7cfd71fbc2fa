//! A shared buffer that a kernel or a device may access.

use std::fmt;

use super::lease::SharedLease;
use super::member_error::SendError;
use crate::region::Region;

/// A lease whose buffer a kernel or a device may access: what operations take.
///
/// The buffer's word says so. If this process dies meanwhile, nobody else gets the buffer: it is quarantined, as nobody
/// could say when the kernel or the device is done. Dropping it gives the buffer back.
pub struct SharedLent {
    lease: SharedLease,
    /// The buffers as registered with whoever accesses them.
    region: Region,
}

impl SharedLease {
    /// Makes it ready for an operation of whoever `region` is registered with.
    ///
    /// # Errors
    ///
    /// The lease, and [`SendError::Foreign`] if the region is of other memory, or [`SendError::Poisoned`].
    pub fn lend(self, region: &Region) -> Result<SharedLent, (SharedLease, SendError)> {
        if !region.slab().same_memory(self.region().slab()) {
            return Err((self, SendError::Foreign));
        }
        if let Err(error) = self.member().check_process() {
            return Err((self, error.into()));
        }
        match self.member().core.lend(self.grant()) {
            Ok(()) => Ok(SharedLent { lease: self, region: region.clone() }),
            Err(why) => Err((self, SendError::Poisoned(why))),
        }
    }
}

impl SharedLent {
    /// Takes it back. Only for who knows that nobody accesses it any more: whoever got it as part of an operation that
    /// is over, or has not begun one.
    pub fn take_back(self) -> SharedLease {
        let member = self.lease.member();
        if member.check_process().is_ok() {
            // Of a spoilt region no lease is worth anything, and this one says so when it is used.
            let _ = member.core.take_back(self.lease.grant());
        }
        self.lease
    }

    /// The lease.
    pub fn lease(&self) -> &SharedLease {
        &self.lease
    }

    /// The buffers as registered.
    pub fn region(&self) -> &Region {
        &self.region
    }
}

impl fmt::Debug for SharedLent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLent").field("lease", &self.lease).finish_non_exhaustive()
    }
}
