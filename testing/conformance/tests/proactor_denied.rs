//! The proactor suite where `io_uring` is denied, missing, or has too little memory: in processes that are confined so.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic where a test fails")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use transload::memory::MemlockLimit;
use transload::pool::BufferPool;
use transload::proactor::{Backend, Proactor, ProactorError, ZeroCopy};
use transload::region::{Access, RegisterError, Registration};
use transload_conformance::proactor::rig::{Kind, Rig, lease, pair, read_checked, slab, writer};
use transload_conformance::proactor::{Checker, Pattern};
use transload_conformance::skip::skip;
use transload_conformance::watchdog;

/// The suite on whatever works: here, and in the confined processes.
mod auto {
    transload_conformance::proactor_suite!(transload_conformance::proactor::AUTO);
}

const EPERM: &[&str] = &["--deny", "EPERM"];
const ENOSYS: &[&str] = &["--deny", "ENOSYS"];
const NO_REGISTER: &[&str] = &["--deny", "EPERM", "--calls", "register"];
const LITTLE: &[&str] = &["--nobody", "--memlock", "65536"];
const NOTHING: &[&str] = &["--nobody", "--memlock", "0"];

/// Set in a confined process.
const CONFINED: &str = "TRANSLOAD_CONFORMANCE_CONFINED";

/// This test binary, to be run by somebody who may do less.
struct Confined {
    folder: TempDir,
    binary: PathBuf,
    options: &'static [&'static str],
}

impl Confined {
    fn new(options: &'static [&'static str]) -> Self {
        // A copy where everybody may read it, and a place where everybody may write.
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("tests");
        fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
        fs::create_dir(folder.path().join("files")).unwrap();
        fs::write(folder.path().join("skips"), []).unwrap();
        for (name, mode) in [("", 0o755), ("tests", 0o755), ("files", 0o777), ("skips", 0o666)] {
            fs::set_permissions(folder.path().join(name), Permissions::from_mode(mode)).unwrap();
        }
        Self { folder, binary, options }
    }

    /// Runs some of the tests there; they have to pass, and to be so many.
    fn run(&self, arguments: &[&str], count: usize) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_confined"));
        command.args(self.options).arg(&self.binary).args(arguments);
        command.env(CONFINED, "1").env("TMPDIR", self.folder.path().join("files"));
        command.env("TRANSLOAD_SKIPS", self.folder.path().join("skips")).current_dir(self.folder.path());
        let (status, text) = watchdog::long_output(&mut command);
        assert!(status.success(), "{:?}: {status}\n{text}", self.options);
        let result = format!("{count} passed; 0 failed; 0 ignored;");
        assert!(text.contains(&result), "{:?}: not {result}\n{text}", self.options);
        for line in fs::read_to_string(self.folder.path().join("skips")).unwrap().lines() {
            let (name, why) = line.trim_start_matches("SKIPPED ").split_once(": ").unwrap();
            skip(name, &format!("{why} ({})", self.options.join(" ")));
        }
    }
}

fn is_confined() -> bool {
    std::env::var_os(CONFINED).is_some()
}

/// Only root can become somebody else. CI is root, and skips none of this.
fn can_confine(name: &str, options: &[&str]) -> bool {
    let can = rustix::process::geteuid().is_root() || !options.contains(&"--nobody");
    if !can {
        skip(&format!("proactor_denied::{name}"), "needs root, to become nobody");
    }
    can
}

/// Makes tests that run the whole suite in a confined process.
macro_rules! suites {
    ($($name:ident: $options:ident,)*) => {$(
        #[test]
        fn $name() {
            if can_confine(stringify!($name), $options) {
                Confined::new($options).run(&["auto::", "--test-threads", "4"], auto::CASES);
            }
        }
    )*};
}

suites! {
    the_suite_passes_where_uring_is_denied: EPERM,
    the_suite_passes_where_uring_is_missing: ENOSYS,
    the_suite_passes_where_nothing_can_be_registered: NO_REGISTER,
    the_suite_passes_with_little_memory_to_lock: LITTLE,
    the_suite_passes_with_no_memory_to_lock: NOTHING,
}

/// Makes tests whose body runs in a confined process.
macro_rules! confined {
    ($($(#[$doc:meta])* fn $name:ident($options:ident) $body:block)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            if is_confined() {
                watchdog::watch(stringify!($name), || $body);
            } else if can_confine(stringify!($name), $options) {
                Confined::new($options).run(&["--exact", stringify!($name)], 1);
            }
        }
    )*};
}

/// A confined process that runs other tests than it should, or none, is no success.
#[test]
fn a_process_that_runs_nothing_is_found_out() {
    for (filter, count) in [("no_such_test", 1), ("a_process_that", 2), ("no_such_test", auto::CASES)] {
        if !is_confined() {
            let run = || Confined::new(EPERM).run(&["--exact", filter], count);
            assert!(std::panic::catch_unwind(run).is_err(), "{filter}");
        }
    }
}

/// Nor is one that is not confined at all, where there would be something to deny.
#[test]
fn a_process_that_may_do_all_is_found_out() {
    if uring().is_err() {
        return skip(
            "proactor_denied::a_process_that_may_do_all_is_found_out",
            "there is no io_uring to deny",
        );
    }
    for name in ["eperm_is_a_policy", "enosys_is_an_old_kernel", "no_memory_for_a_ring"] {
        let run = || Confined::new(&[]).run(&["--exact", name], 1);
        assert!(std::panic::catch_unwind(run).is_err(), "{name}");
    }
}

