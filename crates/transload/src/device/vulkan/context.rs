//! A device of the driver's, and what all streams, regions and kernels of it share.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ash::{ext, vk};
use transload_core::Counter;

use super::codes;
use super::driver::Loaded;
use super::launch::PARAMETER_BYTES;
use super::physical::Physical;
use crate::device::DeviceError;

/// Settings of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VulkanOptions {
    /// The most bytes that are imported by one call; longer slabs are imported in pieces. 1 GiB, unless it is set. Rounded
    /// to what the driver imports, and never more than it allocates at once.
    pub piece_bytes: usize,
}

impl Default for VulkanOptions {
    fn default() -> Self {
        Self { piece_bytes: 1 << 30 }
    }
}

/// A device, whoever has made it.
pub(super) struct Context {
    pub(super) device: ash::Device,
    pub(super) physical: Physical,
    pub(super) instance: ash::Instance,
    /// How host memory is imported, if it can be.
    import: Option<ext::external_memory_host::Device>,
    /// How kernels are given their buffers and numbers: the same for all.
    pub(super) buffers: vk::DescriptorSetLayout,
    pub(super) layout: vk::PipelineLayout,
    queues: Vec<Queue>,
    /// How many streams were opened.
    opened: Counter,
    pub(super) options: VulkanOptions,
    keeper: Keeper,
}

/// Who ends the device, and keeps what it is of until then.
enum Keeper {
    Own {
        _loaded: Arc<Loaded>,
    },
    /// Dropped behind everything that was made of the device.
    Adopted {
        _owner: Box<dyn Any + Send + Sync>,
    },
}

/// A queue of a device. Vulkan lets one thread at a time put work into it.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) raw: vk::Queue,
    pub(super) lock: Arc<Mutex<()>>,
}

