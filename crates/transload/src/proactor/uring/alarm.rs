//! Wakes the thread that waits for the ring.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::proactor::backend::Alarm;

/// A counter in the kernel that the ring polls. It lives as long as anybody who may ring, and the ring has no memory of
/// ours for it, so neither has to outlive the other.
#[derive(Debug)]
pub(super) struct UringAlarm {
    counter: OwnedFd,
}

impl UringAlarm {
    pub(super) fn new() -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Self { counter: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? }))
    }

    /// What the ring polls.
    pub(super) fn fd(&self) -> RawFd {
        self.counter.as_raw_fd()
    }

    /// Takes note of all rings so far.
    pub(super) fn silence(&self) {
        let mut count = [0; 8];
        // It fails only if nobody has rung, which is as good.
        let _ = rustix::io::read(&self.counter, &mut count);
    }
}

impl Alarm for UringAlarm {
    fn ring(&self) {
        // It fails only if the counter is about to overflow: then it has been rung often enough.
        let _ = rustix::io::write(&self.counter, &1u64.to_ne_bytes());
    }
}
