//! How large a pool may be, and how much memory its control words need.

use core::fmt;

/// The most buffers of a pool: 2^31, so that an index fits where 32 bits must do.
pub const MAX_BUFFERS: usize = 1 << 31;

/// A pool cannot be made of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolGeometryError {
    /// The number of slots is not between 1 and [`MAX_BUFFERS`].
    Slots {
        /// The number given.
        actual: usize,
    },
    /// The caller's memory holds too few words of hints, or too many.
    Hints {
        /// As [`Pool::hint_words`](super::Pool::hint_words) says.
        needed: usize,
        /// The number that there are.
        available: usize,
    },
}

impl fmt::Display for PoolGeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots { actual } => {
                write!(f, "a pool of {actual} buffers cannot be: use from 1 to {MAX_BUFFERS}")
            }
            Self::Hints { needed, available } => {
                write!(f, "the pool needs exactly {needed} words of hints and was given {available}")
            }
        }
    }
}

impl core::error::Error for PoolGeometryError {}
