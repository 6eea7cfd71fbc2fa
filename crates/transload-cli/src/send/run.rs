//! Runs to the end: connections, time, signals, and the report.

use std::cell::Cell;
use std::io;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use async_executor::LocalExecutor;
use futures_lite::future;
use transload::proactor::{Handle, Proactor, Socket};

use super::args::{From, SendArgs};
use super::lane::Common;
use super::report::{Document, StoppedBy};
use super::setup::{self, Feed, Input};
use super::stop::Stop;
use crate::address::{Address, Endpoint};
use crate::failure::Failure;
use crate::framing::Framing;
use crate::output::Told;
use crate::signals::StopSignals;

/// How often time and signals are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How long the kernel may keep buffers once all is over.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs the command and reports.
pub(crate) fn main(args: &SendArgs) -> ExitCode {
    let exit = match &args.to {
        Endpoint::Stream(to) => {
            let document = run(args, to).unwrap_or_else(|failure| Document::failed(args, failure));
            tell(args, &document)
        }
        #[cfg(target_os = "linux")]
        Endpoint::Region(name) => super::region::main(args, name),
    };
    ExitCode::from(exit)
}

/// Prints the report and gives the exit code.
fn tell(args: &SendArgs, document: &Document) -> u8 {
    let told = Told { error: document.error.as_ref(), exit: document.exit(), json: args.json };
    let words = || if args.quiet || document.io.is_none() { String::new() } else { document.words() };
    told.tell(document, words, &mut io::stdout())
}

fn run(args: &SendArgs, to: &Address) -> Result<Document, Failure> {
    args.check()?;
    let input = Input::open(args)?;
    let proactor = args.io.proactor()?;
    let addresses = setup::resolve(to)?;
    let pool = setup::pool(args, &proactor, &input)?;
    let handle = proactor.handle();
    let mut document = Document::new(args, &handle, pool.region());
    let signals = StopSignals::watch()?;
    let common = Rc::new(Common {
        handle: handle.clone(),
        pool,
        to: to.clone(),
        zero_copy: args.zero_copy.into(),
        stop: Stop::default(),
        messages: Cell::new(0),
        sends: Cell::new(0),
    });

    let watch = Watch { args, common: &common, signals: &signals, started: Instant::now() };
    let connecting = connect(&handle, to, &addresses, args.connections);
    let connecting = future::or(async { Some(connecting.await) }, async {
        watch.until_stopped().await;
        None
    });
    let sockets = block_on(&proactor, connecting)?.transpose()?.unwrap_or_default();
    document.connections = u16::try_from(sockets.len()).unwrap_or(u16::MAX);

    let watch = Watch { started: Instant::now(), ..watch };
    let from_file = match &input {
        Input::File { file, offset, .. } => Some((file.clone(), *offset)),
        _ => None,
    };
    let counts = args.from == From::Gen || args.framing != Framing::Stream;
    let feed = Feed::start(args, input, &common)?;
    let lanes = feed.lanes(&common, sockets);
    let executor = LocalExecutor::new();
    let work = async {
        let tasks: Vec<_> = lanes.into_iter().map(|lane| executor.spawn(lane)).collect();
        for task in tasks {
            task.await;
        }
        None
    };
    let given_up =
        block_on(&proactor, executor.run(future::or(work, async { Some(watch.until_overdue().await) })))?;
    let elapsed = watch.started.elapsed();
    // Sends that were given up end here.
    drop(executor);
    watch.let_go(&proactor, given_up.is_some());
    if let Some((file, offset)) = from_file {
        Input::sent(&file, offset, handle.statistics().sent_bytes);
    }
    document.ran(args, &handle, elapsed);
    document.messages = counts.then(|| common.messages.get());
    document.sends = common.sends.get();
    document.stopped_by = match (common.stop.reason(), &args.from) {
        (Some((why, _)), _) => why,
        (None, From::Gen) => StoppedBy::Messages,
        (None, _) => StoppedBy::End,
    };
    document.error = common.stop.take_failure().or(given_up).map(|failure| {
        let message = format!("{}; {} bytes were sent before", failure.message, document.bytes);
        Failure { message, ..failure }
    });
    let _quarantined = proactor.shut_down(PATIENCE);
    Ok(document)
}

fn block_on<F: Future>(proactor: &Proactor, future: F) -> Result<F::Output, Failure> {
    proactor.block_on(future).map_err(|error| Failure::new("io", error))
}

/// Makes all connections before anything is sent over one.
async fn connect(
    handle: &Handle,
    to: &Address,
    addresses: &[rustix::net::SocketAddrAny],
    connections: u16,
) -> Result<Vec<Socket>, Failure> {
    let mut sockets = Vec::with_capacity(connections.into());
    for _ in 0..connections {
        sockets.push(setup::connect(handle, to, addresses).await?);
    }
    Ok(sockets)
}

/// Watches what may end the reading, and the sending.
#[derive(Clone, Copy)]
struct Watch<'a> {
    args: &'a SendArgs,
    common: &'a Common,
    signals: &'a StopSignals,
    started: Instant,
}

impl Watch<'_> {
    /// Stops by a signal.
    async fn until_stopped(self) {
        while self.signals.seen() == 0 {
            self.look().await;
        }
        self.common.stop.now(StoppedBy::Signal);
    }

    /// Stops by a signal or when it is time; ends when what has been read is not sent in time after that, or after a
    /// failure.
    async fn until_overdue(self) -> Failure {
        loop {
            self.look().await;
            let unsent = |why: &str| {
                Failure::new("unsent", format!("{why} before the peer took all that had been read"))
            };
            if self.signals.seen() > 1 {
                return unsent("a second signal came");
            }
            match self.common.stop.reason() {
                Some((StoppedBy::Signal | StoppedBy::Duration | StoppedBy::Error, since)) => {
                    if since.elapsed() >= self.args.drain_timeout {
                        return unsent("the time was over")
                            .fix("look why the receiver reads so slowly, or use a longer --drain-timeout");
                    }
                }
                // What is wanted takes the time that it takes.
                Some(_) => {}
                None if self.signals.seen() > 0 => self.common.stop.now(StoppedBy::Signal),
                None => {
                    if self.args.duration().is_some_and(|duration| self.started.elapsed() >= duration) {
                        self.common.stop.now(StoppedBy::Duration);
                    }
                }
            }
        }
    }

    async fn look(self) {
        // It fails when the proactor is shut down only, which is later.
        let _ = self.common.handle.timeout(LOOK).await;
    }

    /// Waits until the kernel has let go of what it sends without a copy, so that all of it is counted.
    fn let_go(self, proactor: &Proactor, given_up: bool) {
        let patience = if given_up { PATIENCE } else { self.args.drain_timeout };
        let (since, signals) = (Instant::now(), self.signals.seen());
        while self.common.handle.in_flight() > 0
            && since.elapsed() < patience
            && self.signals.seen() == signals
        {
            if proactor.poll(Some(LOOK)).is_err() {
                break;
            }
        }
    }
}
