//! Why there is no pool, no lease, or no such lease.

use crate::memory::SlabError;

/// No lease. Eight bytes and `Copy`: a full pool answers as fast as one with room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// At one moment during the call every buffer was leased, or quarantined.
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
    /// No buffer came free in the time that the caller had.
    #[error(
        "no buffer came free in time: {capacity} of {capacity} are leased, the oldest for at least {held_seconds} s; give leases back earlier, wait longer, or make the slab larger (statistics() names the buffer and the thread)"
    )]
    TimedOut {
        /// For how long the oldest lease has been out, at least, in seconds: this number stops at its highest.
        held_seconds: u16,
        /// How many buffers there are.
        capacity: u32,
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
    #[error(
        "a pool has at most {max} buffers, and the slab has {actual}: make fewer and larger ones, or several slabs"
    )]
    TooManyBuffers {
        /// How many the slab has.
        actual: usize,
        /// How many a pool can have.
        max: usize,
    },
    /// The slab's buffers are longer than a lease can say.
    #[error(
        "a buffer of a pool has at most {max} bytes, and the slab's have {actual}: make more and smaller ones"
    )]
    BuffersTooLarge {
        /// How long they are, in bytes.
        actual: usize,
        /// How long they can be.
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
