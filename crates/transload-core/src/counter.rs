//! A statistic that threads may read while it changes.

use crate::sync::{AtomicU64, Ordering::Relaxed};

/// A count that only grows, read by anyone at any time.
///
/// It orders nothing: whoever reads it may see an older value. It wraps after 2^64.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `count`, from any thread.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// Adds `count` without an atomic read-modify-write.
    ///
    /// Only for a counter that one thread at a time writes: with more, counts are lost.
    pub fn add_as_only_writer(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Replaces the value, for gauges: ages and levels rather than counts.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The value at some moment during the call.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
