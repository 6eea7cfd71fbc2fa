//! Memory that buffers are in: of the device, of the host, or a slab's.

use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;

use super::codes;
use super::context::Context;
use super::physical::USES;
use crate::device::DeviceError;

/// A buffer and the memory that it is in. Both go when it is dropped.
#[derive(Debug)]
pub(super) struct Memory {
    buffer: vk::Buffer,
    allocation: vk::DeviceMemory,
    len_bytes: usize,
    /// Where the host finds it, if it does.
    mapped: Option<NonNull<u8>>,
    /// Whether it is somebody else's, or the driver may use it for ever.
    is_left: bool,
    context: Arc<Context>,
}

// SAFETY: `mapped` is an address, through which nothing is accessed here but by `of_host`, before anybody else has it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Where the host can reach it, without having to flush anything.
const COHERENT: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw() | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw(),
);

impl Memory {
    /// Memory of the device's.
    pub(super) fn of_device(context: &Arc<Context>, len_bytes: usize) -> Result<Self, DeviceError> {
        let (none, local) = (vk::MemoryPropertyFlags::empty(), vk::MemoryPropertyFlags::DEVICE_LOCAL);
        Self::allocate(context, len_bytes, none, local)
    }

    /// Memory that host and device reach, zeroed.
    pub(super) fn of_host(context: &Arc<Context>, len_bytes: usize) -> Result<Self, DeviceError> {
        let cached = vk::MemoryPropertyFlags::HOST_CACHED;
        let mut memory = Self::allocate(context, len_bytes, COHERENT, cached)?;
        let flags = vk::MemoryMapFlags::empty();
        // SAFETY: the memory is there, visible to the host and not mapped.
        let mapped = unsafe { context.device.map_memory(memory.allocation, 0, vk::WHOLE_SIZE, flags) };
        let mapped = mapped.map_err(|code| codes::failed("vkMapMemory", code))?;
        let base = NonNull::new(mapped.cast::<u8>())
            .ok_or_else(|| codes::failed("vkMapMemory", vk::Result::ERROR_MEMORY_MAP_FAILED))?;
        // SAFETY: so many bytes are mapped there; nobody else knows of them (I1).
        unsafe { base.as_ptr().write_bytes(0, len_bytes) };
        memory.mapped = Some(base);
        Ok(memory)
    }

    fn allocate(
        context: &Arc<Context>,
        len_bytes: usize,
        needed: vk::MemoryPropertyFlags,
        preferred: vk::MemoryPropertyFlags,
    ) -> Result<Self, DeviceError> {
        // Kernels read whole words.
        let size = (len_bytes as u64).next_multiple_of(4);
        let mut memory = Self::buffer(context, &vk::BufferCreateInfo::default().size(size), len_bytes)?;
        // SAFETY: the buffer is there.
        let wants = unsafe { context.device.get_buffer_memory_requirements(memory.buffer) };
        let kind = context.physical.memory_type(wants.memory_type_bits, needed, preferred);
        let kind = kind.ok_or(DeviceError::Unsupported { what: "memory that the host can reach" })?;
        let wanted = vk::MemoryAllocateInfo::default().allocation_size(wants.size).memory_type_index(kind);
        memory.bind(&wanted)?;
        Ok(memory)
    }

