//! Accepts connections until the source ends.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use async_executor::LocalExecutor;
use futures_lite::future::{or, pending};
use rustix::io::Errno;
use transload::proactor::{IoError, Proactor, Socket};
use transload::pump::SocketIntake;

use super::connection;
use super::hub::{Hub, Way};
use crate::failure::Failure;
use crate::framing::Framing;
use crate::io_backend::{IoOptions, IoWords, failed};
use crate::pump::source::{Ended, Stage, Why};

/// How long accepting pauses when there are no descriptors left, or no memory.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes messages from all who connect.
pub(in crate::pump) struct Sockets {
    pub(in crate::pump) listener: OwnedFd,
    pub(in crate::pump) stage: Stage,
    pub(in crate::pump) io: IoOptions,
    /// End when so many connections have ended.
    pub(in crate::pump) connections: Option<u64>,
}

impl Sockets {
    /// Runs to the end; tells first which back end does the work, or why there is none.
    pub(in crate::pump) fn run(self, ready: SyncSender<Result<IoWords, Failure>>) -> Ended {
        let Self { listener, stage, io, connections } = self;
        let opened = io.open().and_then(|(proactor, words)| {
            let way = way(&proactor, &stage, io)?;
            Ok((proactor, words, way))
        });
        let (proactor, way) = match opened {
            Ok((proactor, words, way)) => {
                let _ = ready.send(Ok(words));
                (proactor, way)
            }
            Err(failure) => {
                let _ = ready.send(Err(failure));
                return Ok(Why::Stopped);
            }
        };
        let hub = Rc::new(Hub::new(proactor.handle(), stage, way, connections));
        let executor = LocalExecutor::new();
        let served = proactor.block_on(executor.run(serve(&hub, &executor, listener)));
        // What is in flight goes before the proactor, and all of it before the end is told.
        drop((executor, hub));
        served.unwrap_or_else(|error| Err(Failure::new("io", error)))
    }
}

fn way(proactor: &Proactor, stage: &Stage, io: IoOptions) -> Result<Way, Failure> {
    Ok(match stage.framing {
        Framing::Stream | Framing::Fixed => {
            let sockets = SocketIntake::new(stage.outlet.intake.clone(), stage.framing.layout());
            Way::Straight(RefCell::new(sockets))
        }
        Framing::Lines | Framing::U32le | Framing::U32be => {
            let buffers = io.buffers(proactor)?;
            Way::Staged(proactor.receive_pool(&buffers).map_err(failed)?)
        }
    })
}

async fn serve(hub: &Rc<Hub>, executor: &LocalExecutor<'_>, listener: OwnedFd) -> Ended {
    hub.stage.begin().map_or_else(|why| hub.end(why), |()| ());
    let stopped = async {
        hub.stage.outlet.stop.raised().await;
        Ok(Why::Stopped)
    };
    let over = async { Ok(hub.over().await) };
    or(stopped, or(over, accept(hub, executor, listener.into()))).await
}

/// Accepts as many as are wanted; comes to an end by a failure only.
async fn accept(hub: &Rc<Hub>, executor: &LocalExecutor<'_>, listener: Socket) -> Ended {
    let mut accept = hub.handle.accept(&listener);
    let (mut accepted, mut warned) = (0_u64, false);
    while hub.connections != Some(accepted) {
        match accept.connection().await {
            Some(Ok(socket)) => {
                accepted += 1;
                executor.spawn(connection::run(hub.clone(), socket, accepted)).detach();
            }
            Some(Err(error)) if is_passing(error) => {
                if !std::mem::replace(&mut warned, true) {
                    tracing::warn!("connections wait, and are tried again: {error}");
                }
                let _ = hub.handle.timeout(PAUSE).await;
                accept = hub.handle.accept(&listener);
            }
            Some(Err(error)) => return Err(Failure::new("source", error)),
            None => return Err(Failure::new("source", "accepting connections has ended")),
        }
    }
    // Whoever comes now is refused rather than left waiting.
    drop((accept, listener));
    pending().await
}

/// Whether an accept may do better in a while.
fn is_passing(error: IoError) -> bool {
    let passing = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::CONNABORTED, Errno::INTR];
    error.raw_os_error().is_some_and(|code| passing.iter().any(|errno| errno.raw_os_error() == code))
}
