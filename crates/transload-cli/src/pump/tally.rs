//! What sources count beside the pump.

use transload_core::Counter;

/// What sources count beside the pump. One thread writes, any reads.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Bytes of payload that were copied into slots, out of a buffer that they were read into.
    pub(super) staged_bytes: Counter,
    /// Connections that have ended.
    pub(super) connections: Counter,
    /// Those of them whose peer broke off or did not keep to the framing.
    pub(super) bad_peers: Counter,
}
