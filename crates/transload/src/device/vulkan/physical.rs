//! What drivers say of their devices.

use std::ffi::CStr;
use std::fmt;

use ash::{ext, vk};

use crate::device::{Backend, DeviceInfo, Kind};

/// What buffers are used for here, whatever memory they are in.
pub(super) const USES: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw()
        | vk::BufferUsageFlags::STORAGE_BUFFER.as_raw(),
);

/// The most queues that are made of one device: streams share them.
const MOST_QUEUES: u32 = 4;

/// A device of a driver, and what was asked about it.
#[derive(Clone)]
pub(super) struct Physical {
    pub(super) raw: vk::PhysicalDevice,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    pub(super) limits: Limits,
    /// The family of queues that transfers and kernels go to, and how many of it there are for us.
    pub(super) family: u32,
    pub(super) queues: u32,
    name: String,
    device_type: vk::PhysicalDeviceType,
}

/// Limits that matter here, in bytes unless it is said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Of one allocation.
    pub(super) allocation: u64,
    /// Of what a kernel reaches of one buffer.
    pub(super) storage_range: u64,
    /// Where that may begin: a multiple of this.
    pub(super) storage_alignment: u64,
    /// Of groups of one run of a kernel.
    pub(super) groups: u32,
    /// What address and length of host memory must be multiples of, to be imported. Nothing if none can be.
    pub(super) import_alignment: Option<u64>,
}

impl fmt::Debug for Physical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Physical")
            .field("raw", &self.raw)
            .field("name", &self.name)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Physical {
    /// Asks a device; says why it cannot be used, if so.
    ///
    /// # Safety
    ///
    /// `raw` is a device of the instance, which is of version 1.1 or later.
    pub(super) unsafe fn new(instance: &ash::Instance, raw: vk::PhysicalDevice) -> Result<Self, String> {
        // SAFETY: by this function's contract.
        let basic = unsafe { instance.get_physical_device_properties(raw) };
        let name = basic.device_name_as_c_str().map_or_else(
            |_| "a device without a name".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        );
        if basic.api_version < vk::API_VERSION_1_2 {
            return Err(format!("{name} has Vulkan {}, and 1.2 is needed", version(basic.api_version)));
        }
        let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut timeline);
        // SAFETY: by this function's contract; the structures are there.
        unsafe { instance.get_physical_device_features2(raw, &mut features) };
        if timeline.timeline_semaphore == vk::FALSE {
            return Err(format!("{name} has no timeline semaphores"));
        }
        // SAFETY: by this function's contract.
        let families = unsafe { instance.get_physical_device_queue_family_properties(raw) };
        let (family, queues) = family(&families).ok_or_else(|| format!("{name} runs no kernels"))?;
        // SAFETY: by this function's contract.
        let memory = unsafe { instance.get_physical_device_memory_properties(raw) };
        // SAFETY: by this function's contract.
        let limits = unsafe { limits(instance, raw, &basic.limits, &memory) };
        let device_type = basic.device_type;
        Ok(Self { raw, memory, limits, family, queues, name, device_type })
    }

    /// Name, kind and limits.
    pub(super) fn describe(&self, index: usize) -> DeviceInfo {
        let kind = kind(self.device_type);
        DeviceInfo::new(Backend::Vulkan, index, self.name.clone(), kind, self.limits.allocation)
    }

    /// Whether the device is this machine's processor: its work is done by threads of this process.
    pub(super) fn is_this_processor(&self) -> bool {
        self.device_type == vk::PhysicalDeviceType::CPU
    }

    /// Whether device and host have the same memory.
    pub(super) fn shares_host_memory(&self) -> bool {
        self.is_this_processor() || self.device_type == vk::PhysicalDeviceType::INTEGRATED_GPU
    }

    /// The kind of memory, among those that `allowed` has bits of, that has all of `needed` and, if there is such, all of
    /// `preferred` as well.
    pub(super) fn memory_type(
        &self,
        allowed: u32,
        needed: vk::MemoryPropertyFlags,
        preferred: vk::MemoryPropertyFlags,
    ) -> Option<u32> {
        let find = |wanted| {
            (0..self.memory.memory_type_count).find(|nth| {
                let flags = self.memory.memory_types[*nth as usize].property_flags;
                allowed & 1 << nth != 0 && flags.contains(wanted)
            })
        };
        find(needed | preferred).or_else(|| find(needed))
    }
}

/// A version in words.
fn version(version: u32) -> String {
    format!("{}.{}", vk::api_version_major(version), vk::api_version_minor(version))
}

