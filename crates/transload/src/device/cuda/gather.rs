//! Pinned memory of a stream: for batches whose pieces are put together to go out as one copy, and for memory that is not
//! pinned itself.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::context::Context;
use super::pinned::Allocation;
use crate::device::{DeviceError, Upload};

/// Pieces that are shorter than this on average are put together first. A call to the driver takes some microseconds, in
/// which the processor copies as much.
const SHORT: usize = 16 << 10;

/// The least that is allocated. Longer memory is of a power of two, so that one does for batches of similar sizes.
const LEAST: usize = 64 << 10;

/// The memory of one stream for this: what no transfer has is kept for the next.
#[derive(Debug, Default)]
pub(super) struct Gatherer {
    spare: Vec<Allocation>,
    /// What was too short. To free it, the driver may wait for all that runs on the device, so it goes with the stream; each
    /// is half as long as what came in its place, or less.
    outgrown: Vec<Allocation>,
    /// Transfers that went through such memory because their own was not pinned.
    staged: u64,
}

impl Gatherer {
    /// The bytes of an upload in one piece of pinned memory: if it `must` be so, for the driver is not to be given the
    /// upload's own, or if it is worth the copy.
    pub(super) fn gather(
        &mut self,
        context: &Arc<Context>,
        upload: &Upload,
        must: bool,
    ) -> Result<Option<Allocation>, DeviceError> {
        let (pieces, len_bytes) = (upload.pieces().count(), upload.device_range().len());
        // A batch of a staging ring has at most two.
        if !must && (pieces <= 2 || len_bytes / pieces >= SHORT) {
            return Ok(None);
        }
        let memory = match self.memory(context, len_bytes) {
            Ok(memory) => memory,
            Err(error) if must => return Err(error),
            Err(error) => {
                tracing::debug!("no memory to gather a batch in: {error}");
                return Ok(None);
            }
        };
        // SAFETY: the memory was chosen for as many bytes, is this function's alone (I1), and the driver's own.
        unsafe { upload.copy_to(memory.base().as_ptr()) };
        self.staged += u64::from(must);
        Ok(Some(memory))
    }

    /// Memory for what comes back to memory that is not pinned.
    pub(super) fn landing(
        &mut self,
        context: &Arc<Context>,
        len_bytes: usize,
    ) -> Result<Allocation, DeviceError> {
        let memory = self.memory(context, len_bytes)?;
        self.staged += 1;
        Ok(memory)
    }

    fn memory(&mut self, context: &Arc<Context>, len_bytes: usize) -> Result<Allocation, DeviceError> {
        if let Some(fits) = self.spare.iter().position(|spare| spare.len_bytes() >= len_bytes) {
            return Ok(self.spare.swap_remove(fits));
        }
        // One that is too short makes room, so that no more are in use than transfers.
        self.outgrown.extend(self.spare.pop());
        let wanted = len_bytes.checked_next_power_of_two().unwrap_or(len_bytes).max(LEAST);
        Allocation::new(context, wanted)
    }

    /// Takes the memory of a transfer back that is over.
    pub(super) fn give_back(&mut self, memory: Option<Allocation>) {
        self.spare.extend(memory);
    }

    /// How many transfers went through this memory because their own was not pinned.
    pub(super) fn staged(&self) -> u64 {
        self.staged
    }
}

/// Keeps the memory of a transfer for ever: the driver may still use it.
pub(super) fn leak(memory: Option<Allocation>) {
    let _never_dropped = ManuallyDrop::new(memory);
}
