//! Memory of a stream for what the device does not reach itself: copied there first, or from there.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::context::Context;
use super::memory::Memory;
use crate::device::{DeviceError, Upload};

/// The least that is allocated. Longer memory is of a power of two, so that one does for batches of similar sizes.
const LEAST: usize = 64 << 10;

/// The memory of one stream for this: what no transfer has is kept for the next.
#[derive(Debug, Default)]
pub(super) struct Staging {
    spare: Vec<Memory>,
    used: u64,
}

impl Staging {
    /// Host memory of at least so many bytes.
    pub(super) fn take(&mut self, context: &Arc<Context>, len_bytes: usize) -> Result<Memory, DeviceError> {
        let fits = self.spare.iter().position(|spare| spare.len_bytes() >= len_bytes);
        let memory = if let Some(fits) = fits {
            self.spare.swap_remove(fits)
        } else {
            // One that is too short makes room, so that there are never more than transfers.
            drop(self.spare.pop());
            let wanted = len_bytes.checked_next_power_of_two().unwrap_or(len_bytes).max(LEAST);
            Memory::of_host(context, wanted)?
        };
        self.used += 1;
        Ok(memory)
    }

    /// The bytes of an upload.
    pub(super) fn gather(&mut self, context: &Arc<Context>, upload: &Upload) -> Result<Memory, DeviceError> {
        let memory = self.take(context, upload.device_range().len())?;
        if let Some(base) = memory.mapped() {
            // SAFETY: the memory was chosen for as many bytes, is this function's alone (I1), and the driver's own.
            unsafe { upload.copy_to(base.as_ptr()) };
        }
        Ok(memory)
    }

    /// Takes the memory of a transfer back that is over.
    pub(super) fn give_back(&mut self, memory: Option<Memory>) {
        self.spare.extend(memory);
    }

    /// How many transfers went this way.
    pub(super) fn used(&self) -> u64 {
        self.used
    }
}

/// Keeps the memory of a transfer for ever: the driver may still use it.
pub(super) fn leak(memory: Option<Memory>) {
    let _never_dropped = ManuallyDrop::new(memory);
}
