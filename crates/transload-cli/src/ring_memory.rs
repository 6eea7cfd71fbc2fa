//! Memory for a ring, of the kind that its device reaches best.

use transload::device::{Device, Kind};
use transload::memory::Slab;

/// Memory that the device's driver allocates, where it could not otherwise reach memory without a copy of its own. Nothing
/// for devices that are near, or that have no such memory.
pub(crate) fn of_driver(device: &dyn Device, capacity: usize, slot_bytes: usize) -> Option<Slab> {
    if matches!(device.info().kind, Kind::Host | Kind::Cpu) {
        return None;
    }
    let slab = device.allocate_slab(capacity, slot_bytes);
    slab.inspect_err(|error| tracing::debug!("the device allocates no memory for the ring: {error}")).ok()
}
