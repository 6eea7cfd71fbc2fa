//! What the threads around a pump tell each other.

use std::time::{Duration, Instant};

use transload_core::{Counter, Flag};

use super::Progress;
use super::feed::FeedGauge;

/// Flags and counters that a pump shares with its intakes and its handle.
#[derive(Debug)]
pub(super) struct Control {
    /// The ring is full and the oldest messages are to make room: from intakes to the pump.
    pub(super) shed: Flag,
    /// End now: what is not yet on the device is dropped.
    pub(super) abort: Flag,
    /// When draining ends, once somebody has asked the pump to stop: in nanoseconds since `epoch`, or 0.
    drain_until_nanos: Counter,
    epoch: Instant,
    /// Messages whose batches the device's tail has passed. Written by the pump.
    pub(super) delivered: Counter,
    /// Accepted messages that will not arrive: dropped out of the ring or given up. Written by the pump.
    pub(super) dropped: Counter,
    /// Messages that were accepted and dropped at once, as the ring was full. Written by intakes.
    pub(super) dropped_new: Counter,
    /// Messages that were refused, as the ring was full. Written by intakes.
    pub(super) rejected: Counter,
    /// Messages that were brought back from a queue on the device. Written by the pump, as is the rest.
    pub(super) returned: Counter,
    /// Messages that stood in a queue on the device and could not be brought back.
    pub(super) unreturned: Counter,
    /// Copies that failed.
    pub(super) failed_copies: Counter,
}

impl Control {
    pub(super) fn new() -> Self {
        Self {
            shed: Flag::new(),
            abort: Flag::new(),
            drain_until_nanos: Counter::new(),
            epoch: Instant::now(),
            delivered: Counter::new(),
            dropped: Counter::new(),
            dropped_new: Counter::new(),
            rejected: Counter::new(),
            returned: Counter::new(),
            unreturned: Counter::new(),
            failed_copies: Counter::new(),
        }
    }

    /// Asks the pump to end draining so long from now, or earlier if somebody asked for that.
    pub(super) fn drain_for(&self, time: Duration) {
        let nanos =
            self.nanos_now().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).max(1);
        let earlier = self.drain_until_nanos.value();
        self.drain_until_nanos.set(if earlier == 0 { nanos } else { earlier.min(nanos) });
    }

    /// Whether somebody has said when draining ends.
    pub(super) fn is_draining(&self) -> bool {
        self.drain_until_nanos.value() != 0
    }

    /// Whether the pump must not submit any more.
    pub(super) fn is_over(&self) -> bool {
        let drain_until = self.drain_until_nanos.value();
        self.abort.is_raised() || (drain_until != 0 && drain_until <= self.nanos_now())
    }

    fn nanos_now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// How far the pump of this feed is.
    pub(super) fn progress(&self, feed: &FeedGauge) -> Progress {
        // Read before the feed, so that what is accepted is never less than what is delivered and dropped.
        let (delivered, dropped) = (self.delivered.value(), self.dropped.value());
        let dropped_new = self.dropped_new.value();
        let counts = feed.counts();
        Progress {
            accepted: counts.accepted + dropped_new,
            redelivered: counts.redelivered,
            delivered,
            dropped: dropped + dropped_new,
            returned: self.returned.value(),
            rejected: self.rejected.value(),
            skipped: counts.skipped,
            stalled: counts.stalled,
        }
    }
}
