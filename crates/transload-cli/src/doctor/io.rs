//! What moves bytes here: `io_uring` or readiness, what `io_uring` can do by itself, and whether memory can be
//! registered with it. All of it asked of the proactor, which is what would use it.

use rustix::io::Errno;
use transload::memory::{MemlockLimit, Policy, Slab};
use transload::proactor::{Backend, Capabilities, Capability, Proactor, ProactorError};
use transload::region::{Access, Registration};

use super::check::{Check, Status, as_root, human_bytes};
use super::memory::raise_memlock;

const NAME: &str = "io_uring";
/// What follows wherever there is no ring.
const WITHOUT: &str = "sockets and files use readiness instead";
const ALLOW_IN_CONTAINER: &str = "docker run --security-opt seccomp=unconfined IMAGE";

/// Bytes of the pool that `transload send` makes when it is told nothing, and of the rings beside it.
const DEFAULT_POOL_BYTES: usize = 4 << 20;
const RING_BYTES: u64 = 64 << 10;

pub(super) fn checks() -> Vec<Check> {
    let auto = Proactor::new();
    let is_uring = |proactor: &Proactor| proactor.choice().backend == Backend::Uring;
    let usable = match &auto {
        Ok(proactor) if is_uring(proactor) => Ok(proactor.capabilities()),
        // For the reason as a type: its text is in the choice.
        _ => Proactor::builder().backend(Backend::Uring).build().map(|proactor| proactor.capabilities()),
    };
    let mut checks = vec![ring(&usable)];
    let found = usable.as_ref().ok().copied();
    checks.extend(Capability::ALL.map(|capability| feature(capability, found)));
    checks.push(backend(&auto));
    checks.push(registration(&auto));
    checks
}

fn ring(usable: &Result<Capabilities, ProactorError>) -> Check {
    match usable {
        Ok(found) => {
            let (found, all) = (found.iter().count(), Capability::ALL.len());
            Check::new(NAME, Status::Ok, format!("usable, {found} of {all} features"))
        }
        Err(error) => explain(error, &Denial::read(), &MemlockLimit::current()),
    }
}

/// One line a feature, each with what is done without it. Nothing is wrong where one is missing.
fn feature(capability: Capability, found: Option<Capabilities>) -> Check {
    let name = format!("{NAME}.{}", capability.name());
    let since = capability.since();
    let (status, value) = match found {
        Some(found) if found.has(capability) => (Status::Ok, format!("present, since {since}")),
        Some(_) => (Status::Absent, format!("missing, needs {since}")),
        None => (Status::Absent, "not to be had without io_uring".to_owned()),
    };
    Check::new(name, status, value).detail(format!("without it: {}", capability.fall_back()))
}

/// What is taken where nobody asks for another.
fn backend(auto: &Result<Proactor, ProactorError>) -> Check {
    const NAME: &str = "io_backend";
    match auto {
        Ok(proactor) => {
            let choice = proactor.choice();
            Check::new(NAME, Status::Ok, choice.backend.name()).detail(choice.why.clone())
        }
        Err(error) => Check::new(NAME, Status::Fail, "none works")
            .detail(format!("nothing can be sent or received: {error}"))
            .fix("ulimit -n 65536"),
    }
}

/// The pool that `transload send` makes, registered for real.
fn registration(auto: &Result<Proactor, ProactorError>) -> Check {
    const NAME: &str = "io_registration";
    let size = human_bytes(DEFAULT_POOL_BYTES as u64);
    let unknown = |why: String| Check::new(NAME, Status::Warn, "cannot be tried").detail(why);
    let Ok(proactor) = auto else {
        return Check::new(NAME, Status::Absent, "not tried").detail("nothing moves bytes here");
    };
    let region = match Slab::builder(1, DEFAULT_POOL_BYTES).lock(Policy::Never).build() {
        Ok(slab) => proactor.register_slab(&slab, Access::READ_WRITE),
        Err(error) => return unknown(error.to_string()),
    };
    let region = match region {
        Ok(region) => region,
        Err(error) => return unknown(error.to_string()),
    };
    match region.registration() {
        Registration::Copy { reason } if proactor.choice().backend == Backend::Uring => {
            Check::new(NAME, Status::Warn, format!("a pool of {size} is not pinned"))
                .detail(format!("each operation pins or copies: {reason}"))
                .fix(raise_memlock(&MemlockLimit::current(), DEFAULT_POOL_BYTES as u64 + RING_BYTES))
        }
        Registration::Copy { reason } => Check::new(NAME, Status::Absent, "nothing is pinned").detail(reason),
        _ => Check::new(NAME, Status::Ok, format!("a pool of {size} is pinned")),
    }
}

