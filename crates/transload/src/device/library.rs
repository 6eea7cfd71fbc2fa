//! Whether a driver's library is on this machine.

use super::Backend;

/// The library through which a back end reaches its driver, and whether it can be loaded: `None` for those that need
/// none. Loading it starts nothing.
///
/// # Errors
///
/// The loader's own words.
pub fn driver_library(backend: Backend) -> Option<(&'static str, Result<(), String>)> {
    let name = match backend {
        Backend::Host | Backend::Metal => return None,
        Backend::OpenCl => "libOpenCL.so.1",
        Backend::Vulkan => "libvulkan.so.1",
        Backend::Cuda => "libcuda.so.1",
    };
    // SAFETY: loading runs the library's initialisers. These are the drivers that the user installed to be loaded;
    // they are not unloaded while in use, since nothing of them is used here.
    let loaded = unsafe { libloading::Library::new(name) };
    let words = |error: libloading::Error| {
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
    };
    Some((name, loaded.map(drop).map_err(words)))
}