fn uring() -> Result<Proactor, ProactorError> {
    Proactor::builder().backend(Backend::Uring).entries(8).build()
}

/// What stands in an error, for whoever has to do something about it.
fn says(error: &impl ToString, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

/// The best that works is readiness, it says why, and it works.
fn falls_back(why: &[&str]) {
    let rig = Rig::new(Proactor::builder());
    assert_eq!(rig.proactor.choice().backend, Backend::Readiness);
    says(rig.proactor.choice(), why);
    moves_bytes(&rig, 4096, ZeroCopy::Auto);
    let region = rig.region(1, 4096, Access::READ);
    match region.registration() {
        Registration::Copy { reason } => assert!(!reason.is_empty()),
        other => panic!("{other}"),
    }
}

/// Bytes of this proactor's memory go out and come in.
fn moves_bytes(rig: &Rig, size: usize, zero_copy: ZeroCopy) {
    let (pool, received) = (rig.pool(2, size), rig.receive_pool(8, 1000));
    let (ours, mut peer) = pair(Kind::Tcp);
    let sent = rig.on(rig.handle.send_with(&ours, lease(&pool, Pattern(1), 0, size), zero_copy));
    assert_eq!(sent.result, Ok(size));
    read_checked(&mut peer, &mut Checker::new(Pattern(1)), size as u64);
    let writer = writer(peer, Pattern(2), 50_000);
    let mut receive = rig.handle.receive(&ours, &received);
    rig.take_until(&mut receive, &mut Checker::new(Pattern(2)), 50_000);
    drop(writer.join().unwrap());
    rig.end(&mut receive);
    drop(rig.on(sent.returned()));
}

confined! {
    /// A policy, as containers have: what to allow.
    fn eperm_is_a_policy(EPERM) {
        let error = uring().unwrap_err();
        assert!(matches!(error, ProactorError::Denied { .. }), "{error:?}");
        says(&error, &["seccomp", "io_uring_setup", "io_uring_disabled", "readiness"]);
        falls_back(&["denied by policy", "seccomp"]);
    }

    /// An old kernel, or one of another make.
    fn enosys_is_an_old_kernel(ENOSYS) {
        let error = uring().unwrap_err();
        assert!(matches!(error, ProactorError::Missing { .. }), "{error:?}");
        says(&error, &["no usable io_uring", "Linux 5.19", "readiness"]);
        falls_back(&["no usable io_uring"]);
    }

    /// A ring that can be made is not yet one that is of use.
    fn denied_registration_is_a_policy(NO_REGISTER) {
        match uring() {
            Err(error) => {
                assert!(matches!(error, ProactorError::Denied { .. }), "{error:?}");
                says(&error, &["io_uring_register", "seccomp"]);
                falls_back(&["denied by policy"]);
            }
            // It may also do without.
            Ok(_) => moves_bytes(&Rig::new(Proactor::builder()), 4096, ZeroCopy::On),
        }
    }

    /// Not even the ring may be locked: how much it needs, and how to raise the limit.
    fn no_memory_for_a_ring(NOTHING) {
        let limit = MemlockLimit::current();
        assert!(!limit.exempt && limit.soft == Some(0), "{limit:?}");
        let error = uring().unwrap_err();
        assert!(matches!(error, ProactorError::NoMemory { .. }), "{error:?}");
        says(&error, &["RLIMIT_MEMLOCK", "0 bytes", "ulimit -l", "LimitMEMLOCK=", "CAP_IPC_LOCK"]);
        falls_back(&["RLIMIT_MEMLOCK"]);
    }

    /// A ring, and no more: regions are copied from, say why, and everything works.
    fn little_memory_for_regions(LITTLE) {
        let limit = MemlockLimit::current();
        assert!(!limit.exempt && limit.soft == Some(65_536), "{limit:?}");
        // Other processes of nobody count against the same limit.
        let mut made = None;
        assert!(watchdog::until(|| {
            made = uring().ok();
            made.is_some()
        }));
        drop(made);
        let mut rig = None;
        assert!(watchdog::until(|| {
            rig = uring().ok().map(|proactor| Rig { handle: proactor.handle(), proactor });
            rig.is_some()
        }));
        let rig = rig.unwrap();
        let parts = ["1048576 bytes", "RLIMIT_MEMLOCK allows 65536", "ulimit -l", "LimitMEMLOCK=", "CAP_IPC_LOCK"];
        let memory = slab(256, 4096);
        let region = rig.proactor.register_slab(&memory, Access::READ_WRITE).unwrap();
        match region.registration() {
            Registration::Copy { reason } => says(reason, &parts),
            other => panic!("{other}"),
        }
        let refused = rig.proactor.register_pinned(&memory, Access::READ_WRITE).unwrap_err();
        assert!(matches!(refused, RegisterError::Refused { len_bytes: 1_048_576, .. }), "{refused:?}");
        says(&refused, &parts);
        // Nothing of it is left: no slot, no tenancy, no memory charged.
        assert_eq!(BufferPool::new(&region).unwrap().available(), 256);
        assert!(MemlockLimit::current().pinned_bytes <= 65_536);
        moves_bytes(&rig, 4096, ZeroCopy::On);
        // More than may be pinned for one send: the kernel refuses, and a copy does.
        moves_bytes(&rig, 1 << 20, ZeroCopy::On);
        assert!(rig.proactor.statistics().zero_copy_refused > 0, "{:?}", rig.proactor.statistics());
    }
}
