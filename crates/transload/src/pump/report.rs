//! What a pump has done, once it has ended.

use std::time::Duration;

use super::feed::FeedGauge;
use super::{Latency, Progress, PumpError};

/// What a pump has done. `accepted == delivered + dropped`, also when it ended by an error.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Messages accepted. A slot that was claimed and not committed when the pump ended counts as one that was dropped.
    pub accepted: u64,
    /// Those of them that an earlier consumer of a shared ring had taken, and was not done with.
    pub redelivered: u64,
    /// Messages that arrived on the device, and were read back where that was asked for.
    pub delivered: u64,
    /// Accepted messages that did not arrive.
    pub dropped: u64,
    /// Those of the delivered messages for which a kernel gave no output, on purpose.
    pub filtered: u64,
    /// Messages refused: they were never accepted.
    pub rejected: u64,
    /// Slots whose reservations were dropped: never accepted either.
    pub skipped: u64,
    /// Slots that are never used again, because the device may still access them.
    pub quarantined: usize,
    /// Bytes that arrived.
    pub bytes: u64,
    /// How long the pump ran.
    pub elapsed: Duration,
    /// How many batches were submitted.
    pub batches: u64,
    /// The median number of messages in a batch.
    pub batch_messages_p50: u64,
    /// The largest number of messages in a batch.
    pub batch_messages_max: u64,
    /// Those of them that a kernel read where they were, in host memory.
    pub mapped_batches: u64,
    /// Copies that failed; most are tried again.
    pub failed_copies: u64,
    /// From publishing to landing, if the ring samples it.
    pub latency: Latency,
    /// Why the pump ended early.
    pub error: Option<PumpError>,
}

impl Report {
    /// What a pump of this feed has done by its counters; the rest is not known.
    pub(super) fn of(progress: &Progress, feed: &FeedGauge) -> Self {
        Self {
            accepted: progress.accepted,
            redelivered: progress.redelivered,
            delivered: progress.delivered,
            dropped: progress.dropped,
            rejected: progress.rejected,
            skipped: progress.skipped,
            quarantined: feed.quarantined(),
            bytes: progress.delivered * feed.message_size() as u64,
            ..Self::default()
        }
    }
}
