//! A pump that runs on a thread of its own.

use std::any::Any;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::control::Control;
use super::feed::FeedGauge;
use super::{Progress, Pump, PumpError, Report};

/// A pump that runs on a thread of its own. Dropping the handle lets it run on.
#[derive(Debug)]
pub struct PumpHandle {
    stopper: PumpStopper,
    thread: JoinHandle<Report>,
}

/// Stops a running pump, and says how far it is, from any thread.
#[derive(Clone, Debug)]
pub struct PumpStopper {
    feed: FeedGauge,
    control: Arc<Control>,
}

impl PumpStopper {
    /// Closes the ring, and gives what it has accepted so long to reach the device. What has not been submitted by
    /// then is dropped and counted.
    pub fn stop(&self, drain_timeout: Duration) {
        self.control.drain_for(drain_timeout);
        self.feed.close();
    }

    /// Closes the ring and ends the pump at once: what is not yet on the device is dropped and counted.
    pub fn abort(&self) {
        self.control.abort.raise();
        self.feed.close();
    }

    /// How far the pump is, read while it runs: the numbers may be some messages apart from each other.
    pub fn progress(&self) -> Progress {
        self.control.progress(&self.feed)
    }

    /// The report of a pump that will not give one, as its thread panicked or does not come back: what has not arrived
    /// counts as dropped, and what only the thread measures is not known.
    pub fn report_without_end(&self) -> Report {
        let progress = self.progress();
        let (accepted, delivered, dropped) = (progress.accepted, progress.delivered, progress.dropped);
        let dropped = self.feed.dropped_without_end(accepted, delivered, dropped);
        Report::of(&Progress { accepted: delivered + dropped, dropped, ..progress }, &self.feed)
    }
}

impl PumpHandle {
    pub(super) fn start(pump: Pump) -> Result<Self, PumpError> {
        let stopper = PumpStopper { feed: pump.feed.gauge(), control: pump.control() };
        let thread = thread::Builder::new()
            .name("transload-pump".to_owned())
            .spawn(move || pump.run())
            .map_err(PumpError::Thread)?;
        Ok(Self { stopper, thread })
    }

    /// What stops the pump: to be cloned for other threads.
    pub fn stopper(&self) -> &PumpStopper {
        &self.stopper
    }

    /// Whether the pump has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the pump has ended: until all producers are gone or the ring is closed, and it is drained.
    pub fn join(self) -> Report {
        let Self { stopper, thread } = self;
        thread.join().unwrap_or_else(|panic| {
            let error = Some(PumpError::Panicked(words(&*panic)));
            Report { error, ..stopper.report_without_end() }
        })
    }

    /// [Stops](PumpStopper::stop) the pump and waits for it.
    pub fn stop(self, drain_timeout: Duration) -> Report {
        self.stopper.stop(drain_timeout);
        self.join()
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
