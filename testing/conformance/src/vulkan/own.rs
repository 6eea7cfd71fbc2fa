//! An instance and a device that a test has made.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::sync::{Arc, Mutex};

use ash::{ext, vk};
use transload::device::vulkan::RawDevice;

const VALIDATION: &CStr = c"VK_LAYER_KHRONOS_validation";

/// What stands between the test and the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Nothing.
    None,
    /// The Khronos validation layer, of synchronisation too. A word of it ends the process.
    Validation,
}

/// An instance, and a device of it with one queue. All go when it is dropped.
pub struct Own {
    /// Keeps the loader's library where it is.
    _entry: ash::Entry,
    instance: ash::Instance,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    physical: vk::PhysicalDevice,
    device: ash::Device,
    queue: vk::Queue,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Own").field(&self.device.handle()).finish()
    }
}

impl Own {
    /// The first device of all drivers, with what the back end needs.
    ///
    /// # Errors
    ///
    /// Why there is none.
    ///
    /// # Panics
    ///
    /// If a device that is there cannot be made.
    pub fn new(layer: Layer) -> Result<Self, String> {
        // SAFETY: it is the system's loader.
        let entry = unsafe { ash::Entry::load() }.map_err(|error| error.to_string())?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let (layers, extensions) = ([VALIDATION.as_ptr()], [ext::debug_utils::NAME.as_ptr()]);
        let mut early = messenger();
        let synchronisation = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&synchronisation);
        let mut wanted = vk::InstanceCreateInfo::default().application_info(&application);
        if layer == Layer::Validation {
            wanted = wanted
                .enabled_layer_names(&layers)
                .enabled_extension_names(&extensions)
                .push_next(&mut early)
                .push_next(&mut features);
        }
        // SAFETY: the structures are there.
        let instance = unsafe { entry.create_instance(&wanted, None) };
        let instance = instance.map_err(|code| match code {
            vk::Result::ERROR_LAYER_NOT_PRESENT => {
                "needs the Khronos validation layer (vulkan-validationlayers)".to_owned()
            }
            code => format!("vkCreateInstance answered {code:?}"),
        })?;
        let messenger = (layer == Layer::Validation).then(|| {
            let debug = ext::debug_utils::Instance::new(&entry, &instance);
            // SAFETY: the instance is there and has the extension.
            let messenger = unsafe { debug.create_debug_utils_messenger(&messenger(), None) }.unwrap();
            (debug, messenger)
        });
        // SAFETY: the instance is there.
        let found = unsafe { instance.enumerate_physical_devices() }.unwrap_or_default();
        let physical = *found.first().ok_or("no driver has a device")?;
        let priorities = [1.0];
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&priorities)];
        let extensions = [ext::external_memory_host::NAME.as_ptr()];
        let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
        let wanted = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&extensions)
            .push_next(&mut timeline);
        // SAFETY: the device is of the instance, and the structures are there.
        let device = unsafe { instance.create_device(physical, &wanted, None) }.unwrap();
        // SAFETY: made with that queue.
        let queue = unsafe { device.get_device_queue(0, 0) };
        Ok(Self { _entry: entry, instance, messenger, physical, device, queue })
    }

    /// The device.
    pub fn device(&self) -> &ash::Device {
        &self.device
    }

    /// All of it, to be handed in.
    pub fn into_raw(self) -> RawDevice {
        let device = self.device.clone();
        self.into_raw_with(device)
    }

    /// All of it, with other calls of the device's.
    pub fn into_raw_with(self, device: ash::Device) -> RawDevice {
        RawDevice {
            instance: self.instance.clone(),
            physical_device: self.physical,
            device,
            queue_family_index: 0,
            queue: self.queue,
            queue_lock: Arc::new(Mutex::new(())),
            external_memory_host: true,
            owner: Box::new(self),
        }
    }

    /// The driver's own function of that name.
    pub fn call(&self, name: &CStr) -> vk::PFN_vkVoidFunction {
        // SAFETY: the device is there; the name ends with a zero.
        unsafe { self.instance.get_device_proc_addr(self.device.handle(), name.as_ptr()) }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: nothing that was made of it is left.
        unsafe { self.device.destroy_device(None) };
        if let Some((debug, messenger)) = &self.messenger {
            // SAFETY: as above.
            unsafe { debug.destroy_debug_utils_messenger(*messenger, None) };
        }
        // SAFETY: as above.
        unsafe { self.instance.destroy_instance(None) };
    }
}

fn messenger() -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    type Severity = vk::DebugUtilsMessageSeverityFlagsEXT;
    type Kind = vk::DebugUtilsMessageTypeFlagsEXT;
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(Severity::WARNING | Severity::ERROR)
        .message_type(Kind::VALIDATION | Kind::PERFORMANCE)
        .pfn_user_callback(Some(ends_the_process))
}

/// Of itself: where one thread waits for a timeline that another raises, the layer (1.3.239) sometimes waits ten seconds for
/// its own books, and says that this is most likely a fault of its own.
const OWN_FAULT: &CStr = c"UNASSIGNED-VkSemaphore-state-timeout";

/// A word of the layer's: nobody could miss it.
unsafe extern "system" fn ends_the_process(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer gives the address of such a structure, which is there during the call.
    let data = unsafe { &*data };
    // SAFETY: the name ends with a zero, and is there as long.
    if unsafe { data.message_id_name_as_c_str() } == Some(OWN_FAULT) {
        return vk::FALSE;
    }
    let message = data.p_message;
    // SAFETY: the message ends with a zero.
    let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
    // Not by a panic, which cannot leave this function.
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("VALIDATION: {message}\n"));
    std::process::abort()
}
