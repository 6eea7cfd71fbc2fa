//! The driver: which devices there are, or what is missing.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ash::vk;

use super::codes;
use super::device::VulkanDevice;
use super::physical::Physical;
use crate::device::process::{self, Process};
use crate::device::{Backend, Device, DeviceError, DeviceInfo, Driver};

/// All devices of all Vulkan drivers that have what is needed here, numbered from 0 in the order in which the loader gives
/// them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vulkan;

impl Driver for Vulkan {
    fn backend(&self) -> Backend {
        Backend::Vulkan
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, DeviceError> {
        Ok(devices()?.1.iter().enumerate().map(|(index, device)| device.describe(index)).collect())
    }

    fn open(&self, index: usize) -> Result<Box<dyn Device>, DeviceError> {
        Ok(Box::new(VulkanDevice::open(index)?))
    }
}

/// The loader, and the instance that all devices of this process are opened from.
pub(super) struct Loaded {
    /// Keeps the loader's library where it is.
    _entry: ash::Entry,
    pub(super) instance: ash::Instance,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loaded").field(&self.instance.handle()).finish()
    }
}

/// The instance, once there is one. It stays for as long as the process: many drivers do not bear to be unloaded.
static LOADED: OnceLock<(Process, Arc<Loaded>)> = OnceLock::new();

/// Held while it is made.
static LOADING: Mutex<()> = Mutex::new(());

fn loaded() -> Result<Arc<Loaded>, DeviceError> {
    if LOADED.get().is_none() {
        let _alone = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        if LOADED.get().is_none() {
            let process = Process::this();
            let process =
                process.map_err(|error| unavailable(format!("no memory to begin with: {error}")))?;
            let _ = LOADED.set((process, Arc::new(load().map_err(unavailable)?)));
        }
    }
    match LOADED.get() {
        Some((process, loaded)) if process.is_here() => Ok(loaded.clone()),
        // A child must not use what its parent has begun to use.
        _ => Err(unavailable(process::FORKED.to_owned())),
    }
}

fn load() -> Result<Loaded, String> {
    // SAFETY: what is loaded is the system's Vulkan loader, whose initialisers may run at any time.
    let entry = unsafe { ash::Entry::load() }.map_err(|error| {
        format!(
            "the Vulkan loader is not there ({error}): install it and a driver, as with `apt-get install libvulkan1 \
             mesa-vulkan-drivers`, or the package of the device's vendor"
        )
    })?;
    // SAFETY: the call has no conditions.
    let version = unsafe { entry.try_enumerate_instance_version() };
    // A loader of 1.0 does not have that call, and refuses to make instances of later versions.
    match version {
        Ok(Some(version)) if version >= vk::API_VERSION_1_1 => {}
        Ok(_) => return Err("the Vulkan loader is of version 1.0: install one of 1.1 or later".to_owned()),
        Err(code) => return Err(no_instance("vkEnumerateInstanceVersion", code)),
    }
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
    let wanted = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: the structures are there during the call; neither layers nor extensions are asked for.
    let instance = unsafe { entry.create_instance(&wanted, None) };
    let instance = instance.map_err(|code| no_instance("vkCreateInstance", code))?;
    Ok(Loaded { _entry: entry, instance })
}

/// The instance and the devices that can be used, at least one.
fn devices() -> Result<(Arc<Loaded>, Vec<Physical>), DeviceError> {
    let loaded = loaded()?;
    // SAFETY: the instance is there.
    let found = unsafe { loaded.instance.enumerate_physical_devices() };
    let found = found.map_err(|code| unavailable(no_instance("vkEnumeratePhysicalDevices", code)))?;
    let (mut devices, mut without) = (Vec::new(), Vec::new());
    for raw in found {
        // SAFETY: the device is one of the instance.
        match unsafe { Physical::new(&loaded.instance, raw) } {
            Ok(device) => devices.push(device),
            Err(reason) => without.push(reason),
        }
    }
    if devices.is_empty() {
        let without = if without.is_empty() { "there is none".to_owned() } else { without.join("; ") };
        return Err(unavailable(format!(
            "no Vulkan driver has a device here that can be used: {without}. Install the driver of the device, or one for \
             processors, as with `apt-get install mesa-vulkan-drivers`"
        )));
    }
    Ok((loaded, devices))
}

/// The device of a number.
pub(super) fn device(index: usize) -> Result<(Arc<Loaded>, Physical), DeviceError> {
    let (loaded, mut devices) = devices()?;
    if index >= devices.len() {
        return Err(DeviceError::NoSuchDevice { backend: Backend::Vulkan, index, count: devices.len() });
    }
    Ok((loaded, devices.swap_remove(index)))
}

pub(super) fn unavailable(reason: String) -> DeviceError {
    DeviceError::Unavailable { backend: Backend::Vulkan, reason }
}

/// Why there is no instance, and what to do.
fn no_instance(call: &str, code: vk::Result) -> String {
    match code {
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
            "the Vulkan loader finds no driver that works (it looks where VK_DRIVER_FILES or VK_ICD_FILENAMES say, if \
             they are set): install that of the device's vendor, or one for processors, as with `apt-get install \
             mesa-vulkan-drivers`"
                .to_owned()
        }
        // Some loaders say that there is no memory where a driver's description cannot be read.
        code => format!(
            "the Vulkan loader fails: {call} answered {}; with VK_LOADER_DEBUG=all it says why. Install a driver that works, \
             as with `apt-get install mesa-vulkan-drivers`",
            codes::name(code)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_says_what_to_do() {
        let reason = no_instance("vkCreateInstance", vk::Result::ERROR_INCOMPATIBLE_DRIVER);
        assert!(reason.contains("apt-get install"), "{reason}");
        let reason = no_instance("vkCreateInstance", vk::Result::ERROR_OUT_OF_HOST_MEMORY);
        assert!(reason.contains("vkCreateInstance answered VK_ERROR_OUT_OF_HOST_MEMORY (-1)"), "{reason}");
    }

    #[test]
    fn devices_are_counted_from_0_or_unavailable() {
        match Vulkan.probe() {
            Ok(found) => {
                let numbers: Vec<_> = found.iter().map(|device| device.index).collect();
                assert_eq!(numbers, (0..found.len()).collect::<Vec<_>>());
                let beyond = Vulkan.open(found.len()).unwrap_err();
                assert!(matches!(beyond, DeviceError::NoSuchDevice { .. }), "{beyond}");
            }
            Err(error) => assert!(matches!(error, DeviceError::Unavailable { .. }), "{error}"),
        }
    }
}
