//! The device: what is registered with it, and what is opened on it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use ash::vk;

use super::context::{Context, RawDevice, VulkanOptions};
use super::driver;
use super::kernel;
use super::memory::Memory;
use super::registered::{Direct, Registered};
use super::stream::VulkanStream;
use crate::device::{Device, DeviceError, DeviceInfo, Kernel, KernelSource, Stream, StreamOptions};
use crate::memory::{Slab, Source, checked_len};
use crate::region::{Access, Region, RegisterError, Registrar, Registration};

/// A Vulkan device. A clone is another handle on the same.
///
/// Streams, regions, slabs and kernels that come from it keep alive what they need of it: it may be dropped before them.
#[derive(Clone, Debug)]
pub struct VulkanDevice {
    context: Arc<Context>,
    info: DeviceInfo,
    /// Driver memory that became slabs, to be recognised when those are registered.
    allocations: Arc<Mutex<Vec<Weak<Memory>>>>,
}

impl VulkanDevice {
    /// Opens a device by its number. As [`Driver::open`](crate::device::Driver::open), with the type kept.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unavailable`], [`DeviceError::NoSuchDevice`], or what the driver says.
    pub fn open(index: usize) -> Result<Self, DeviceError> {
        Self::open_with(index, VulkanOptions::default())
    }

    /// As [`open`](VulkanDevice::open), with settings.
    ///
    /// # Errors
    ///
    /// As [`open`](VulkanDevice::open).
    pub fn open_with(index: usize, options: VulkanOptions) -> Result<Self, DeviceError> {
        let (loaded, physical) = driver::device(index)?;
        Ok(Self::new(Context::open(loaded, physical, options)?, index))
    }

    /// Uses a device that is there already, with one of its queues. Its index is 0, whichever it is.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsuitable`] if it is of a version before 1.2 or lacks timeline semaphores, or if the queue's family
    /// runs no kernels; else what the driver says.
    ///
    /// # Safety
    ///
    /// All handles are there, belong together as [`RawDevice`] says, and stay there until its `owner` is dropped. Whoever else
    /// uses the queue holds its lock meanwhile.
    pub unsafe fn from_raw(raw: RawDevice, options: VulkanOptions) -> Result<Self, DeviceError> {
        // SAFETY: by this function's contract.
        Ok(Self::new(unsafe { Context::adopt(raw, options) }?, 0))
    }

    pub(super) fn new(context: Arc<Context>, index: usize) -> Self {
        let info = context.physical.describe(index);
        Self { context, info, allocations: Arc::default() }
    }

    /// Opens a stream over a buffer that is there already: the device queue is its first `queue_bytes` bytes.
    ///
    /// # Errors
    ///
    /// As [`open_stream`](Device::open_stream).
    ///
    /// # Safety
    ///
    /// `buffer` is a buffer of the device, with memory, at least `queue_bytes` bytes long (rounded up to whole words), made
    /// for `TRANSFER_SRC`, `TRANSFER_DST` and `STORAGE_BUFFER`, and for the stream's queue family alone or for several. It
    /// stays there until the stream is dropped; if that quarantines what was in flight, for ever.
    pub unsafe fn open_stream_over(
        &self,
        buffer: vk::Buffer,
        options: &StreamOptions,
    ) -> Result<VulkanStream, DeviceError> {
        self.context.check_here()?;
        options.check(self.info.max_allocation_bytes)?;
        VulkanStream::new(&self.context, Memory::lent(&self.context, buffer, options.queue_bytes), options)
    }

    /// The instance. It stays there while the device does.
    pub fn instance(&self) -> &ash::Instance {
        &self.context.instance
    }

    /// The device of the instance.
    pub fn physical_device(&self) -> vk::PhysicalDevice {
        self.context.physical.raw
    }

    /// The device, and its calls. It stays there while this does.
    pub fn device(&self) -> &ash::Device {
        &self.context.device
    }

    /// The family of the queues that streams use.
    pub fn queue_family_index(&self) -> u32 {
        self.context.physical.family
    }

    /// The memory that became a slab, if it did so here.
    fn allocation(&self, slab: &Slab) -> Option<Arc<Memory>> {
        if slab.placement().source != Source::Owned {
            return None;
        }
        let allocations = self.allocations.lock().unwrap_or_else(PoisonError::into_inner);
        // The address says enough while the allocation is there, and the slab keeps it there.
        allocations.iter().filter_map(Weak::upgrade).find(|memory| {
            memory.mapped().is_some_and(|base| base.as_ptr() == slab.as_ptr())
                && memory.len_bytes() == slab.len_bytes()
        })
    }

    /// What transfers from memory are that the device reaches itself.
    fn directly(&self) -> Registration {
        if self.context.physical.shares_host_memory() { Registration::Mapped } else { Registration::Pinned }
    }
}

impl Registrar for VulkanDevice {
    /// Imports the pages of the slab, where the driver can do that (`VK_EXT_external_memory_host`) and the slab begins and
    /// ends on pages, as all do that were not wrapped. Else the region is [`Staged`](Registration::Staged), and says why.
    fn register(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        let access = access.local_only("Vulkan")?;
        if let Err(error) = self.context.check_here() {
            return Err(RegisterError::Refused {
                registrar: "Vulkan".to_owned(),
                len_bytes: slab.len_bytes(),
                reason: error.to_string(),
            });
        }
        let direct = match self.allocation(slab) {
            Some(memory) => Ok(Direct::allocated(slab.as_ptr(), memory)),
            None => Direct::import(&self.context, slab),
        };
        let (direct, registration) = match direct {
            Ok(direct) => (Some(direct), self.directly()),
            Err(reason) => (None, Registration::Staged { reason }),
        };
        let registered = Registered::new(&self.context, direct);
        Ok(Region::new(slab.clone(), access, registration, Box::new(registered)))
    }
}

impl Device for VulkanDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// A slab in memory that host and device both reach, which stays mapped until the last handle on the slab ends.
    /// Registered with this device it is `Pinned`, or `Mapped` where host and device have the same memory.
    fn allocate_slab(&self, buffer_count: usize, buffer_size: usize) -> Result<Slab, DeviceError> {
        self.context.check_here()?;
        let len_bytes = checked_len(buffer_count, buffer_size, 1)?;
        let memory = Arc::new(Memory::of_host(&self.context, len_bytes)?);
        let Some(base) = memory.mapped() else {
            return Err(DeviceError::Unsupported { what: "memory that the host can reach" });
        };
        let owner = Arc::downgrade(&memory);
        // SAFETY: the memory is mapped for reading and writing, zeroed, and nobody else's; the owner keeps it there.
        let slab = unsafe { Slab::from_owner(base, buffer_count, buffer_size, Box::new(memory)) }?;
        let mut allocations = self.allocations.lock().unwrap_or_else(PoisonError::into_inner);
        allocations.retain(|allocation| allocation.strong_count() > 0);
        allocations.push(owner);
        Ok(slab)
    }

    fn open_stream(&self, options: &StreamOptions) -> Result<Box<dyn Stream>, DeviceError> {
        self.context.check_here()?;
        options.check(self.info.max_allocation_bytes)?;
        Ok(Box::new(VulkanStream::open(&self.context, options)?))
    }

    /// Translates SPIR-V that was compiled with `transload_device.glsl`. The first time, it is also measured how kernels are
    /// best given small batches.
    fn build(&self, source: &KernelSource) -> Result<Kernel, DeviceError> {
        self.context.check_here()?;
        let kernel = kernel::build(&self.context, source)?;
        self.context.mapped_up_to_bytes();
        Ok(kernel)
    }
}
