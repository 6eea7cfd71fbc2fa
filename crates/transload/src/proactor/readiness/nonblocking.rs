//! Calls that take no flag which says not to wait.

use std::os::fd::BorrowedFd;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{Errno, ioctl_fionbio};

/// Makes a socket non-blocking for the length of one call, if it is not so already.
///
/// `accept(2)` and `connect(2)` have no `MSG_DONTWAIT`. Waiting for readiness first does not do: a connection that
/// another process or thread accepts in between leaves a blocking listener to block. The flag belongs to the open file,
/// not to the descriptor, so whoever shares it may be told `EAGAIN` while the call lasts.
#[derive(Debug)]
pub(super) struct NonBlocking<'a> {
    /// The socket, if it is to be made blocking again.
    blocking: Option<BorrowedFd<'a>>,
}

impl<'a> NonBlocking<'a> {
    pub(super) fn make(fd: BorrowedFd<'a>) -> Result<Self, Errno> {
        if fcntl_getfl(fd)?.contains(OFlags::NONBLOCK) {
            return Ok(Self { blocking: None });
        }
        ioctl_fionbio(fd, true)?;
        Ok(Self { blocking: Some(fd) })
    }
}

impl Drop for NonBlocking<'_> {
    fn drop(&mut self) {
        if let Some(fd) = self.blocking {
            // What could be set can be unset.
            let _ = ioctl_fionbio(fd, false);
        }
    }
}
