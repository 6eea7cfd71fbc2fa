//! How far a running pump is.

use crate::staging::Stall;

/// How far a running pump is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Messages accepted so far.
    pub accepted: u64,
    /// Those of them that an earlier consumer of a shared ring had taken, and was not done with.
    pub redelivered: u64,
    /// Messages on the device, and read back where that was asked for.
    pub delivered: u64,
    /// Accepted messages that will not arrive.
    pub dropped: u64,
    /// Messages that came back from a queue on the device.
    pub returned: u64,
    /// Messages refused.
    pub rejected: u64,
    /// Slots whose reservations were dropped.
    pub skipped: u64,
    /// The reservation that keeps the pump waiting, if one does.
    pub stalled: Option<Stall>,
}
