//! What a pump does on the device beside giving it messages: it runs a kernel, and brings back what that gives.

use std::time::{Duration, Instant};

use super::PumpError;
use super::errand::Errand;
use super::idle::{LONG, SHORT};
use super::inbound::Inbound;
use super::link::Link;
use super::outbound::Outbound;
use super::pace::Pace;
use crate::device::{Completion, Dispatch, Kernel};

/// How long a kernel may take nothing, though something is there and nothing hinders it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs a kernel over the queues on the device while there is something for it to do, one run at a time, and brings back
/// what it gives, or what other kernels give.
pub(super) struct Rounds {
    kernel: Option<Runner>,
    outbound: Option<Outbound>,
    /// The queue was looked at since there is nothing more to come.
    has_looked: bool,
}

/// The kernel of a pump over queues.
struct Runner {
    kernel: Kernel,
    dispatch: Dispatch,
    errand: Errand,
    /// It has been started, and what it did is not yet known.
    is_open: bool,
    /// How far it has moved the head, and how many messages it has given, when it was last started.
    moved: (u32, u32),
    /// What else the next run depends on, when it was last started: how far the pump has moved tail and head.
    given: (u32, u32),
    /// When it was last seen to do something, and how often it has not since.
    moved_at: Instant,
    idle_runs: u32,
    /// There is something for it to do.
    has_work: bool,
    pace: Pace,
}

impl Rounds {
    pub(super) fn new(kernel: Option<(Kernel, Dispatch)>, outbound: Option<Outbound>) -> Self {
        let kernel = kernel.map(|(kernel, dispatch)| Runner {
            kernel,
            dispatch,
            errand: Errand::new("running the kernel"),
            is_open: false,
            moved: (0, 0),
            given: (0, 0),
            moved_at: Instant::now(),
            idle_runs: 0,
            has_work: false,
            pace: Pace::default(),
        });
        Self { kernel, outbound, has_looked: false }
    }

    /// Starts what can be started; `is_last` says that nothing more will be given to the device. Says whether anything
    /// changed.
    pub(super) fn advance(
        &mut self,
        link: &mut Link,
        mut inbound: Option<&mut Inbound>,
        is_last: bool,
    ) -> bool {
        match &mut self.kernel {
            Some(runner) => runner.advance(link, inbound.as_deref_mut(), self.outbound.as_mut(), is_last),
            None => {
                if let Some(outbound) = &mut self.outbound {
                    if is_last && !self.has_looked {
                        self.has_looked = true;
                        outbound.look_again();
                    }
                    outbound.look_now_and_then();
                }
            }
        }
        if let Some(inbound) = inbound {
            inbound.look(link);
        }
        self.outbound.as_mut().is_some_and(|outbound| outbound.advance(link))
    }

    /// Brings back what is on its way, at the end of a pump. Starts nothing else.
    pub(super) fn finish(&mut self, link: &mut Link) {
        if let Some(outbound) = &mut self.outbound {
            outbound.advance(link);
        }
    }

    /// Whether nothing is left to be done, if nothing more comes.
    pub(super) fn is_done(&self, inbound: Option<&Inbound>) -> bool {
        let kernel_is_done = match (&self.kernel, inbound) {
            (Some(runner), Some(inbound)) => !runner.is_open && inbound.untaken() == 0,
            (Some(runner), None) => !runner.is_open,
            (None, _) => self.has_looked || self.outbound.is_none(),
        };
        kernel_is_done && self.outbound.as_ref().is_none_or(Outbound::is_empty)
    }

    /// Whether nobody gets what comes back any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.outbound.as_ref().is_some_and(Outbound::is_closed)
    }

    /// How long it may be slept, though nothing is in flight.
    pub(super) fn rest(&self) -> Duration {
        let outbound = match &self.outbound {
            None => LONG,
            Some(outbound) if outbound.is_held_up() => SHORT * 5,
            Some(_) if self.kernel.is_some() => LONG,
            Some(outbound) => outbound.pace().left(),
        };
        let kernel = self.kernel.as_ref().filter(|runner| runner.has_work);
        let kernel = kernel.map_or(LONG, |runner| runner.pace.left());
        outbound.min(kernel).max(SHORT)
    }

    /// Counts what did not come to its end.
    pub(super) fn end(&mut self, link: &mut Link, inbound: Option<&Inbound>) -> u64 {
        if let Some(outbound) = self.outbound.take() {
            outbound.end(link);
        }
        match (&self.kernel, inbound) {
            (Some(_), Some(inbound)) => u64::from(inbound.untaken()),
            _ => 0,
        }
    }

    /// Handles what is its own.
    pub(super) fn complete(&mut self, link: &mut Link, completion: Completion) -> Option<Completion> {
        if let Some(runner) = self.kernel.as_mut().filter(|runner| runner.errand.has(completion.ticket)) {
            runner.errand.ended(link, &completion.result);
            return None;
        }
        match &mut self.outbound {
            Some(outbound) => outbound.complete(link, completion),
            None => Some(completion),
        }
    }
}

impl Runner {
    fn advance(
        &mut self,
        link: &mut Link,
        mut inbound: Option<&mut Inbound>,
        mut outbound: Option<&mut Outbound>,
        is_last: bool,
    ) {
        let is_looking = inbound.as_ref().is_some_and(|inbound| inbound.is_looking())
            || outbound.as_ref().is_some_and(|outbound| outbound.is_looking());
        if self.errand.is_underway() || is_looking {
            return;
        }
        let position = |queue: Option<u32>| queue.unwrap_or(0);
        let moved = (
            position(inbound.as_ref().map(|inbound| inbound.head())),
            position(outbound.as_ref().map(|outbound| outbound.given())),
        );
        if std::mem::take(&mut self.is_open) {
            if moved == self.moved {
                self.idle_runs = self.idle_runs.saturating_add(1);
                self.pace.slow_down();
            } else {
                self.idle_runs = 0;
                self.moved_at = Instant::now();
                self.pace.reset();
            }
        }
        self.has_work = match &inbound {
            Some(inbound) => inbound.untaken() != 0,
            None => !is_last,
        };
        if !self.has_work {
            self.moved_at = Instant::now();
            return;
        }
        let given = (
            position(inbound.as_ref().map(|inbound| inbound.tail())),
            position(outbound.as_ref().map(|outbound| outbound.head())),
        );
        if given != self.given {
            self.pace.reset();
        }
        // It may have nowhere to go to with what it makes: that is not its fault.
        if outbound.as_ref().is_some_and(|outbound| outbound.is_held_up()) {
            self.moved_at = Instant::now();
        }
        if is_last
            && !link.control.is_draining()
            && self.idle_runs >= 2
            && self.moved_at.elapsed() >= PATIENCE
        {
            let messages = inbound.as_ref().map_or(0, |inbound| inbound.untaken());
            return link.end(PumpError::KernelStopped { entry: self.kernel.entry().to_owned(), messages });
        }
        if !link.is_free() || !self.pace.is_due() {
            return;
        }
        self.errand.dispatch(link, &self.kernel, self.dispatch);
        if self.errand.is_underway() {
            (self.is_open, self.moved, self.given) = (true, moved, given);
            if let Some(inbound) = &mut inbound {
                inbound.look_again();
            }
            if let Some(outbound) = &mut outbound {
                outbound.look_again();
            }
        }
    }
}
