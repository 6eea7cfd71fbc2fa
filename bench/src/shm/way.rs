//! The ways that are compared.

use serde::{Deserialize, Serialize};

use crate::adapter::Role;

/// One way for messages from process to process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// One word in a cache line that both processes write: what any way pays at least.
    Line,
    /// Ours, `try_send_copy`; read by a copy.
    Copy,
    /// Ours, written into a lease, and read where it lies.
    InPlace,
    /// As `InPlace`, with a lease that was acquired while there was nothing else to do.
    Ahead,
    /// iceoryx2: loan, write, send; read where it lies.
    Iceoryx,
    /// As `Iceoryx`, with a loan that was made while there was nothing else to do, as in that project's own benchmark.
    IceoryxAhead,
    /// As `Iceoryx`, where a full buffer makes the send fail instead of wait, and it is repeated at once.
    IceoryxPolling,
}

impl Way {
    /// Those that are compared by round trips.
    pub const TRIPS: [Self; 6] =
        [Self::Line, Self::Iceoryx, Self::IceoryxAhead, Self::Copy, Self::InPlace, Self::Ahead];
    /// Those that are compared by rate.
    pub const FLOWS: [Self; 4] = [Self::Iceoryx, Self::IceoryxPolling, Self::Copy, Self::InPlace];

    /// In the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Line => "bare cache line",
            Self::Copy => "transload, copied",
            Self::InPlace => "transload, in place",
            Self::Ahead => "transload, in place, leased ahead",
            Self::Iceoryx => "iceoryx2",
            Self::IceoryxAhead => "iceoryx2, loaned ahead",
            Self::IceoryxPolling => "iceoryx2, repeated when full",
        }
    }

    /// Whose it is.
    pub fn role(self) -> Role {
        match self {
            Self::Line => Role::Baseline,
            Self::Copy | Self::InPlace | Self::Ahead => Role::Ours,
            Self::Iceoryx | Self::IceoryxAhead | Self::IceoryxPolling => Role::Rival,
        }
    }

    /// Whether room for a message is got before the message is known.
    pub(super) fn is_ahead(self) -> bool {
        matches!(self, Self::Ahead | Self::IceoryxAhead)
    }
}
