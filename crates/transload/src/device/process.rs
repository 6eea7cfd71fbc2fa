//! Whether this is the process that loaded the driver. In a child that was forked from it the driver's state is a copy
//! without the threads and the open files that belong to it: any call may answer nonsense or wait for ever, so none is made.

#[cfg(target_os = "linux")]
use crate::fork::ForkStamp;

/// Why a forked child can do nothing.
pub(super) const FORKED: &str = "this process was forked from one that used the driver, which works in that one only: start a \
     new process (fork and exec), or fork before the driver is used";

/// A mark of the process that loaded a driver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    #[cfg(target_os = "linux")]
    stamp: ForkStamp,
}

impl Process {
    /// This one.
    pub(super) fn this() -> std::io::Result<Process> {
        Ok(Process {
            #[cfg(target_os = "linux")]
            stamp: ForkStamp::here()?,
        })
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