fn kind(device_type: vk::PhysicalDeviceType) -> Kind {
    match device_type {
        vk::PhysicalDeviceType::CPU => Kind::Cpu,
        vk::PhysicalDeviceType::DISCRETE_GPU
        | vk::PhysicalDeviceType::INTEGRATED_GPU
        | vk::PhysicalDeviceType::VIRTUAL_GPU => Kind::Gpu,
        _ => Kind::Accelerator,
    }
}

/// The family of queues that is best for transfers and kernels: one without graphics, if there is such, so that it does not
/// wait for what is drawn. And how many queues of it are wanted.
fn family(families: &[vk::QueueFamilyProperties]) -> Option<(u32, u32)> {
    let computes = |flags: vk::QueueFlags| flags.contains(vk::QueueFlags::COMPUTE);
    let alone = |flags: vk::QueueFlags| computes(flags) && !flags.contains(vk::QueueFlags::GRAPHICS);
    let find = |wanted: &dyn Fn(vk::QueueFlags) -> bool| {
        families.iter().position(|family| family.queue_count > 0 && wanted(family.queue_flags))
    };
    let found = find(&alone).or_else(|| find(&computes))?;
    Some((u32::try_from(found).ok()?, families[found].queue_count.min(MOST_QUEUES)))
}

/// # Safety
///
/// As [`Physical::new`].
unsafe fn limits(
    instance: &ash::Instance,
    raw: vk::PhysicalDevice,
    basic: &vk::PhysicalDeviceLimits,
    memory: &vk::PhysicalDeviceMemoryProperties,
) -> Limits {
    // SAFETY: by this function's contract.
    let extensions = unsafe { instance.enumerate_device_extension_properties(raw) }.unwrap_or_default();
    let has = |wanted: &CStr| {
        extensions
            .iter()
            .any(|extension| extension.extension_name_as_c_str().is_ok_and(|name| name == wanted))
    };
    let mut maintenance = vk::PhysicalDeviceMaintenance3Properties::default();
    let mut import = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut maintenance);
    let can_import = has(ext::external_memory_host::NAME);
    if can_import {
        properties = properties.push_next(&mut import);
    }
    // SAFETY: by this function's contract; the structures are there.
    unsafe { instance.get_physical_device_properties2(raw, &mut properties) };
    let wanted = vk::PhysicalDeviceExternalBufferInfo::default()
        .usage(USES)
        .handle_type(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT);
    let mut external = vk::ExternalBufferProperties::default();
    if can_import {
        // SAFETY: by this function's contract; the structures are there.
        unsafe { instance.get_physical_device_external_buffer_properties(raw, &wanted, &mut external) };
    }
    let features = external.external_memory_properties.external_memory_features;
    // The extension forbids to import host memory as an allocation of its own for a buffer.
    let importable = features.contains(vk::ExternalMemoryFeatureFlags::IMPORTABLE)
        && !features.contains(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY);
    let heaps = memory.memory_heaps_as_slice().iter();
    let heaps = heaps.filter(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    let largest = heaps.map(|heap| heap.size).max().unwrap_or(u64::MAX);
    Limits {
        allocation: maintenance.max_memory_allocation_size.min(largest),
        storage_range: basic.max_storage_buffer_range.into(),
        storage_alignment: basic.min_storage_buffer_offset_alignment.max(4),
        groups: basic.max_compute_work_group_count[0],
        import_alignment: importable.then_some(import.min_imported_host_pointer_alignment.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(flags: vk::QueueFlags, queue_count: u32) -> vk::QueueFamilyProperties {
        vk::QueueFamilyProperties { queue_flags: flags, queue_count, ..Default::default() }
    }

    #[test]
    fn kernels_go_beside_graphics_if_they_can() {
        let (graphics, compute) = (vk::QueueFlags::GRAPHICS, vk::QueueFlags::COMPUTE);
        let transfer = vk::QueueFlags::TRANSFER;
        assert_eq!(family(&[of(graphics | compute, 1), of(transfer, 2), of(compute, 8)]), Some((2, 4)));
        assert_eq!(family(&[of(graphics | compute, 1), of(transfer, 2)]), Some((0, 1)));
        assert_eq!(family(&[of(graphics, 16), of(compute, 0), of(transfer, 2)]), None);
    }

    #[test]
    fn a_processor_is_never_a_gpu() {
        assert_eq!(kind(vk::PhysicalDeviceType::CPU), Kind::Cpu);
        assert_eq!(kind(vk::PhysicalDeviceType::VIRTUAL_GPU), Kind::Gpu);
        assert_eq!(kind(vk::PhysicalDeviceType::OTHER), Kind::Accelerator);
    }
}
