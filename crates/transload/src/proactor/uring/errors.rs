//! What the kernel's refusals mean, for people.

use std::io;
use std::time::Duration;

use rustix::io::Errno;

use crate::memory::MemlockLimit;
use crate::proactor::error::ProactorError;

/// The number of an error of a system call.
pub(super) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// How long after each refusal to try again when there is too little memory to lock: what a closed ring had is given
/// back some 20 ms later. About 100 ms in all.
pub(super) const PATIENCE: [Duration; 7] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(25),
    Duration::from_millis(40),
];

/// Tries again while there is too little memory to lock, and it may be that a ring has just been closed.
pub(super) fn patiently<T>(
    need_bytes: u64,
    mut attempt: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    for pause in PATIENCE {
        match attempt() {
            Err(Errno::NOMEM) if may_pass(need_bytes) => std::thread::sleep(pause),
            done => return done,
        }
    }
    attempt()
}

/// Whether so much could be locked if nothing else was.
fn may_pass(need_bytes: u64) -> bool {
    let limit = MemlockLimit::current();
    !limit.exempt && limit.soft.is_none_or(|soft| need_bytes <= soft)
}

/// Why there is no ring.
pub(super) fn no_ring(call: &'static str, errno: Errno, need_bytes: u64) -> ProactorError {
    match errno {
        Errno::PERM | Errno::ACCESS => ProactorError::Denied { call },
        Errno::NOSYS | Errno::INVAL => ProactorError::Missing { call, reason: os_text(errno) },
        Errno::NOMEM => ProactorError::NoMemory { call, limits: limits(need_bytes) },
        other => ProactorError::Os { call, code: other.raw_os_error() },
    }
}

/// Why memory was not pinned.
pub(super) fn not_pinned(errno: Errno, need_bytes: u64) -> String {
    match errno {
        Errno::NOMEM => format!("not enough memory may be locked: {}", limits(need_bytes)),
        Errno::FAULT => "the kernel cannot pin this memory (bad address): it must be writable, in pieces of at most 1 GiB, \
             and not of a file on a disk"
            .to_owned(),
        other => format!("the kernel refuses to pin it: {}", os_text(other)),
    }
}

/// What may be locked, what is, and how to raise it.
pub(super) fn limits(need_bytes: u64) -> String {
    limits_of(need_bytes, &MemlockLimit::current())
}

fn limits_of(need_bytes: u64, limit: &MemlockLimit) -> String {
    let amount = |bytes: Option<u64>| {
        bytes.map_or_else(|| "unlimited".to_owned(), |bytes| format!("{bytes} bytes ({} KiB)", bytes / 1024))
    };
    let (soft, hard, pinned) = (amount(limit.soft), amount(limit.hard), amount(Some(limit.pinned_bytes)));
    if limit.exempt {
        return format!(
            "{} needed; RLIMIT_MEMLOCK does not apply (CAP_IPC_LOCK is held), so the system, or the control group \
             (memory.max), is out of memory",
            amount(Some(need_bytes))
        );
    }
    let kib = (limit.pinned_bytes.saturating_add(need_bytes)).div_ceil(1024).next_multiple_of(1024);
    let bytes = kib.saturating_mul(1024);
    format!(
        "{} needed; RLIMIT_MEMLOCK allows {soft} (soft), {hard} (hard) to all processes of this user together, this \
         process has pinned {pinned} (VmPin), and CAP_IPC_LOCK is not held. Raise it to at least {kib} KiB. Shell: \
         ulimit -l {kib}. systemd: LimitMEMLOCK={bytes}. Container: --ulimit memlock={bytes}:{bytes}, or \
         --cap-add IPC_LOCK",
        amount(Some(need_bytes))
    )
}

pub(super) fn os_text(errno: Errno) -> String {
    io::Error::from(errno).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let error = |errno| no_ring("io_uring_setup", errno, 4096);
        assert!(matches!(error(Errno::PERM), ProactorError::Denied { call: "io_uring_setup" }));
        assert!(matches!(error(Errno::ACCESS), ProactorError::Denied { .. }));
        assert!(matches!(error(Errno::NOSYS), ProactorError::Missing { .. }));
        assert!(matches!(error(Errno::INVAL), ProactorError::Missing { .. }));
        assert!(matches!(error(Errno::NOMEM), ProactorError::NoMemory { .. }));
        let code = Errno::MFILE.raw_os_error();
        assert_eq!(error(Errno::MFILE), ProactorError::Os { call: "io_uring_setup", code });
    }

    #[test]
    fn limits_say_need_limit_use_and_what_to_do() {
        let mut limit = MemlockLimit::current();
        (limit.soft, limit.hard, limit.pinned_bytes, limit.exempt) = (Some(65_536), None, 8192, false);
        let text = limits_of(1 << 20, &limit);
        for part in [
            "1048576 bytes (1024 KiB) needed",
            "allows 65536 bytes (64 KiB) (soft), unlimited (hard)",
            "pinned 8192 bytes",
            "CAP_IPC_LOCK is not held",
            "ulimit -l 2048",
            "LimitMEMLOCK=2097152",
            "--ulimit memlock=2097152:2097152",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        limit.exempt = true;
        assert!(limits_of(1, &limit).contains("does not apply"));
    }

    #[test]
    fn only_a_lack_of_memory_is_waited_for() {
        let mut calls = 0;
        let refused: Result<(), _> = patiently(0, || {
            calls += 1;
            Err(Errno::INVAL)
        });
        assert_eq!((refused, calls), (Err(Errno::INVAL), 1));
    }
}
