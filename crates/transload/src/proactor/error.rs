//! Why an operation failed, and why there is no proactor.

use std::io;

use rustix::io::Errno;

use crate::region::Access;

/// An operation did not do what was asked. Small and `Copy`; formatted only when printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// It was cancelled, or the operation before it in a sequence failed.
    #[error("{operation} was cancelled")]
    Cancelled {
        /// Which operation.
        operation: &'static str,
    },
    /// The proactor has been shut down.
    #[error("{operation}: the proactor has been shut down")]
    ShutDown {
        /// Which operation.
        operation: &'static str,
    },
    /// Direct I/O on memory, an offset or a length that the file does not take.
    #[error(
        "{operation} of {len_bytes} bytes at offset {offset}, memory at {address:#x}: direct I/O on this file wants memory on multiples of {memory_bytes} and offset and length on multiples of {offset_bytes}"
    )]
    Misaligned {
        /// Which operation.
        operation: &'static str,
        /// Where the memory is.
        address: usize,
        /// Where in the file.
        offset: u64,
        /// How much.
        len_bytes: usize,
        /// What addresses must be multiples of.
        memory_bytes: usize,
        /// What offsets and lengths must be multiples of.
        offset_bytes: usize,
    },
    /// The receive pool was made by another proactor.
    #[error(
        "{operation}: the receive pool belongs to another proactor; make one with this proactor's receive_pool()"
    )]
    ForeignPool {
        /// Which operation.
        operation: &'static str,
    },
    /// The memory is of a region that was registered for something else.
    #[error(
        "{operation} needs memory registered for {wanted:?}, and this is registered for {actual:?}: register the slab for both"
    )]
    WrongAccess {
        /// Which operation.
        operation: &'static str,
        /// What the operation does with memory.
        wanted: Access,
        /// What the region was registered for.
        actual: Access,
    },
    /// The kernel refused or failed.
    #[error("{operation}: {}", io::Error::from_raw_os_error(*.code))]
    Os {
        /// Which operation.
        operation: &'static str,
        /// The number of the error (`errno`).
        code: i32,
    },
}

impl IoError {
    pub(super) fn os(operation: &'static str, errno: Errno) -> Self {
        Self::Os { operation, code: errno.raw_os_error() }
    }

    /// What the standard library calls this kind of error.
    pub fn kind(self) -> io::ErrorKind {
        io::Error::from(self).kind()
    }

    /// The number of the error, if the kernel gave one.
    pub fn raw_os_error(self) -> Option<i32> {
        match self {
            Self::Os { code, .. } => Some(code),
            _ => None,
        }
    }
}

impl From<IoError> for io::Error {
    /// Keeps the number of the kernel's errors, so that their kind is known.
    fn from(error: IoError) -> Self {
        match error {
            IoError::Os { code, .. } => io::Error::from_raw_os_error(code),
            IoError::Misaligned { .. } | IoError::WrongAccess { .. } | IoError::ForeignPool { .. } => {
                io::Error::new(io::ErrorKind::InvalidInput, error)
            }
            _ => io::Error::other(error),
        }
    }
}

/// There is no proactor, or no region or pool of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProactorError {
    /// A policy denies `io_uring` (EPERM, EACCES): a filter on system calls, as containers have, or a kernel setting.
    #[error(
        "io_uring is denied by policy ({call}: operation not permitted): allow the system calls io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile, check `sysctl kernel.io_uring_disabled`, or use the readiness back end"
    )]
    Denied {
        /// Which call was denied.
        call: &'static str,
    },
    /// The kernel has no `io_uring` (ENOSYS), or not enough of it (EINVAL).
    #[error(
        "this kernel has no usable io_uring ({call}: {reason}): use Linux 5.19 or newer, or the readiness back end"
    )]
    Missing {
        /// Which call failed.
        call: &'static str,
        /// How.
        reason: String,
    },
    /// The memory of a ring goes beyond what may be locked (ENOMEM).
    #[error("not enough memory may be locked for io_uring ({call}): {limits}")]
    NoMemory {
        /// Which call failed.
        call: &'static str,
        /// What is allowed, what is used, and how to raise it.
        limits: String,
    },
    /// The library was built without this back end.
    #[error(
        "this build has no io_uring back end: build with the feature `uring`, or use the readiness back end"
    )]
    NotBuilt,
    /// Another call failed.
    #[error("{call}: {}", io::Error::from_raw_os_error(*.code))]
    Os {
        /// Which call failed.
        call: &'static str,
        /// The number of the error (`errno`).
        code: i32,
    },
    /// A receive pool needs a region that I/O may write.
    #[error("a receive pool needs a region registered for WRITE, and this one is registered for {access:?}")]
    NotWritable {
        /// What the region is registered for.
        access: Access,
    },
    /// No pool can be made over the region.
    #[error("no receive pool: {reason}")]
    Pool {
        /// Why.
        reason: String,
    },
    /// The proactor has been shut down.
    #[error("the proactor has been shut down")]
    ShutDown,
}
