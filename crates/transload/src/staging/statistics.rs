//! What a ring has done so far.

use std::time::Duration;

/// What a ring has done so far, read while it goes on: the numbers may be some messages apart from each other, and
/// are exact when nobody is active.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Slots that producers have claimed, or stepped over because they are quarantined.
    pub claimed: u64,
    /// Messages that the consumer has taken.
    pub delivered: u64,
    /// Messages that the consumer has thrown away by [`clear`](super::Consumer::clear).
    pub cleared: u64,
    /// Reservations that were dropped without being committed, in slots.
    pub skipped: u64,
    /// Slots that are never used again, because a kernel or a device may still access them.
    pub quarantined: usize,
    /// Wake-ups of a sleeping consumer or producer: each is about one system call.
    pub wake_ups: u64,
    /// The reservation that the consumer waits for, if one of its waits has found one; never for a consumer that polls.
    pub stalled: Option<Stall>,
}

/// A reservation that keeps the consumer waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Its position: the number of slots claimed before it.
    pub position: u64,
    /// How long the consumer has been waiting for it, at least.
    pub since: Duration,
}
