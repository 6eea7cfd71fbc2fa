//! Latencies and batch sizes, as distributions.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::device::Route;

/// The longest latency that is told apart from longer ones: an hour.
const LONGEST_NANOS: u64 = 3_600_000_000_000;

/// What a pump measures while it runs: one sample in 64 messages, one for each batch.
#[derive(Debug)]
pub(super) struct Measure {
    latency: Histogram<u64>,
    batches: Histogram<u64>,
    largest_batch: u64,
    filtered: u64,
    mapped_batches: u64,
}

/// A latency distribution, from publishing to landing; each figure is within 0.1 % of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// How many messages were sampled.
    pub samples: u64,
    /// Half of them were at most this old when they landed.
    pub p50: Duration,
    /// 99 % of them.
    pub p99: Duration,
    /// 99.9 % of them.
    pub p999: Duration,
    /// All of them.
    pub max: Duration,
}

impl Measure {
    pub(super) fn new() -> Self {
        let with_bounds = |high| {
            // Three significant digits: half a MiB, all of it allocated here.
            Histogram::new_with_bounds(1, high, 3)
                .unwrap_or_else(|_| unreachable!("constant bounds that are valid"))
        };
        Self {
            latency: with_bounds(LONGEST_NANOS),
            batches: with_bounds(1 << 32),
            largest_batch: 0,
            filtered: 0,
            mapped_batches: 0,
        }
    }

    pub(super) fn batch(&mut self, messages: usize) {
        self.batches.saturating_record(messages as u64);
        self.largest_batch = self.largest_batch.max(messages as u64);
    }

    pub(super) fn ages(&mut self, ages: impl Iterator<Item = Duration>) {
        for age in ages {
            self.latency.saturating_record(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// A batch has gone through a kernel, which dropped so many of its messages.
    pub(super) fn launched(&mut self, route: Route, filtered: u64) {
        self.filtered += filtered;
        self.mapped_batches += u64::from(route == Route::Mapped);
    }

    pub(super) fn filtered(&self) -> u64 {
        self.filtered
    }

    pub(super) fn mapped_batches(&self) -> u64 {
        self.mapped_batches
    }

    pub(super) fn latency(&self) -> Latency {
        let at = |quantile| Duration::from_nanos(self.latency.value_at_quantile(quantile));
        Latency {
            samples: self.latency.len(),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: Duration::from_nanos(self.latency.max()),
        }
    }

    /// The median and the largest number of messages in a batch.
    pub(super) fn batch_messages(&self) -> (u64, u64) {
        // A histogram answers with the upper end of a class, which may be above the largest.
        (self.batches.value_at_quantile(0.5).min(self.largest_batch), self.largest_batch)
    }

    pub(super) fn batch_count(&self) -> u64 {
        self.batches.len()
    }
}
