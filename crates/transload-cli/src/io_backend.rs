//! The proactor of a command: which back end, and what a source reads into.

use clap::ValueEnum;
use serde::Serialize;
use transload::memory::{Policy, Slab};
use transload::proactor::{Backend, Choice, Proactor, ProactorError};
use transload::region::{Access, Region};

use crate::failure::{Failure, exit};

/// Bytes of a buffer for what cannot go straight into slots.
pub(crate) const BUFFER_BYTES: usize = 128 << 10;

/// How sockets and direct files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Io {
    /// The best that the kernel lets us use.
    #[default]
    Auto,
    /// Linux `io_uring`, or an error.
    Uring,
    /// `epoll` or `kqueue` and ordinary system calls.
    Readiness,
}

impl Io {
    /// A proactor for the calling thread.
    pub(crate) fn proactor(self) -> Result<Proactor, Failure> {
        let builder = Proactor::builder();
        let builder = match self {
            Io::Auto => builder,
            Io::Uring => builder.backend(Backend::Uring),
            Io::Readiness => builder.backend(Backend::Readiness),
        };
        let proactor = builder.build().map_err(failed)?;
        let choice = proactor.choice();
        if self == Io::Auto && choice.backend != Backend::Uring {
            tracing::warn!("without io_uring: {}", choice.why);
        }
        Ok(proactor)
    }
}

/// Which back end does the work, for the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct IoWords {
    backend: &'static str,
    why: String,
}

impl IoWords {
    pub(crate) fn of(choice: &Choice) -> Self {
        Self { backend: choice.backend.name(), why: choice.why.clone() }
    }

    pub(crate) fn words(&self) -> String {
        format!("{} ({})", self.backend, self.why)
    }
}

/// What a source's proactor is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoOptions {
    pub(crate) io: Io,
    pub(crate) buffers: u16,
    pub(crate) lock: Policy,
}

impl IoOptions {
    /// A proactor for the calling thread.
    pub(crate) fn open(self) -> Result<(Proactor, IoWords), Failure> {
        let proactor = self.io.proactor()?;
        let words = IoWords::of(proactor.choice());
        Ok((proactor, words))
    }

    /// Registered buffers to read into.
    pub(crate) fn buffers(self, proactor: &Proactor) -> Result<Region, Failure> {
        let slab = Slab::builder(self.buffers.into(), BUFFER_BYTES).lock(self.lock).build()?;
        proactor.register_slab(&slab, Access::WRITE).map_err(|error| Failure::new("memory", error))
    }
}

/// Why there is no proactor, or no pool of one.
pub(crate) fn failed(error: ProactorError) -> Failure {
    match error {
        ProactorError::Denied { .. }
        | ProactorError::Missing { .. }
        | ProactorError::NoMemory { .. }
        | ProactorError::NotBuilt => Failure { exit: exit::ABSENT, ..Failure::new("unavailable", error) }
            .fix("use --io auto, or --io readiness"),
        error => Failure::new("io", error),
    }
}
