//! Where messages come from: each source runs on threads of its own and offers to an intake.

mod generate;
mod read;

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;

use transload::pump::Intake;
use transload_core::Flag;

pub(super) use generate::Generate;
pub(super) use read::Read;

use crate::failure::Failure;

/// How a source ended.
pub(super) type Ended = Result<Why, Failure>;

/// Why a source ended without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It has offered as many messages as it should.
    Messages,
    /// There is no more input.
    End,
    /// It was told to stop, or the ring was closed.
    Stopped,
}

/// Starts a thread that runs a source, and tells how it ended.
pub(super) fn start(
    name: String,
    ended: Sender<Ended>,
    source: impl FnOnce() -> Ended + Send + 'static,
) -> Result<(), Failure> {
    let run = move || {
        // The main thread may have stopped listening.
        let _ = ended.send(source());
    };
    let started = thread::Builder::new().name(name).spawn(run);
    started.map(drop).map_err(|error| {
        Failure::new("source", format!("a source's thread could not be started: {error}"))
            .fix("use fewer --producers, or raise the limit: ulimit -u")
    })
}

/// What every source has.
#[derive(Clone, Debug)]
pub(super) struct Outlet {
    pub(super) intake: Intake,
    /// Raised when sources are to stop.
    pub(super) stop: Arc<Flag>,
}

impl Outlet {
    /// Offers a message that `fill` writes; says whether the source goes on.
    pub(super) fn offer(&self, fill: impl FnOnce(&mut [u8])) -> bool {
        !self.stop.is_raised() && self.intake.offer_with(fill).is_ok()
    }
}
