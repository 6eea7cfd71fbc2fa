//! Why there is no pool, no lease, or no such lease.

use crate::memory::SlabError;

/// No lease. Small and `Copy`: a full pool answers as fast as one with room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Every buffer is leased, or quarantined.
    #[error(
        "all {capacity} buffers are leased; wait, give leases back earlier, or make the slab larger (statistics() names the oldest)"
    )]
    Exhausted {
        /// How many buffers there are.
        capacity: u32,
    },
    /// The pool was closed.
    #[error("the pool is closed")]
    Closed,
}

/// No pool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The slab has more buffers than a pool can count.
    #[error(
        "a pool has at most {max} buffers, and the slab has {actual}: make fewer and larger ones, or several slabs"
    )]
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
