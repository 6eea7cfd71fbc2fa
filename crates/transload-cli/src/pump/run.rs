//! Runs a pump to its end: sources, signals, time, and the report.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use transload::pump::{PumpError, PumpHandle, PumpStopper, Report};

use super::args::{From, PumpArgs, Target};
use super::back::Back;
use super::progress::Show;
use super::report::{Document, StoppedBy};
use super::setup::{Setup, Started};
use super::source::{Ended, Why};
use super::stop::Stop;
use crate::failure::Failure;
use crate::output::{Told, announce};
use crate::signals::StopSignals;

/// How often the main thread looks at time and signals.
const LOOK: Duration = Duration::from_millis(20);

/// How long a pump may take to end once it is told to, and how long beyond its time to drain: it waits for the device
/// for up to two seconds then.
const AT_ONCE: Duration = Duration::from_secs(1);
const OVERDUE: Duration = Duration::from_secs(5);

/// How long generated messages go on if nothing else is said.
const DEFAULT_DURATION: Duration = Duration::from_secs(5);

/// Runs the command and reports.
pub(crate) fn main(args: &PumpArgs, matches: Option<&ArgMatches>) -> ExitCode {
    let document = run(args, args.verifies(matches)).unwrap_or_else(Document::failed);
    ExitCode::from(tell(args, &document))
}

/// Prints the report and gives the exit code.
fn tell(args: &PumpArgs, document: &Document) -> u8 {
    let told = Told { error: document.error.as_ref(), exit: document.exit(), json: args.json };
    let words = || if args.quiet || document.device.is_none() { String::new() } else { document.words() };
    if args.read_back == Some(Target::Standard) {
        told.tell(document, words, &mut io::stderr())
    } else {
        told.tell(document, words, &mut io::stdout())
    }
}

fn run(args: &PumpArgs, verify: bool) -> Result<Document, Failure> {
    let Setup { back: Back { pump, mut document, counts, output_bytes }, feed } = Setup::new(args, verify)?;
    let signals = StopSignals::watch()?;
    let (ended, endings) = channel();
    let stop = Arc::new(Stop::default());
    let tally = feed.tally.clone();
    // Dropped when all is over: the file of a socket, and the part in a shared region.
    let started = feed.start(args, &stop, &ended)?;
    drop(ended);
    if let Some(address) = started.address() {
        announce(&address);
    }
    let Started { sources, io, listening, .. } = &started;
    let running = pump.spawn()?;
    let mut show = Show::new(args.quiet, args.stats_interval, args.messages);
    let mut intake = Watch { args, stop, signals, endings, left: *sources, started: Instant::now() };
    let (stopped_by, mut failure) = intake.until_stopped(&running, &mut show);
    intake.stop(running.stopper(), stopped_by);
    let report = match intake.until_drained(&running, &mut show) {
        Drained::Ended => running.join(),
        Drained::Aborted => intake.abandon(&running),
        Drained::Overdue => {
            failure.get_or_insert_with(|| {
                Failure::new(
                    "stuck",
                    "the pump did not end in time: whoever takes what is read back has stopped",
                )
                .fix("take it faster, or use a longer --drain-timeout")
            });
            intake.abandon(&running)
        }
    };
    show.finish();
    document.ran(&report);
    document.sourced(&tally, io.clone(), listening.clone());
    document.region = started.region_words(&report);
    document.output_bytes_total = output_bytes.map_or(0, |bytes| bytes.value());
    document.verified = counts.as_ref().map(|counts| counts.verified.value());
    document.corrupt = counts.as_ref().map(|counts| counts.corrupt.value());
    let by_itself = stopped_by == StoppedBy::Error && failure.is_none();
    (document.stopped_by, document.error) = match report.error {
        // Whoever reads our standard output has read enough.
        Some(PumpError::Sink(error))
            if error.kind() == io::ErrorKind::BrokenPipe && args.read_back == Some(Target::Standard) =>
        {
            (if by_itself { StoppedBy::End } else { stopped_by }, failure)
        }
        Some(error) => (StoppedBy::Error, Some(error.into())),
        // All sources had come to their ends.
        None if by_itself => intake.ending(),
        None => (stopped_by, failure),
    };
    if let (None, Some(corrupt @ 1..)) = (&document.error, document.corrupt) {
        document.error =
            Some(Failure::new("corrupt", format!("{corrupt} messages came back changed or out of order")));
    }
    Ok(document)
}

