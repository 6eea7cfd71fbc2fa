//! The thread that a source runs on, and how it ends.

use std::sync::mpsc::Sender;
use std::thread;

use crate::failure::Failure;

/// How a source ended.
pub(in crate::pump) type Ended = Result<Why, Failure>;

/// Why a source ended without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pump) enum Why {
    /// It has offered as many messages as it should.
    Messages,
    /// There is no more input.
    End,
    /// As many connections have ended as should.
    Connections,
    /// It was told to stop, or the ring was closed.
    Stopped,
}

/// Starts a thread that runs a source, and tells how it ended.
pub(in crate::pump) fn start(
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
