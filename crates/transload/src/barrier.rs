//! The barrier of those who sleep at a ring or a pool: nearly free for those who publish or release, a system call for
//! those about to sleep.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use transload_core::Barrier;

/// `membarrier(2)` where the kernel has it, else a full fence on both sides.
///
/// With `MEMBARRIER_CMD_PRIVATE_EXPEDITED` the kernel makes every running thread of this process pass a full memory
/// barrier before the call returns (its manual page, "asymmetric fences"). So the other side needs only to keep the
/// compiler from reordering.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessBarrier {
    asymmetric: bool,
}

impl ProcessBarrier {
    pub(crate) fn new() -> Self {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        Self { asymmetric: *REGISTERED.get_or_init(|| membarrier(Command::RegisterPrivateExpedited)) }
    }
}

impl Barrier for ProcessBarrier {
    #[inline]
    fn light(&self) {
        if self.asymmetric {
            compiler_fence(Ordering::SeqCst);
        } else {
            full_fence();
        }
    }

    fn heavy(&self) {
        fence(Ordering::SeqCst);
        if self.asymmetric {
            // Registered, so it fails only if a filter on system calls came later. Then a wake-up may be missed: a
            // thread finds out when its bounded sleep ends, a future with the next wake-up.
            let _ = membarrier(Command::PrivateExpedited);
        }
    }
}

/// Seldom needed, and so kept out of the way of those that are not.
#[cold]
fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Commands of `membarrier(2)`, by their numbers in `linux/membarrier.h`.
#[derive(Clone, Copy)]
enum Command {
    PrivateExpedited = 1 << 3,
    RegisterPrivateExpedited = 1 << 4,
}

#[cfg(target_os = "linux")]
fn membarrier(command: Command) -> bool {
    // SAFETY: the call takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command as libc::c_int, 0, 0) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn membarrier(_: Command) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_can_be_called() {
        for barrier in [ProcessBarrier::new(), ProcessBarrier { asymmetric: false }] {
            barrier.light();
            barrier.heavy();
        }
        if cfg!(target_os = "linux") {
            assert!(ProcessBarrier::new().asymmetric, "Linux has had it since 4.14");
        }
    }
}
