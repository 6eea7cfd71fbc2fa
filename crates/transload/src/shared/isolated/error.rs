//! What those who use lanes are told.

use std::io;

use transload_core::{SpscFault, SpscSendError};

use super::super::error::SharedError;
use crate::fork::ForkedChild;
use crate::memory::SlabError;

/// A lane was not made, or not connected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// A number that no lane can have.
    #[error("{wanted} {what}: a lane has 1 to {most}")]
    OutOfRange {
        /// What there would be so many of.
        what: &'static str,
        /// How many were asked for, or found.
        wanted: usize,
        /// The most there can be.
        most: usize,
    },
    /// Slots that cannot be counted around.
    #[error("{slots} slots: their number must be a power of two, the next is {next}")]
    NoPowerOfTwo {
        /// Slots asked for, or found.
        slots: usize,
        /// The next number that will do.
        next: usize,
    },
    /// More bytes than this system can address.
    #[error("{slots} slots of {slot_bytes} bytes are more than this system can address")]
    TooLarge {
        /// Slots.
        slots: usize,
        /// Bytes in each.
        slot_bytes: usize,
    },
    /// The memory could not be had.
    #[error(transparent)]
    Memory(#[from] SlabError),
    /// The file could be cut off, or punched, under this process.
    #[error(
        "the peer's file has seals {found:#x}, and must have {expected:#x} (shrink, grow, seal, future writes): \
         take what `file_for_peer` gives"
    )]
    Unsealed {
        /// The seals that it has.
        found: u32,
        /// Those that it must have.
        expected: u32,
    },
    /// What the file says of itself cannot be.
    #[error("the peer's file is no memory of a lane's: {field} is {found:#x}, must be {expected:#x}")]
    Header {
        /// The field.
        field: &'static str,
        /// What it holds.
        found: u64,
        /// What it must hold, by the fields before it.
        expected: u64,
    },
    /// The file is not as long as it says.
    #[error("the peer's file has {found} bytes, its header says {expected}")]
    Length {
        /// Bytes that there are.
        found: u64,
        /// Bytes that there must be.
        expected: u64,
    },
    /// Not all of the file's pages are there: whoever touches one would have to pay for it, or not get it.
    #[error("the peer's file has {found} bytes of its {expected} in memory: it must have all")]
    Sparse {
        /// Bytes that there are.
        found: u64,
        /// Bytes that there must be.
        expected: u64,
    },
    /// The consumer's memory is of another lane.
    #[error("the answer is for lane {found:032x}, not for this one, {expected:032x}")]
    OtherLane {
        /// The lane that it is for.
        found: u128,
        /// This one.
        expected: u128,
    },
    /// Not one descriptor came.
    #[error("{found} descriptors came, and must be one: all are closed")]
    Descriptors {
        /// How many came.
        found: usize,
    },
    /// The peer said something else than what a lane is handed over with.
    #[error("the peer sent {found} bytes that hand over no lane: is it of the same version?")]
    Strange {
        /// How many bytes.
        found: usize,
    },
    /// The peer did not answer.
    #[error("the peer did not hand its memory over in time")]
    TimedOut,
    /// The peer is gone.
    #[error("the peer hung up before it handed its memory over")]
    HungUp,
    /// The file is not of the right kind, or the system refuses.
    #[error(transparent)]
    File(#[from] SharedError),
    /// Any other refusal of the system.
    #[error("{call} failed: {source}")]
    Os {
        /// What was called.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl LaneError {
    /// For `map_err`.
    pub(super) fn os<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> LaneError {
        move |source| LaneError::Os { call, source: source.into() }
    }
}

/// A message was not sent. Small, and made without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaneSendError {
    /// All slots hold messages that the consumer is not done with.
    #[error("there is no room in the lane")]
    Full,
    /// The message is longer than a slot.
    #[error("{len_bytes} bytes do not fit into a slot of {available}")]
    TooLong {
        /// Bytes of the message.
        len_bytes: usize,
        /// Bytes of a slot.
        available: usize,
    },
    /// The consumer is dead, or has dropped the lane. A new one needs a new lane.
    #[error("the consumer of the lane is gone: offer a new one a new lane")]
    Gone,
    /// The consumer lies.
    #[error("the consumer of the lane does not keep to the rules: {0}; offer another one a new lane")]
    Fault(SpscFault),
    /// This process is a child of the one that made the lane.
    #[error(transparent)]
    Forked(#[from] ForkedChild),
}

impl From<SpscSendError> for LaneSendError {
    fn from(why: SpscSendError) -> Self {
        match why {
            SpscSendError::Full => Self::Full,
            SpscSendError::Fault(fault) => Self::Fault(fault),
        }
    }
}

/// Why a lane has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaneEnd {
    /// Its producer is dead, or has dropped it, and all that it had published has been taken.
    #[error("its producer is gone")]
    Gone,
    /// Its producer lies.
    #[error("its producer does not keep to the rules: {0}")]
    Fault(SpscFault),
}

/// There is no message. Small, and made without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IsolatedTakeError {
    /// None is there, in any lane.
    #[error("no message is in any lane")]
    Empty,
    /// A lane has ended, and is no part of the consumer any more. Said once; the others go on.
    #[error("lane {lane} has ended: {end}")]
    Ended {
        /// Its number.
        lane: u64,
        /// Why.
        #[source]
        end: LaneEnd,
    },
    /// At least one message must be asked for.
    #[error("0 messages were asked for: ask for at least 1")]
    ZeroMax,
    /// This process is a child of the one that made the consumer.
    #[error(transparent)]
    Forked(#[from] ForkedChild),
}