/// How a pump came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drained {
    /// Its thread has ended.
    Ended,
    /// It was told to end at once, and something holds it.
    Aborted,
    /// It should have ended by itself, and something holds it.
    Overdue,
}

/// Watches what may end the intake.
struct Watch<'a> {
    args: &'a PumpArgs,
    stop: Arc<Stop>,
    signals: StopSignals,
    endings: Receiver<Ended>,
    /// Sources that still run.
    left: usize,
    started: Instant,
}

impl Watch<'_> {
    /// Waits for the first reason to stop the intake.
    fn until_stopped(&mut self, running: &PumpHandle, show: &mut Show) -> (StoppedBy, Option<Failure>) {
        let duration = match (&self.args.from, self.args.messages, self.args.duration) {
            (From::Gen, None, None) => Some(DEFAULT_DURATION),
            (_, _, duration) => duration,
        };
        loop {
            match self.endings.recv_timeout(LOOK) {
                Ok(Err(failure)) => return (StoppedBy::Error, Some(failure)),
                Ok(Ok(why)) => {
                    self.left -= 1;
                    if self.left == 0 {
                        return (stopped_by(why), None);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return (StoppedBy::Error, Some(panicked())),
            }
            show.update(running.stopper().progress());
            if self.signals.seen() > 0 {
                return (StoppedBy::Signal, None);
            }
            if duration.is_some_and(|duration| self.started.elapsed() >= duration) {
                return (StoppedBy::Duration, None);
            }
            if running.is_finished() {
                // By an error of its own, which the report holds; or all sources have ended, and say so in a moment.
                return (StoppedBy::Error, None);
            }
        }
    }

    /// Stops the intake. Sources that have come to their end have let go of the ring already.
    fn stop(&self, stopper: &PumpStopper, stopped_by: StoppedBy) {
        self.stop.raise();
        stopper.stop(self.args.drain_timeout);
        tracing::debug!(?stopped_by, "the intake is stopped");
    }

    /// Waits until the pump has ended; a further signal ends it at once.
    ///
    /// A pump looks at its time and at signals between batches. If it is held within one, by a reader that takes
    /// nothing, then this ends without it.
    fn until_drained(&self, running: &PumpHandle, show: &mut Show) -> Drained {
        let now = Instant::now();
        let overdue = now.checked_add(self.args.drain_timeout).and_then(|due| due.checked_add(OVERDUE));
        let mut aborted = None;
        while !running.is_finished() {
            let now = Instant::now();
            if self.signals.seen() > 1 {
                running.stopper().abort();
                if now.duration_since(*aborted.get_or_insert(now)) >= AT_ONCE {
                    return Drained::Aborted;
                }
            } else if overdue.is_some_and(|overdue| overdue <= now) {
                return Drained::Overdue;
            }
            show.update(running.stopper().progress());
            std::thread::sleep(Duration::from_millis(2));
        }
        Drained::Ended
    }

    /// What is known of a pump that is held. It ends with the process.
    fn abandon(&self, running: &PumpHandle) -> Report {
        running.stopper().abort();
        let mut report = running.stopper().report_without_end();
        report.elapsed = self.started.elapsed();
        report
    }

    /// How the sources ended, once the pump has ended since there are none any more.
    fn ending(&mut self) -> (StoppedBy, Option<Failure>) {
        loop {
            match self.endings.recv() {
                Ok(Err(failure)) => return (StoppedBy::Error, Some(failure)),
                Ok(Ok(why)) if self.left <= 1 => return (stopped_by(why), None),
                Ok(Ok(_)) => self.left -= 1,
                Err(_) => return (StoppedBy::Error, Some(panicked())),
            }
        }
    }
}

fn stopped_by(why: Why) -> StoppedBy {
    match why {
        Why::Messages => StoppedBy::Messages,
        Why::End => StoppedBy::End,
        Why::Connections => StoppedBy::Connections,
        Why::Stopped => StoppedBy::Error,
    }
}

fn panicked() -> Failure {
    Failure::new("source", "a source's thread ended by a panic")
}
