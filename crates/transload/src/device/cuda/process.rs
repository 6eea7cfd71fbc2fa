//! Whether this is the process that loaded the driver. In a child that was forked from it the driver's state is a copy
//! without the threads and the open files that belong to it: any call may answer nonsense or wait for ever, so none is made.

use std::sync::OnceLock;

#[cfg(target_os = "linux")]
use crate::fork::ForkStamp;

/// A mark of the process that loaded the driver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    #[cfg(target_os = "linux")]
    stamp: ForkStamp,
}

static FIRST: OnceLock<Process> = OnceLock::new();

impl Process {
    /// The process that has loaded the driver: this one, or one that this was forked from.
    pub(super) fn of_driver() -> Option<Process> {
        FIRST.get().copied()
    }

    /// Notes that this process has loaded the driver.
    pub(super) fn note() -> std::io::Result<Process> {
        let here = Process {
            #[cfg(target_os = "linux")]
            stamp: ForkStamp::here()?,
        };
        Ok(*FIRST.get_or_init(|| here))
    }

    /// Whether it is this one.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(clippy::unused_self, reason = "children are not known there")
    )]
    pub(super) fn is_here(self) -> bool {
        #[cfg(target_os = "linux")]
        return self.stamp.is_here();
        #[cfg(not(target_os = "linux"))]
        true
    }
}
