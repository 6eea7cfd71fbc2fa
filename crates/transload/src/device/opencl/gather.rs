//! Memory in which the pieces of a scattered batch are put together, to go out as one copy.

use std::mem::ManuallyDrop;

use super::device::Shared;
use super::pinned::Allocation;
use crate::device::Upload;

/// Pieces that are shorter than this on average are put together first. A call to the driver takes some microseconds, in
/// which the processor copies as much.
const SHORT: usize = 16 << 10;

/// Sizes are multiples of this, so that one piece of memory does for batches of similar sizes.
const GRAIN: usize = 64 << 10;

/// The memory of one stream for this: what no transfer has is kept for the next.
#[derive(Debug, Default)]
pub(super) struct Gatherer {
    spare: Vec<Allocation>,
}

impl Gatherer {
    /// The bytes of an upload in one piece of memory that the driver has allocated, if it is worth the copy. Not if
    /// there is no such memory either.
    pub(super) fn gather(&mut self, device: &Shared, upload: &Upload) -> Option<Allocation> {
        let (pieces, len_bytes) = (upload.pieces().count(), upload.device_range().len());
        // A batch of a staging ring has at most two.
        if pieces <= 2 || len_bytes / pieces >= SHORT {
            return None;
        }
        let memory = self.memory(device, len_bytes)?;
        // SAFETY: the memory was chosen for as many bytes, is this function's alone (I1), and the driver's own.
        unsafe { upload.copy_to(memory.base().as_ptr()) };
        Some(memory)
    }

    fn memory(&mut self, device: &Shared, len_bytes: usize) -> Option<Allocation> {
        if let Some(fits) = self.spare.iter().position(|spare| spare.len_bytes() >= len_bytes) {
            return Some(self.spare.swap_remove(fits));
        }
        // One that is too short makes room, so that there are never more than transfers.
        drop(self.spare.pop());
        let memory = Allocation::new(device, len_bytes.checked_next_multiple_of(GRAIN)?);
        memory.inspect_err(|error| tracing::debug!("no memory to gather a batch in: {error}")).ok()
    }

    /// Takes the memory of a transfer back that is over.
    pub(super) fn give_back(&mut self, memory: Option<Allocation>) {
        self.spare.extend(memory);
    }
}

/// Keeps the memory of a transfer for ever: the driver may still read it.
pub(super) fn leak(memory: Option<Allocation>) {
    let _never_dropped = ManuallyDrop::new(memory);
}
