//! What the suite runs on.

use std::process::Command;

use transload::memory::MemlockLimit;
use transload::proactor::{Backend, Capability, Proactor, ProactorBuilder};
use transload::region::{Region, Registration};

use super::rig::Rig;
use crate::skip::skip;
use crate::watchdog;

/// A kind of proactor, for the suite.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// How it is made.
    pub builder: fn() -> ProactorBuilder,
}

/// `io_uring` with all that the kernel has.
pub const URING: Subject = Subject { name: "uring", builder: || Proactor::builder().backend(Backend::Uring) };

/// `io_uring` with a queue that overflows all the time.
pub const TINY: Subject =
    Subject { name: "uring-tiny", builder: || Proactor::builder().backend(Backend::Uring).entries(2) };

/// Readiness and ordinary system calls.
pub const READINESS: Subject =
    Subject { name: "readiness", builder: || Proactor::builder().backend(Backend::Readiness) };

/// Whatever works here.
pub const AUTO: Subject = Subject { name: "auto", builder: Proactor::builder };

/// `io_uring` without one capability each.
pub const MASKED: [Subject; 6] = [
    Subject { name: "uring-without-multishot-accept", builder: || without(Capability::MultishotAccept) },
    Subject { name: "uring-without-multishot-receive", builder: || without(Capability::MultishotReceive) },
    Subject { name: "uring-without-zero-copy-send", builder: || without(Capability::ZeroCopySend) },
    Subject { name: "uring-without-fixed-buffers", builder: || without(Capability::FixedBuffers) },
    Subject { name: "uring-without-linked-sends", builder: || without(Capability::LinkedSends) },
    Subject { name: "uring-without-single-issuer", builder: || without(Capability::SingleIssuer) },
];

fn without(capability: Capability) -> ProactorBuilder {
    Proactor::builder().backend(Backend::Uring).without(capability)
}

/// One run of one case.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    subject: Subject,
    test: &'static str,
}

/// Set in a child process that runs one case by itself.
const ALONE: &str = "TRANSLOAD_CONFORMANCE_ALONE";

impl Run {
    /// A proactor of the subject, on this thread.
    pub fn rig(&self) -> Rig {
        Rig::new(self.builder())
    }

    /// How a proactor of the subject is made.
    pub fn builder(&self) -> ProactorBuilder {
        (self.subject.builder)()
    }

    /// Says that the rest of the case cannot run here.
    pub fn skip(&self, why: &str) {
        skip(self.test, why);
    }

    /// Whether this process was started by [`in_a_process`](Run::in_a_process).
    pub fn is_alone(&self) -> bool {
        std::env::var_os(ALONE).is_some()
    }

    /// Runs the case again, by itself in a process, where [`is_alone`](Run::is_alone) holds; fails if that does.
    pub fn in_a_process(&self) {
        // The runner knows tests without the name of their crate.
        let (_, name) = self.test.split_once("::").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--test-threads", "1"]).env(ALONE, "1");
        let output = watchdog::output(&mut command);
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{:?}\n{}\n{}", output.status, text[0], text[1]);
        assert!(text[0].contains("1 passed"), "it ran nothing:\n{}", text[0]);
    }
}

/// Whether a region is registered as it should be: pinned where the proactor can and may, and else with a reason.
pub(super) fn check_registration(rig: &Rig, region: &Region) {
    let can = rig.proactor.capabilities().has(Capability::FixedBuffers);
    match region.registration() {
        Registration::Pinned => assert!(can, "pinned without fixed buffers"),
        Registration::Copy { reason } => {
            assert!(!reason.is_empty(), "a copy needs a reason");
            assert!(!can || !MemlockLimit::current().exempt, "it could have been pinned: {reason}");
        }
        other => panic!("neither pinned nor copied: {other}"),
    }
}

/// Runs a case, bounded in time; skips it where the subject is not there.
pub fn run(subject: Subject, test: &'static str, case: fn(&Run)) {
    match (subject.builder)().build() {
        Err(why) => skip(test, &why.to_string()),
        Ok(proactor) => {
            drop(proactor);
            watchdog::watch(test, move || case(&Run { subject, test }));
        }
    }
}
