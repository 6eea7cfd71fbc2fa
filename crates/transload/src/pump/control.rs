//! What the threads around a pump tell each other.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use transload_core::{Counter, Flag};

use crate::staging::StagingRing;

/// Flags and counters that a pump shares with its intakes and its handle.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// The ring is full and the oldest messages are to make room: from intakes to the pump.
    pub(super) shed: Flag,
    /// End now: what is not yet on the device is dropped.
    pub(super) abort: Flag,
    /// When draining ends, once somebody has asked the pump to stop.
    drain_until: Mutex<Option<Instant>>,
    /// Messages whose batches the device's tail has passed. Written by the pump.
    pub(super) delivered: Counter,
    /// Accepted messages that will not arrive: dropped out of the ring or given up. Written by the pump.
    pub(super) dropped: Counter,
    /// Messages that were accepted and dropped at once, as the ring was full. Written by intakes.
    pub(super) dropped_new: Counter,
    /// Messages that were refused, as the ring was full. Written by intakes.
    pub(super) rejected: Counter,
    /// Copies that failed. Written by the pump.
    pub(super) failed_copies: Counter,
}

impl Control {
    /// Asks the pump to end draining at `until`, or earlier if somebody asked for that.
    pub(super) fn drain_until(&self, until: Instant) {
        let mut deadline = self.drain_until.lock().unwrap_or_else(PoisonError::into_inner);
        *deadline = Some(deadline.map_or(until, |earlier| earlier.min(until)));
    }

    /// Whether the pump must not submit any more.
    pub(super) fn is_over(&self) -> bool {
        self.abort.is_raised()
            || self
                .drain_until
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_some_and(|until| until <= Instant::now())
    }
}

/// How far a running pump is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Messages accepted so far.
    pub accepted: u64,
    /// Messages on the device, and read back where that was asked for.
    pub delivered: u64,
    /// Accepted messages that will not arrive.
    pub dropped: u64,
    /// Messages refused.
    pub rejected: u64,
    /// Slots whose reservations were dropped.
    pub skipped: u64,
}

impl Control {
    /// How far the pump of this ring is.
    pub(super) fn progress(&self, ring: &StagingRing) -> Progress {
        // Read before the ring, so that what is accepted is never less than what is delivered and dropped.
        let (delivered, dropped) = (self.delivered.value(), self.dropped.value() + self.dropped_new.value());
        let statistics = ring.statistics();
        let taken = statistics.delivered + statistics.cleared + self.dropped_new.value();
        Progress {
            accepted: taken + ring.len() as u64,
            delivered,
            dropped,
            rejected: self.rejected.value(),
            skipped: statistics.skipped,
        }
    }
}