/// A device of yours, with one of its queues: for [`VulkanDevice::from_raw`](super::VulkanDevice::from_raw).
pub struct RawDevice {
    /// The instance, of version 1.1 or later.
    pub instance: ash::Instance,
    /// The device of the instance.
    pub physical_device: vk::PhysicalDevice,
    /// Made of it, with the feature `timelineSemaphore`.
    pub device: ash::Device,
    /// The family of the queue: one that has `COMPUTE`.
    pub queue_family_index: u32,
    /// The queue.
    pub queue: vk::Queue,
    /// Held by whoever puts work into the queue, here and elsewhere.
    pub queue_lock: Arc<Mutex<()>>,
    /// Whether the device was made with the extension `VK_EXT_external_memory_host`.
    pub external_memory_host: bool,
    /// Whatever keeps instance, device and loader alive. It is dropped when nothing is left of what was made of the device;
    /// if some of that is quarantined, never.
    pub owner: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for RawDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawDevice")
            .field("device", &self.device.handle())
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.device.handle())
            .field("physical", &self.physical)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// A device of our own.
    pub(super) fn open(
        loaded: Arc<Loaded>,
        physical: Physical,
        options: VulkanOptions,
    ) -> Result<Arc<Self>, DeviceError> {
        let priorities = vec![1.0; physical.queues as usize];
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(physical.family)
            .queue_priorities(&priorities)];
        let extensions: Vec<_> = physical
            .limits
            .import_alignment
            .iter()
            .map(|_| ext::external_memory_host::NAME.as_ptr())
            .collect();
        // Kernels that reach beyond their buffers then do not reach beyond the memory of those. Every device has it.
        let features = vk::PhysicalDeviceFeatures::default().robust_buffer_access(true);
        let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
        let wanted = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&extensions)
            .enabled_features(&features)
            .push_next(&mut timeline);
        // SAFETY: the device is one of the instance; what is asked for, it has said that it has.
        let device = unsafe { loaded.instance.create_device(physical.raw, &wanted, None) };
        let device = device.map_err(|code| codes::failed("vkCreateDevice", code))?;
        let queue = |nth| Queue {
            // SAFETY: the device was made with so many queues of that family.
            raw: unsafe { device.get_device_queue(physical.family, nth) },
            lock: Arc::default(),
        };
        let queues = (0..physical.queues).map(queue).collect();
        let instance = loaded.instance.clone();
        Self::new(instance, physical, device, queues, options, Keeper::Own { _loaded: loaded })
    }

    /// Somebody else's device.
    ///
    /// # Safety
    ///
    /// As [`VulkanDevice::from_raw`](super::VulkanDevice::from_raw).
    pub(super) unsafe fn adopt(raw: RawDevice, options: VulkanOptions) -> Result<Arc<Self>, DeviceError> {
        let unsuitable = |handle, reason| DeviceError::Unsuitable { handle, reason };
        // SAFETY: by this function's contract.
        let physical = unsafe { Physical::new(&raw.instance, raw.physical_device) };
        let mut physical = physical.map_err(|reason| unsuitable("device", reason))?;
        for name in [c"vkGetSemaphoreCounterValue", c"vkWaitSemaphores"] {
            // SAFETY: by this function's contract; the name ends with a zero.
            let there = unsafe { raw.instance.get_device_proc_addr(raw.device.handle(), name.as_ptr()) };
            if there.is_none() {
                let reason = "its instance was made for a version before 1.2, which lacks the calls for timeline semaphores";
                return Err(unsuitable("device", reason.to_owned()));
            }
        }
        // SAFETY: by this function's contract.
        let families =
            unsafe { raw.instance.get_physical_device_queue_family_properties(raw.physical_device) };
        let family = families.get(raw.queue_family_index as usize);
        if !family.is_some_and(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE)) {
            return Err(unsuitable(
                "queue",
                "its family runs no kernels: use one that has COMPUTE".to_owned(),
            ));
        }
        physical.family = raw.queue_family_index;
        if !raw.external_memory_host {
            physical.limits.import_alignment = None;
        }
        let queues = vec![Queue { raw: raw.queue, lock: raw.queue_lock }];
        let keeper = Keeper::Adopted { _owner: raw.owner };
        Self::new(raw.instance, physical, raw.device, queues, options, keeper)
    }

    fn new(
        instance: ash::Instance,
        physical: Physical,
        device: ash::Device,
        queues: Vec<Queue>,
        options: VulkanOptions,
        keeper: Keeper,
    ) -> Result<Arc<Self>, DeviceError> {
        let import = physical.limits.import_alignment;
        let import = import.map(|_| ext::external_memory_host::Device::new(&instance, &device));
        let (buffers, layout) = (vk::DescriptorSetLayout::null(), vk::PipelineLayout::null());
        let opened = Counter::new();
        let mut context =
            Self { device, physical, instance, import, buffers, layout, queues, opened, options, keeper };
        // From here on the drop ends what was made.
        context.make_layouts()?;
        Ok(Arc::new(context))
    }

    fn make_layouts(&mut self) -> Result<(), DeviceError> {
        let buffer = |binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings = [buffer(0), buffer(1)];
        let wanted = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the device is there, and the structures during the call.
        let buffers = unsafe { self.device.create_descriptor_set_layout(&wanted, None) };
        self.buffers = buffers.map_err(|code| codes::failed("vkCreateDescriptorSetLayout", code))?;
        let sets = [self.buffers];
        let numbers = [vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(PARAMETER_BYTES)];
        let wanted =
            vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&numbers);
        // SAFETY: as above.
        let layout = unsafe { self.device.create_pipeline_layout(&wanted, None) };
        self.layout = layout.map_err(|code| codes::failed("vkCreatePipelineLayout", code))?;
        Ok(())
    }

    /// The queue for one more stream: each in its turn.
    pub(super) fn queue(&self) -> Queue {
        // Two streams that are opened at once may get the same: they share it, as others do.
        let turn = self.opened.value() % self.queues.len() as u64;
        self.opened.add(1);
        self.queues[usize::try_from(turn).unwrap_or(0)].clone()
    }

    /// The first queue.
    pub(super) fn first_queue(&self) -> &Queue {
        &self.queues[0]
    }

    /// Which kinds of memory host memory can be imported as; nothing if it cannot be.
    ///
    /// # Safety
    ///
    /// The address is aligned as the device wants it, and there is memory.
    pub(super) unsafe fn importable_as(&self, base: *const u8) -> Option<Result<u32, vk::Result>> {
        let import = self.import.as_ref()?;
        let mut properties = vk::MemoryHostPointerPropertiesEXT::default();
        let of = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        // SAFETY: the device is there and has the extension; the address by this function's contract.
        let asked = unsafe {
            (import.fp().get_memory_host_pointer_properties_ext)(
                self.device.handle(),
                of,
                base.cast(),
                &raw mut properties,
            )
        };
        Some(asked.result().map(|()| properties.memory_type_bits))
    }
}

impl Queue {
    /// Puts work into the queue.
    ///
    /// # Safety
    ///
    /// As `vkQueueSubmit`, but for the lock, which is taken here.
    pub(super) unsafe fn submit(
        &self,
        device: &ash::Device,
        work: &vk::SubmitInfo<'_>,
    ) -> Result<(), vk::Result> {
        let _alone = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: by this function's contract; nobody else uses the queue now.
        unsafe { device.queue_submit(self.raw, std::slice::from_ref(work), vk::Fence::null()) }
    }
}

impl Drop for Context {
    /// Nothing is left of what was made of the device: it would have kept the context.
    fn drop(&mut self) {
        // SAFETY: ours, and used by nobody any more (I2).
        unsafe { self.device.destroy_pipeline_layout(self.layout, None) };
        // SAFETY: as above.
        unsafe { self.device.destroy_descriptor_set_layout(self.buffers, None) };
        if let Keeper::Own { .. } = self.keeper {
            // SAFETY: as above; the device is ours.
            unsafe { self.device.destroy_device(None) };
        }
    }
}
