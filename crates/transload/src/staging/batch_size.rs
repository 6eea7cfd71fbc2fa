//! How many messages to take at once.

/// How many messages to take at once: advice, by what matters most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchSize {
    /// 8: each message waits for few others.
    LowLatency,
    /// 64.
    Balanced,
    /// 512: the cost of a transfer is shared by many.
    HighThroughput,
}

impl BatchSize {
    /// The number of messages.
    pub fn messages(self) -> usize {
        match self {
            Self::LowLatency => 8,
            Self::Balanced => 64,
            Self::HighThroughput => 512,
        }
    }
}
