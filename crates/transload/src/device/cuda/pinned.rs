//! Host memory that the driver allocates, pinned.

use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::sys::{CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE};

use super::codes::Failure;
use super::context::Context;
use super::ranges;
use crate::device::DeviceError;

/// Pinned memory, known to all contexts, until it is dropped.
#[derive(Debug)]
pub(super) struct Allocation {
    base: NonNull<u8>,
    len_bytes: usize,
    context: Arc<Context>,
}

// SAFETY: `base` is an address, through which nothing is accessed but by `new`, before anybody else has it.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Zeroed memory of `len_bytes` bytes, at least one, at the beginning of a page. Never write-combined: the processor reads
    /// it too.
    pub(super) fn new(context: &Arc<Context>, len_bytes: usize) -> Result<Self, DeviceError> {
        let cuda = context.enter()?;
        let mut base = std::ptr::null_mut();
        let flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: the place of an address.
        unsafe { cuda.host_allocate(&raw mut base, len_bytes, flags) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| Failure::gave_nothing("cuMemHostAlloc"))?;
        // From here on the drop frees it.
        let allocation = Self { base, len_bytes, context: context.clone() };
        // SAFETY: so many bytes, which nobody else knows of (I1).
        unsafe { base.as_ptr().write_bytes(0, len_bytes) };
        ranges::note_allocation(allocation.addresses());
        Ok(allocation)
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.base.addr().get();
        start..start + self.len_bytes
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let freed = self.context.enter().and_then(|cuda| {
            // Before the address can be given to somebody else.
            ranges::forget_allocation(self.addresses().start);
            // SAFETY: given by `cuMemHostAlloc`, and freed here once (I4). The slab that had the memory is gone, and each
            // transfer held a handle on it, or the memory itself (I2).
            unsafe { cuda.host_free(self.base.as_ptr().cast()) }
        });
        if let Err(failure) = freed {
            failure.note_release("pinned memory");
        }
    }
}
