//! Why there is no pool, no lease, or no such lease.

use crate::memory::SlabError;

/// No lease. Small and `Copy`: a full pool answers as fast as one with room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// At one moment during the call every buffer was leased, or quarantined.
    #[error("all {capacity} buffers are leased; wait, give leases back earlier, or make the slab larger (statistics() names the oldest)")]
    Exhausted {
        /// How many buffers there are.
        capacity: u32,
    },
    /// The pool was closed.
    #[error("the pool is closed")]
    Closed,
    /// No buffer came free in the time that the caller had.
    #[error("no buffer came free in {waited_millis} ms: {leased} of {capacity} are leased, buffer {oldest} for at least {held_millis} ms; give leases back earlier, wait longer, or make the slab larger (statistics() names the thread)")]
    TimedOut {
        /// How long the caller waited, in milliseconds.
        waited_millis: u32,
        /// How many buffers were out in the end, quarantined ones too.
        leased: u32,
        /// How many there are.
        capacity: u32,
        /// The buffer that has been out longest, as far as is known.
        oldest: u32,
        /// For how long, at least, in milliseconds.
        held_millis: u32,
    },
}

impl AcquireError {
    /// Whether there was no free buffer, at once or in time: a later call may find one.
    pub fn is_exhausted(self) -> bool {
        matches!(self, Self::Exhausted { .. } | Self::TimedOut { .. })
    }
}

/// No pool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The slab has more buffers than a pool can count.
    #[error("a pool has at most {max} buffers, and the slab has {actual}: make fewer and larger ones, or several slabs")]
    TooManyBuffers {
        /// How many the slab has.
        actual: usize,
        /// How many a pool can have.
        max: usize,
    },
    /// Somebody else hands out parts of the slab.
    #[error(transparent)]
    Slab(#[from] SlabError),
}

/// A raw lease is not one to be redeemed here and now. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RawLeaseError {
    /// It is of another pool.
    #[error("the raw lease is of pool {actual}, and this is pool {expected}")]
    Foreign {
        /// The number of this pool.
        expected: u64,
        /// The number in the raw lease.
        actual: u64,
    },
    /// It has been redeemed or released before.
    #[error("the raw lease of buffer {index} has been redeemed or released before")]
    Stale {
        /// The buffer.
        index: u32,
    },
    /// There is no such buffer.
    #[error("the raw lease speaks of buffer {index}, and the pool has {capacity}")]
    NoSuchBuffer {
        /// The buffer.
        index: u32,
        /// How many there are.
        capacity: u32,
    },
}
