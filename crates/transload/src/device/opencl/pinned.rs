//! Host memory that the driver allocates.
//!
//! The memory of a buffer made with `CL_MEM_ALLOC_HOST_PTR` is host memory of the driver's choice; vendors document
//! that it is page-locked. It is reached by mapping the buffer. The rules of the standard for mapped buffers (OpenCL
//! API, "Mapping and unmapping buffer objects"):
//!
//! - the pointer may be read and written by the host as the map flags allow, from the end of the map command to the
//!   unmap command;
//! - meanwhile commands that use the buffer object itself, with a region that is mapped for writing, are undefined;
//! - each map is undone by one unmap with the same pointer, before the last reference to the buffer goes.
//!
//! So the whole buffer is mapped once, here, for reading and writing; no command is ever given the buffer object, only
//! the pointer, as the host side of copies from and to other buffers; and it is unmapped once, here (I4), after the
//! last handle of the slab, so after all transfers (I2).

use std::ptr::NonNull;

use opencl3::command_queue::{enqueue_map_buffer, enqueue_unmap_mem_object, flush};
use opencl3::error_codes::CL_MAP_FAILURE;
use opencl3::memory::{CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE};
use opencl3::types::CL_BLOCKING;

use super::codes;
use super::device::Shared;
use super::handle::{Buffer, Event, Handle, Queue};
use crate::device::DeviceError;

/// A buffer of the driver in host memory, mapped while it exists.
#[derive(Debug)]
pub(super) struct Allocation {
    base: NonNull<u8>,
    len_bytes: usize,
    buffer: Handle<Buffer>,
    /// For the map and the unmap.
    queue: Handle<Queue>,
}

// SAFETY: `base` is an address, through which nothing is accessed but by `new`, before anybody else has it.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Zeroed memory of `len_bytes` bytes, at least one.
    pub(super) fn new(device: &Shared, len_bytes: usize) -> Result<Self, DeviceError> {
        let queue = device.create_queue()?;
        let buffer = device.create_buffer(CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, len_bytes)?;
        let mut base = std::ptr::null_mut();
        // SAFETY: queue and buffer are there and of one context; the range is the whole buffer; nothing else uses it.
        let mapped = unsafe {
            enqueue_map_buffer(
                queue.raw(),
                buffer.raw(),
                CL_BLOCKING,
                CL_MAP_READ | CL_MAP_WRITE,
                0,
                len_bytes,
                &mut base,
                0,
                std::ptr::null(),
            )
        };
        let event = mapped.map_err(|code| codes::failed("clEnqueueMapBuffer", code))?;
        // SAFETY: the call gave us a reference to it.
        drop(unsafe { Handle::<Event>::own(event) });
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| codes::failed("clEnqueueMapBuffer", CL_MAP_FAILURE))?;
        // From here on the drop unmaps.
        let allocation = Self { base, len_bytes, buffer, queue };
        // SAFETY: the map has ended (it was a blocking one) and gives so many bytes to write; nobody else knows of
        // them (I1).
        unsafe { base.as_ptr().write_bytes(0, len_bytes) };
        Ok(allocation)
    }

    /// Where it is. Nothing promises more alignment than the largest type of OpenCL has, 128 bytes.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this queue and not unmapped since (I4). The slab that had the memory is gone,
        // and each transfer held a handle on it (I2).
        let unmapped = unsafe {
            enqueue_unmap_mem_object(
                self.queue.raw(),
                self.buffer.raw(),
                self.base.as_ptr().cast(),
                0,
                std::ptr::null(),
            )
        };
        match unmapped {
            // SAFETY: the call gave us a reference to it.
            Ok(event) => drop(unsafe { Handle::<Event>::own(event) }),
            Err(code) => tracing::debug!("driver memory was not unmapped: {}", codes::name(code)),
        }
        // The buffer is deleted when its last reference is gone and this command has ended.
        if let Err(code) = flush(self.queue.raw()) {
            tracing::debug!("the unmap of driver memory was not flushed: {}", codes::name(code));
        }
    }
}