/// What the system says about its policy towards `io_uring`.
struct Denial {
    /// `kernel.io_uring_disabled`: 0 for nobody, 1 for those outside of a group, 2 for all. Since Linux 6.6.
    disabled: u32,
    /// Whether a seccomp filter is in force for this process.
    filtered: bool,
}

impl Denial {
    fn read() -> Denial {
        let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Denial {
            disabled: disabled.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0),
            filtered: status
                .lines()
                .any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2")),
        }
    }
}

/// Who denies a ring, and what to do about it.
fn explain(error: &ProactorError, policy: &Denial, limit: &MemlockLimit) -> Check {
    let absent = |value: String, why: &str| {
        Check::new(NAME, Status::Absent, value).detail(format!("{why}: {WITHOUT}"))
    };
    let denied =
        |value: String, why: &str| Check::new(NAME, Status::Warn, value).detail(format!("{why}: {WITHOUT}"));
    match error {
        ProactorError::Denied { call } if policy.disabled > 0 => {
            let why = format!("kernel.io_uring_disabled is {}", policy.disabled);
            denied(format!("denied by the system's policy ({call})"), &why)
                .fix(as_root("sysctl -w kernel.io_uring_disabled=0"))
        }
        ProactorError::Denied { call } => {
            let why = "a seccomp filter or security module denies it, as in default containers";
            denied(format!("denied by policy ({call}: operation not permitted)"), why).fix(ALLOW_IN_CONTAINER)
        }
        ProactorError::Missing { call, reason } if policy.filtered => {
            absent(format!("not known ({call}: {reason})"), "the kernel or a seccomp filter does not know it")
                .fix(ALLOW_IN_CONTAINER)
        }
        ProactorError::Missing { call, reason } => absent(
            format!("not known ({call}: {reason})"),
            "the kernel is older than Linux 5.19, or built without it",
        ),
        ProactorError::NoMemory { call, limits } => denied(format!("no memory for a ring ({call})"), limits)
            .fix(raise_memlock(limit, DEFAULT_POOL_BYTES as u64 + RING_BYTES)),
        ProactorError::Os { call, code } if is_out_of_descriptors(*code) => {
            denied(format!("no descriptor left ({call})"), "too many files are open").fix("ulimit -n 65536")
        }
        ProactorError::NotBuilt => {
            absent("not in this build".to_owned(), "it was built without the feature uring")
        }
        error => denied("cannot be set up".to_owned(), &error.to_string()),
    }
}

fn is_out_of_descriptors(code: i32) -> bool {
    [Errno::MFILE, Errno::NFILE].into_iter().any(|errno| errno.raw_os_error() == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_denial_is_told_apart() {
        let mut narrow = MemlockLimit::current();
        (narrow.soft, narrow.hard, narrow.exempt) = (Some(4096), Some(4096), false);
        let explain = |error, disabled, filtered| explain(&error, &Denial { disabled, filtered }, &narrow);
        let call = "io_uring_setup";
        let sysctl = explain(ProactorError::Denied { call }, 2, false);
        assert!(sysctl.fix.unwrap().contains("sysctl -w kernel.io_uring_disabled=0"));
        let filter = explain(ProactorError::Denied { call }, 0, true);
        assert_eq!((filter.status, filter.fix.as_deref()), (Status::Warn, Some(ALLOW_IN_CONTAINER)));
        let missing = || ProactorError::Missing { call, reason: "Function not implemented".to_owned() };
        let old = explain(missing(), 0, false);
        assert_eq!((old.status, old.fix), (Status::Absent, None));
        assert_eq!(explain(missing(), 0, true).fix.as_deref(), Some(ALLOW_IN_CONTAINER));
        let memory = explain(ProactorError::NoMemory { call, limits: "4096 bytes".to_owned() }, 0, false);
        assert!(memory.detail.contains("4096 bytes") && memory.fix.unwrap().contains("memlock"));
        let code = Errno::MFILE.raw_os_error();
        assert!(explain(ProactorError::Os { call, code }, 0, false).fix.unwrap().starts_with("ulimit -n"));
        let code = Errno::IO.raw_os_error();
        assert_eq!(explain(ProactorError::Os { call, code }, 0, false).status, Status::Warn);
    }

    #[test]
    fn a_missing_feature_says_what_is_done_instead() {
        let all = Capabilities::ALL;
        for capability in Capability::ALL {
            assert_eq!(feature(capability, Some(all)).status, Status::Ok);
            for found in [Some(all.without(capability)), None] {
                let check = feature(capability, found);
                assert_eq!(check.status, Status::Absent);
                assert!(check.detail.contains(capability.fall_back()), "{check:?}");
            }
        }
    }
}
