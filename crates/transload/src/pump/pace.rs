//! How long to wait before looking again where nothing was found.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(5);

/// How long to wait before something is looked at again, of which nobody tells when it changes: twice as long each time,
/// and not at all when there is a reason to look.
#[derive(Debug, Default)]
pub(super) struct Pace {
    wait: Duration,
    due: Option<Instant>,
}

impl Pace {
    /// Something has happened.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Nothing was found.
    pub(super) fn slow_down(&mut self) {
        self.wait = (self.wait * 2).clamp(FIRST, LONGEST);
        self.due = Some(Instant::now() + self.wait);
    }

    pub(super) fn is_due(&self) -> bool {
        self.due.is_none_or(|due| Instant::now() >= due)
    }

    /// How long until it is due.
    pub(super) fn left(&self) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()))
    }
}
