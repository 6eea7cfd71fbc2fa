//! What kernels are told of a launch.

use super::Launch;

/// What kernels are told of a launch, as they count: in words of 32 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchNumbers {
    /// How many messages.
    pub(super) count: u32,
    /// Bytes of a slot.
    pub(super) slot_bytes: u32,
    /// Bytes in front of each payload.
    pub(super) prefix_bytes: u32,
    /// Where the first output begins, behind the lengths.
    pub(super) outputs_at: u32,
    /// Bytes for each output.
    pub(super) output_bytes: u32,
    /// All of the lengths and outputs: no kernel is told that.
    pub(super) all_bytes: usize,
}

impl LaunchNumbers {
    /// Nothing if one of them is more than kernels can count.
    pub(super) fn of(launch: &Launch) -> Option<Self> {
        let (payload, layout) = (launch.upload().payload(), launch.layout());
        Some(Self {
            count: payload.messages().try_into().ok()?,
            slot_bytes: payload.message_size().try_into().ok()?,
            prefix_bytes: launch.prefix_bytes(),
            outputs_at: layout.outputs_at().try_into().ok()?,
            output_bytes: layout.output_bytes().try_into().ok()?,
            all_bytes: layout.len_bytes()?,
        })
    }
}
