//! What can go wrong, one type for each family of calls.

use transload_core::{ClaimError, MAX_OPEN_BATCHES, MAX_SLOTS, TakeError};

use crate::memory::SlabError;

/// A ring could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StagingError {
    /// The capacity is not a power of two, or too small or large.
    #[error("a capacity of {wanted} messages cannot be: use a power of two from 2 to {MAX_SLOTS}{}", nearest(*wanted))]
    Capacity {
        /// The number asked for.
        wanted: usize,
    },
    /// Messages of no bytes.
    #[error("messages of 0 bytes cannot be sent: use a message size of at least 1")]
    MessageSize,
    /// The slab that was given is too small.
    #[error(
        "{capacity} messages of {message_size} bytes need a slab of {needed} bytes, and the given one has {available}"
    )]
    SlabTooSmall {
        /// The capacity asked for.
        capacity: usize,
        /// The message size asked for.
        message_size: usize,
        /// Their product.
        needed: usize,
        /// What the slab has.
        available: usize,
    },
    /// The slab could not be made, or is in use.
    #[error(transparent)]
    Slab(#[from] SlabError),
}

/// The powers of two on both sides, where there are any.
fn nearest(wanted: usize) -> String {
    match wanted.checked_next_power_of_two() {
        Some(above) if wanted > 2 && above <= MAX_SLOTS && above != wanted => {
            format!(" ({} or {above})", above / 2)
        }
        _ => String::new(),
    }
}

/// A message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// All slots were in use at one moment during the call, or until its time was up.
    #[error("the staging ring is full")]
    Full,
    /// The ring is closed, or its consumer is gone.
    #[error("the staging ring is closed")]
    Closed,
    /// The message has another size than the ring's messages; or a batch is no whole number of them.
    #[error("the ring takes messages of {expected} bytes, and was given {actual} bytes")]
    WrongSize {
        /// The ring's message size.
        expected: usize,
        /// The length that was given.
        actual: usize,
    },
}

impl From<ClaimError> for EnqueueError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Full => Self::Full,
            ClaimError::Closed => Self::Closed,
        }
    }
}

/// Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DequeueError {
    /// Nothing is there now.
    #[error("the staging ring is empty")]
    Empty,
    /// The ring is closed, and everything that it accepted has been taken.
    #[error("the staging ring is closed and drained")]
    Closed,
    /// As many batches are open as there can be.
    #[error(
        "{MAX_OPEN_BATCHES} batches are open or wait behind one that is, the most there can be: drop the oldest first"
    )]
    TooManyBatches,
    /// The caller asked for at most 0 messages.
    #[error("at most 0 messages were asked for: ask for 1 or more")]
    ZeroMax,
    /// The caller's memory cannot hold what it asked for.
    #[error("the destination has {available} bytes, and the messages asked for need {needed}")]
    DestinationTooSmall {
        /// Bytes of the most messages that the call could give.
        needed: usize,
        /// Bytes that there are.
        available: usize,
    },
}

impl From<TakeError> for DequeueError {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Empty => Self::Empty,
            TakeError::Closed => Self::Closed,
            TakeError::TooManyBatches => Self::TooManyBatches,
        }
    }
}
