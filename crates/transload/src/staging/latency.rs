//! How long messages take, sampled: one position in 64 is stamped, in a side table.

use std::time::{Duration, Instant};

use transload_core::Counter;

/// One position in this many is stamped.
pub(super) const SAMPLE_EVERY: u64 = 64;

/// When sampled positions were published, in nanoseconds since the ring was made.
///
/// Entry `position / 64 % entries` is written by the position's producer before it publishes, and read by the holder
/// of the batch: the publish orders the two, and the next writer comes after the slot is free again.
#[derive(Debug)]
pub(super) struct Stamps {
    epoch: Instant,
    nanos: Box<[Counter]>,
}

impl Stamps {
    /// For a ring of so many slots, a power of two.
    pub(super) fn new(slots: usize) -> Self {
        let entries = (slots as u64).div_ceil(SAMPLE_EVERY);
        Self { epoch: Instant::now(), nanos: (0..entries).map(|_| Counter::new()).collect() }
    }

    fn entry(&self, position: u64) -> &Counter {
        &self.nanos[(position / SAMPLE_EVERY % self.nanos.len() as u64) as usize]
    }

    /// The sampled positions of a range.
    fn sampled(first: u64, count: u64) -> impl Iterator<Item = u64> {
        let from = first.div_ceil(SAMPLE_EVERY);
        let until = (first + count).div_ceil(SAMPLE_EVERY);
        (from..until).map(|sample| sample * SAMPLE_EVERY)
    }

    /// Stamps what is about to be published.
    #[inline]
    pub(super) fn stamp(&self, first: u64, count: u64) {
        let mut sampled = Self::sampled(first, count).peekable();
        if sampled.peek().is_some() {
            let now = self.nanos_now();
            sampled.for_each(|position| self.entry(position).set(now));
        }
    }

    fn nanos_now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The ages of the sampled messages of a range.
    pub(super) fn ages(&self, first: u64, count: u64) -> impl Iterator<Item = Duration> {
        let now = self.nanos_now();
        Self::sampled(first, count)
            .map(move |position| Duration::from_nanos(now.saturating_sub(self.entry(position).value())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_position_in_64_is_sampled_whatever_the_ranges() {
        for width in [1, 3, 63, 64, 65, 200] {
            let all: Vec<u64> = (0..10).flat_map(|range| Stamps::sampled(range * width, width)).collect();
            let expected: Vec<u64> = (0..10 * width).filter(|position| position % 64 == 0).collect();
            assert_eq!(all, expected);
        }
    }

    #[test]
    fn ages_are_those_of_the_stamped() {
        let stamps = Stamps::new(2);
        stamps.stamp(63, 1);
        assert_eq!(stamps.ages(63, 1).count(), 0);
        stamps.stamp(64, 1);
        std::thread::sleep(Duration::from_millis(2));
        let ages: Vec<Duration> = stamps.ages(64, 1).collect();
        assert!(ages.len() == 1 && ages[0] >= Duration::from_millis(2), "{ages:?}");
    }
}
