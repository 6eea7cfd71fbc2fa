//! What those who take part in a region are told.

use std::io;

use transload_core::{Poisoned, SharedNoGrant, SharedSendError};

use super::lease::SharedLease;
use crate::fork::ForkedChild;

/// A process does not become a member.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// All numbers are taken by members that live.
    #[error("all {most} members are there: make the region for more (`members`), or end one")]
    TooManyMembers {
        /// How many there can be.
        most: u16,
    },
    /// The kernel refuses the lock by which others see that this member lives.
    #[error("cannot lock the region's file: {0}")]
    Lock(#[source] io::Error),
    /// This process is a child of the one that opened the region.
    #[error(transparent)]
    Forked(#[from] ForkedChild),
}

/// There is no lease. Small, and made without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SharedAcquireError {
    /// All buffers were out at one moment during the call.
    #[error("all buffers of the shared pool are out: `holders` says with whom")]
    Exhausted,
    /// Others took each buffer that became free meanwhile.
    #[error("others took each buffer of the shared pool that became free: try again")]
    Contended,
    /// Somebody writes to the region what no member writes.
    #[error("the shared region is spoilt: {0}; make a new one")]
    Poisoned(Poisoned),
    /// This process is a child of the one that joined.
    #[error(transparent)]
    Forked(#[from] ForkedChild),
}

impl SharedAcquireError {
    /// Whether there may be a lease later.
    pub fn is_exhausted(self) -> bool {
        matches!(self, Self::Exhausted | Self::Contended)
    }
}

impl From<SharedNoGrant> for SharedAcquireError {
    fn from(why: SharedNoGrant) -> Self {
        match why {
            SharedNoGrant::Exhausted => Self::Exhausted,
            SharedNoGrant::Contended => Self::Contended,
            SharedNoGrant::Poisoned(why) => Self::Poisoned(why),
        }
    }
}

/// A message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// As many messages are in the ring as it has room for, or as there are buffers.
    #[error("there is no room in the shared ring")]
    Full,
    /// The message is longer than a buffer.
    #[error("{len_bytes} bytes do not fit into a buffer of {available}")]
    TooLong {
        /// Bytes of the message.
        len_bytes: usize,
        /// Bytes of a buffer.
        available: usize,
    },
    /// The lease is of another region, or of another member.
    #[error("the lease was acquired by another member than this ring's: send it by its own pool's ring")]
    Foreign,
    /// Somebody writes to the region what no member writes.
    #[error("the shared region is spoilt: {0}; make a new one")]
    Poisoned(Poisoned),
    /// This process is a child of the one that joined.
    #[error(transparent)]
    Forked(#[from] ForkedChild),
}

impl SendError {
    /// Whether it may be sent later.
    pub fn is_full(self) -> bool {
        self == Self::Full
    }
}

impl From<SharedSendError> for SendError {
    fn from(why: SharedSendError) -> Self {
        match why {
            SharedSendError::Full | SharedSendError::Contended => Self::Full,
            SharedSendError::Poisoned(why) => Self::Poisoned(why),
        }
    }
}

impl From<SharedAcquireError> for SendError {
    fn from(why: SharedAcquireError) -> Self {
        match why {
            SharedAcquireError::Exhausted | SharedAcquireError::Contended => Self::Full,
            SharedAcquireError::Poisoned(why) => Self::Poisoned(why),
            SharedAcquireError::Forked(why) => Self::Forked(why),
        }
    }
}

/// A lease that was not sent, and why.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct SendRefused {
    /// The lease.
    pub lease: SharedLease,
    /// Why.
    #[source]
    pub error: SendError,
}

/// A process does not become the consumer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// There is one, and it lives; or batches of it are not done.
    #[error("the region has a consumer: member {member} \"{name}\", process {pid}; stop it first")]
    InUse {
        /// Its number.
        member: u16,
        /// Its process, by the number that it has in its own namespace.
        pid: u32,
        /// What it calls itself.
        name: String,
    },
    /// The kernel refuses the lock.
    #[error("cannot lock the region's file: {0}")]
    Lock(#[source] io::Error),
    /// This process is a child of the one that joined.
    #[error(transparent)]
    Forked(#[from] ForkedChild),
}

/// There is no message. Small, and made without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// None is there, or all that are there have been taken and are not done.
    #[error("no message is in the shared ring")]
    Empty,
    /// The next message is with a consumer before this one, which may be dead; its lock is still held.
    #[error(
        "the next message is with member {member}, who may be dead: a process that it forked has its lock"
    )]
    Blocked {
        /// Who has it.
        member: u16,
    },
    /// At least one message must be asked for.
    #[error("0 messages were asked for: ask for at least 1")]
    ZeroMax,
    /// Somebody writes to the region what no member writes.
    #[error("the shared region is spoilt: {0}; make a new one")]
    Poisoned(Poisoned),
    /// This process is a child of the one that joined.
    #[error(transparent)]
    Forked(#[from] ForkedChild),
}

/// Bytes beyond the end of a buffer. A forked child has no bytes of any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{len_bytes} bytes at offset {offset} reach beyond the buffer's {available} bytes")]
pub struct OutOfBuffer {
    /// Where they should begin.
    pub offset: usize,
    /// How many they are.
    pub len_bytes: usize,
    /// Bytes of the buffer.
    pub available: usize,
}
