//! When it is time to stop, and why.

use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::send::args::SendArgs;
use crate::send::report::StoppedBy;
use crate::signals::StopSignals;

/// Watches time and signals. The first reason to stop counts.
#[derive(Debug)]
pub(super) struct Watch {
    signals: StopSignals,
    started: Instant,
    duration: Option<Duration>,
    /// How long what is begun may take once it is to stop.
    patience: Duration,
    why: Option<StoppedBy>,
    /// Since when it is in a hurry.
    hurries_since: Option<Instant>,
}

impl Watch {
    pub(super) fn new(args: &SendArgs, signals: StopSignals) -> Self {
        Self {
            signals,
            started: Instant::now(),
            duration: args.duration(),
            patience: args.drain_timeout,
            why: None,
            hurries_since: None,
        }
    }

    /// Begins to count the time anew.
    pub(super) fn restart(&mut self) {
        self.started = Instant::now();
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether it is to stop, by what has come or by what was said before.
    pub(super) fn is_over(&mut self) -> bool {
        if self.why.is_none() && self.duration.is_some_and(|duration| self.started.elapsed() >= duration) {
            self.hurry(StoppedBy::Duration);
        }
        if self.signals.seen() > 0 && self.hurries_since.is_none() {
            self.hurry(StoppedBy::Signal);
        }
        self.why.is_some()
    }

    /// All that was wanted is sent, which takes the time that it takes to be done.
    pub(super) fn complete(&mut self, why: StoppedBy) {
        self.why.get_or_insert(why);
    }

    pub(super) fn fail(&mut self) {
        self.hurry(StoppedBy::Error);
    }

    fn hurry(&mut self, why: StoppedBy) {
        self.why.get_or_insert(why);
        self.hurries_since.get_or_insert_with(Instant::now);
    }

    pub(super) fn why(&self) -> Option<StoppedBy> {
        self.why
    }

    /// Why nothing is waited for any more, if it is so.
    pub(super) fn overdue(&mut self) -> Option<&'static str> {
        self.is_over();
        if self.signals.seen() > 1 {
            return Some("a second signal came");
        }
        let is_late = self.hurries_since.is_some_and(|since| since.elapsed() >= self.patience);
        is_late.then_some("the time was over")
    }

    /// The failure of one who stopped before all was done.
    pub(super) fn unsent(why: &str, rest: &str) -> Failure {
        Failure::new("unsent", format!("{why} before {rest}"))
            .fix("look whether a pump runs and why it is so slow, or use a longer --drain-timeout")
    }
}
