//! What happens to a message when the ring is full.

use std::fmt;
use std::str::FromStr;

/// What happens to a message when the ring is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// The source waits.
    #[default]
    Block,
    /// The message is refused and counted, and was never accepted.
    Reject,
    /// The message is accepted, dropped at once and counted.
    DropNew,
    /// The pump drops the oldest batch that it has not yet submitted, and counts it. What the device has cannot be
    /// dropped: while it holds the oldest slots, the source waits.
    DropOldest,
}

impl OnFull {
    const ALL: [OnFull; 4] = [OnFull::Block, OnFull::Reject, OnFull::DropNew, OnFull::DropOldest];

    fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Reject => "reject",
            Self::DropNew => "drop-new",
            Self::DropOldest => "drop-oldest",
        }
    }
}

impl fmt::Display for OnFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for OnFull {
    type Err = ParseOnFullError;

    fn from_str(text: &str) -> Result<Self, ParseOnFullError> {
        let unknown = || ParseOnFullError { text: text.to_owned() };
        Self::ALL.into_iter().find(|policy| policy.name() == text).ok_or_else(unknown)
    }
}

/// Not the name of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no policy: use block, reject, drop-new or drop-oldest")]
pub struct ParseOnFullError {
    /// What was given.
    pub text: String,
}
