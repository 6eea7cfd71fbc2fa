//! `io_uring`: whether a ring can be made here, and if not, who denies it.

use rustix::{
    fd::AsFd,
    io::Errno,
    io_uring::{IoringRegisterOp, io_uring_params, io_uring_register, io_uring_setup},
};

use super::check::{Check, Status, as_root};

const NAME: &str = "io_uring";
/// What follows wherever there is no ring.
const WITHOUT: &str = "sockets and files use readiness instead";
/// Bytes that the kernel charges for the smallest rings (up to 64 entries), by measurement on Linux 6.18.
const RING_BYTES: u64 = 8192;

pub(super) fn check() -> Check {
    match probe() {
        Ok(operations) => Check::new(NAME, Status::Ok, format!("usable, {operations} operations")),
        Err(Failure::Setup(errno)) => explain(errno, &Policy::read()),
        Err(Failure::Register(errno)) => {
            Check::new(NAME, Status::Warn, format!("registering denied ({errno})"))
                .detail(format!("a ring can be made and no buffer registered: {WITHOUT}"))
                .fix(ALLOW_IN_CONTAINER)
        }
    }
}

enum Failure {
    Setup(Errno),
    Register(Errno),
}

/// Makes a ring, asks it which operations it knows, and lets it go.
fn probe() -> Result<usize, Failure> {
    let mut params = io_uring_params::default();
    // SAFETY: the kernel reads and fills `params`, which names no other memory (all its fields are zero); the
    // descriptor that comes back is closed when it goes out of scope.
    let ring = unsafe { io_uring_setup(8, &mut params) }.map_err(Failure::Setup)?;
    operations(&ring).map_err(Failure::Register)
}

/// How many operations the kernel knows. Also tries `io_uring_register`, which some policies deny alone.
fn operations(ring: impl AsFd) -> Result<usize, Errno> {
    /// `struct io_uring_probe` of `include/uapi/linux/io_uring.h`: 16 bytes, then 8 for each operation asked about.
    #[repr(C, align(8))]
    #[derive(Clone, Copy)]
    struct Operation {
        number: u8,
        _reserved: u8,
        flags: u16,
        _reserved_too: u32,
    }
    const ASKED: u32 = 64;
    /// `IO_URING_OP_SUPPORTED`.
    const SUPPORTED: u16 = 1;
    let nothing = Operation { number: 0, _reserved: 0, flags: 0, _reserved_too: 0 };
    // The header is as long as two operations.
    let mut answer = [nothing; 2 + ASKED as usize];
    // SAFETY: the kernel writes a header and at most `ASKED` operations, for which `answer` has room, and wants them
    // zeroed before, which they are. Every bit pattern is an `Operation`.
    unsafe { io_uring_register(ring, IoringRegisterOp::RegisterProbe, answer.as_mut_ptr().cast(), ASKED) }?;
    Ok(answer[2..].iter().filter(|operation| operation.flags & SUPPORTED != 0).count())
}

/// What the system says about its policy towards `io_uring`.
struct Policy {
    /// `kernel.io_uring_disabled`: 0 for nobody, 1 for those outside of a group, 2 for all. Since Linux 6.6.
    disabled: u32,
    /// Whether a seccomp filter is in force for this process.
    filtered: bool,
}

impl Policy {
    fn read() -> Policy {
        let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Policy {
            disabled: disabled.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0),
            filtered: status
                .lines()
                .any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2")),
        }
    }
}

const ALLOW_IN_CONTAINER: &str = "docker run --security-opt seccomp=unconfined IMAGE";

/// Who denies a ring, and what to do about it.
fn explain(errno: Errno, policy: &Policy) -> Check {
    let absent = |value: &str, why: &str| {
        Check::new(NAME, Status::Absent, format!("{value} ({errno})")).detail(format!("{why}: {WITHOUT}"))
    };
    let denied = |value: &str, why: &str| {
        Check::new(NAME, Status::Warn, format!("{value} ({errno})")).detail(format!("{why}: {WITHOUT}"))
    };
    match errno {
        Errno::PERM | Errno::ACCESS if policy.disabled > 0 => {
            let why = format!("kernel.io_uring_disabled is {}", policy.disabled);
            denied("denied by the system's policy", &why).fix(as_root("sysctl -w kernel.io_uring_disabled=0"))
        }
        Errno::PERM | Errno::ACCESS => {
            let why = "a seccomp filter or security module denies it, as in default containers";
            denied("denied by policy", why).fix(ALLOW_IN_CONTAINER)
        }
        Errno::NOSYS if policy.filtered => {
            absent("not known", "the kernel or a seccomp filter does not know it").fix(ALLOW_IN_CONTAINER)
        }
        Errno::NOSYS => absent("not known", "the kernel was built without it"),
        Errno::NOMEM => {
            denied("no memory for a ring", &format!("the smallest needs {RING_BYTES} bytes of memlock"))
                .fix("ulimit -l 64")
        }
        Errno::MFILE | Errno::NFILE => {
            denied("no descriptor left", "too many files are open").fix("ulimit -n 65536")
        }
        _ => denied("cannot be set up", "for a reason that is not known here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_denial_is_told_apart() {
        let explain = |errno, disabled, filtered| explain(errno, &Policy { disabled, filtered });
        let sysctl = explain(Errno::PERM, 2, false);
        assert!(sysctl.fix.unwrap().contains("sysctl -w kernel.io_uring_disabled=0"));
        let filter = explain(Errno::PERM, 0, true);
        assert_eq!((filter.status, filter.fix.as_deref()), (Status::Warn, Some(ALLOW_IN_CONTAINER)));
        let old = explain(Errno::NOSYS, 0, false);
        assert_eq!((old.status, old.fix), (Status::Absent, None));
        assert!(explain(Errno::NOMEM, 0, false).fix.unwrap().starts_with("ulimit -l"));
        assert!(explain(Errno::MFILE, 0, false).fix.unwrap().starts_with("ulimit -n"));
        assert_eq!(explain(Errno::INVAL, 0, false).status, Status::Warn);
    }
}
