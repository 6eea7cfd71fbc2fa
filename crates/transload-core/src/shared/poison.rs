//! Memory that somebody has spoilt.

use core::fmt;

/// The words say what no member of ours can have written: somebody lies, or writes where it must not.
///
/// Nobody of this process touches the memory any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poisoned {
    /// A buffer that this process has was given to it once more.
    Twice {
        /// Which.
        buffer: u32,
    },
    /// A buffer that this process has was taken away.
    TakenAway {
        /// Which.
        buffer: u32,
    },
    /// A cell of the ring stands where it cannot have come to.
    Astray {
        /// The position at which it was found.
        position: u64,
    },
}

impl fmt::Display for Poisoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { buffer } => write!(f, "buffer {buffer} was given out twice"),
            Self::TakenAway { buffer } => write!(f, "buffer {buffer} was taken away from its owner"),
            Self::Astray { position } => write!(f, "the ring is out of order at position {position}"),
        }
    }
}

impl core::error::Error for Poisoned {}

impl Poisoned {
    /// As a word that is not 0.
    pub(super) fn to_word(self) -> u64 {
        match self {
            Self::Twice { buffer } => 1 | u64::from(buffer) << 2,
            Self::TakenAway { buffer } => 2 | u64::from(buffer) << 2,
            Self::Astray { position } => 3 | position << 2,
        }
    }

    /// What [`to_word`](Poisoned::to_word) made, less the two highest bits of a position; nothing of 0.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is left of a buffer's number is a buffer's number"
    )]
    pub(super) fn of_word(word: u64) -> Option<Self> {
        let buffer = (word >> 2) as u32;
        Some(match word & 3 {
            0 => return None,
            1 => Self::Twice { buffer },
            2 => Self::TakenAway { buffer },
            _ => Self::Astray { position: word >> 2 },
        })
    }
}
