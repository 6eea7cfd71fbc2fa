//! What the other side cannot have written if it keeps to the rules.

use core::fmt;

/// The other side lies. Nothing that it says counts any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpscFault {
    /// Its position is not where it can be.
    Position {
        /// Where it is.
        found: u64,
        /// Where it was before.
        least: u64,
        /// Where it may be at most.
        most: u64,
    },
    /// A message is longer than its slot.
    Length {
        /// The position of the message.
        position: u64,
        /// How long it is said to be, in bytes.
        found: u64,
        /// Bytes of a slot.
        most: u32,
    },
}

impl fmt::Display for SpscFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Position { found, least, most } => {
                write!(f, "its position is {found}, and can be {least} to {most}")
            }
            Self::Length { position, found, most } => {
                write!(f, "message {position} is said to have {found} bytes, where a slot has {most}")
            }
        }
    }
}

impl core::error::Error for SpscFault {}