    /// Host memory as the device's own. Says why not in words.
    ///
    /// # Safety
    ///
    /// There is memory, `len_bytes` long, in pages that stay where they are while this exists. Address and length are
    /// multiples of what the device wants.
    pub(super) unsafe fn imported(
        context: &Arc<Context>,
        base: NonNull<u8>,
        len_bytes: usize,
    ) -> Result<Self, String> {
        let refused = |call, code| format!("{call} answered {} for {len_bytes} bytes", codes::name(code));
        // SAFETY: by this function's contract.
        let importable = unsafe { context.importable_as(base.as_ptr()) };
        let importable = importable
            .ok_or("the driver imports no host memory")?
            .map_err(|code| refused("vkGetMemoryHostPointerPropertiesEXT", code))?;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default()
            .handle_types(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT);
        let size = vk::BufferCreateInfo::default().size(len_bytes as u64).push_next(&mut external);
        let mut memory = Self::buffer(context, &size, len_bytes).map_err(|error| error.to_string())?;
        // SAFETY: the buffer is there.
        let wants = unsafe { context.device.get_buffer_memory_requirements(memory.buffer) };
        if wants.size > len_bytes as u64 {
            return Err(format!("a buffer of {len_bytes} bytes needs {} bytes of memory", wants.size));
        }
        // Only where nothing has to be flushed: who writes messages does not know that it would have to.
        let none = vk::MemoryPropertyFlags::empty();
        let kind = context.physical.memory_type(importable & wants.memory_type_bits, COHERENT, none);
        let kind = kind.ok_or("the driver imports it only as memory that must be flushed")?;
        let mut import = vk::ImportMemoryHostPointerInfoEXT::default()
            .handle_type(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT)
            .host_pointer(base.as_ptr().cast());
        let wanted = vk::MemoryAllocateInfo::default()
            .allocation_size(len_bytes as u64)
            .memory_type_index(kind)
            .push_next(&mut import);
        memory.bind(&wanted).map_err(|error| error.to_string())?;
        Ok(memory)
    }

    /// A buffer of somebody else's.
    pub(super) fn lent(context: &Arc<Context>, buffer: vk::Buffer, len_bytes: usize) -> Self {
        let allocation = vk::DeviceMemory::null();
        Self { buffer, allocation, len_bytes, mapped: None, is_left: true, context: context.clone() }
    }

    /// A buffer without memory.
    fn buffer(
        context: &Arc<Context>,
        wanted: &vk::BufferCreateInfo<'_>,
        len_bytes: usize,
    ) -> Result<Self, DeviceError> {
        let wanted = wanted.usage(USES);
        // SAFETY: the device is there, and the structures during the call; no buffer is empty.
        let buffer = unsafe { context.device.create_buffer(&wanted, None) };
        let buffer = buffer.map_err(|code| codes::failed("vkCreateBuffer", code))?;
        let allocation = vk::DeviceMemory::null();
        Ok(Self { buffer, allocation, len_bytes, mapped: None, is_left: false, context: context.clone() })
    }

    fn bind(&mut self, wanted: &vk::MemoryAllocateInfo<'_>) -> Result<(), DeviceError> {
        let device = &self.context.device;
        // SAFETY: the device is there, and the structures during the call. What is imported is there by the contract of
        // `imported`.
        let memory = unsafe { device.allocate_memory(wanted, None) };
        self.allocation = memory.map_err(|code| codes::failed("vkAllocateMemory", code))?;
        // SAFETY: both are there; the memory is as long as the buffer wants, of a kind that it takes, and all its own.
        unsafe { device.bind_buffer_memory(self.buffer, self.allocation, 0) }
            .map_err(|code| codes::failed("vkBindBufferMemory", code))
    }

    /// The buffer, which is there while `self` is.
    pub(super) fn raw(&self) -> vk::Buffer {
        self.buffer
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Where the host finds it: of memory from [`of_host`](Memory::of_host).
    pub(super) fn mapped(&self) -> Option<NonNull<u8>> {
        self.mapped
    }

    /// Leaves it to the driver for ever, which may still use it.
    pub(super) fn leak(&mut self) {
        self.is_left = true;
        let _never_dropped = std::mem::ManuallyDrop::new(self.context.clone());
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        // SAFETY: ours, and in no transfer: each would have kept it (I2).
        unsafe { self.context.device.destroy_buffer(self.buffer, None) };
        // SAFETY: as above. Memory that is mapped is unmapped by this; imported pages stay with their slab.
        unsafe { self.context.device.free_memory(self.allocation, None) };
    }
}
