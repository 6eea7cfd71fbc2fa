//! From a name to an open device.

use super::absent::Absent;
use super::{Backend, Device, DeviceError, Driver, Kind, Selector, host};

static HOST: host::Host = host::Host;
#[cfg(feature = "opencl")]
static OPENCL: super::opencl::OpenCl = super::opencl::OpenCl;
#[cfg(not(feature = "opencl"))]
static OPENCL: Absent = Absent::new(Backend::OpenCl, "built without it: build with --features opencl");
#[cfg(feature = "vulkan")]
static VULKAN: super::vulkan::Vulkan = super::vulkan::Vulkan;
#[cfg(not(feature = "vulkan"))]
static VULKAN: Absent = Absent::new(Backend::Vulkan, "built without it: build with --features vulkan");
#[cfg(feature = "cuda")]
static CUDA: super::cuda::Cuda = super::cuda::Cuda;
#[cfg(not(feature = "cuda"))]
static CUDA: Absent = Absent::new(Backend::Cuda, "built without it: build with --features cuda");
#[cfg(all(feature = "metal", target_os = "macos"))]
static METAL: super::metal::Metal = super::metal::Metal;
#[cfg(all(not(feature = "metal"), target_os = "macos"))]
static METAL: Absent = Absent::new(Backend::Metal, "built without it: build with --features metal");
#[cfg(not(target_os = "macos"))]
static METAL: Absent = Absent::new(Backend::Metal, "it needs macOS: use vulkan, opencl, cuda or host");

/// The driver of each back end, in the order of [`Backend::ALL`]. All are known; some may be unavailable.
pub fn drivers() -> impl Iterator<Item = &'static dyn Driver> {
    Backend::ALL.into_iter().map(driver)
}

fn driver(backend: Backend) -> &'static dyn Driver {
    match backend {
        Backend::Host => &HOST,
        Backend::OpenCl => &OPENCL,
        Backend::Vulkan => &VULKAN,
        Backend::Cuda => &CUDA,
        Backend::Metal => &METAL,
    }
}

/// Opens the device that a selector names.
///
/// ```
/// use transload::device::{self, Device};
///
/// let device = device::open(&"host".parse()?)?;
/// assert_eq!(device.info().backend.name(), "host");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`DeviceError::Unavailable`], [`DeviceError::NoSuchDevice`], or what the driver says. `auto` falls back to the host.
pub fn open(selector: &Selector) -> Result<Box<dyn Device>, DeviceError> {
    match *selector {
        Selector::Device { backend, index } => driver(backend).open(index),
        Selector::Auto => {
            for driver in drivers() {
                let gpu = driver
                    .probe()
                    .ok()
                    .and_then(|devices| devices.into_iter().find(|device| device.kind == Kind::Gpu));
                match gpu.map(|gpu| driver.open(gpu.index)) {
                    Some(Ok(device)) => return Ok(device),
                    Some(Err(error)) => {
                        tracing::warn!("{} has a GPU that does not open: {error}", driver.backend());
                    }
                    None => {}
                }
            }
            HOST.open(0)
        }
    }
}
