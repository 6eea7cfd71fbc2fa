//! The driver: which devices there are, or what is missing.

use std::sync::{Mutex, PoisonError};

use opencl3::device::{CL_DEVICE_TYPE_ALL, get_device_ids};
use opencl3::error_codes::{
    CL_DEVICE_NOT_FOUND, CL_PLATFORM_NOT_FOUND_KHR, DLOPEN_FUNCTION_NOT_AVAILABLE, DLOPEN_RUNTIME_LOAD_FAILED,
};
use opencl3::platform::platform::{CL_PLATFORM_NAME, get_platform_ids, get_platform_info};
use opencl3::types::{cl_int, cl_platform_id};

use super::codes;
use super::device::OpenClDevice;
use super::info::DeviceId;
use crate::device::{Backend, Device, DeviceError, DeviceInfo, Driver};

/// All devices of all OpenCL platforms, numbered from 0 in the order in which the loader gives them.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenCl;

impl Driver for OpenCl {
    fn backend(&self) -> Backend {
        Backend::OpenCl
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, DeviceError> {
        Ok(devices()?.into_iter().enumerate().map(|(index, device)| device.describe(index)).collect())
    }

    fn open(&self, index: usize) -> Result<Box<dyn Device>, DeviceError> {
        Ok(Box::new(OpenClDevice::open(index)?))
    }
}

/// The device of a number.
pub(super) fn device(index: usize) -> Result<DeviceId, DeviceError> {
    let devices = devices()?;
    let none = || DeviceError::NoSuchDevice { backend: Backend::OpenCl, index, count: devices.len() };
    devices.get(index).copied().ok_or_else(none)
}

/// Which of the devices this is; for one that is none of them (a part of a device), how many there are.
pub(super) fn index_of(device: DeviceId) -> usize {
    let devices = devices().unwrap_or_default();
    devices.iter().position(|other| *other == device).unwrap_or(devices.len())
}

/// Held while drivers are asked for their devices. Drivers begin to work when they are first asked, and some (PoCL 3.1)
/// hand out devices on a second thread before the first thread has made them whole.
static ASKING: Mutex<()> = Mutex::new(());

/// The devices, at least one.
fn devices() -> Result<Vec<DeviceId>, DeviceError> {
    let _asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    let platforms = match get_platform_ids() {
        Ok(platforms) if !platforms.is_empty() => platforms,
        Ok(_) => return Err(unavailable(no_platform(CL_PLATFORM_NOT_FOUND_KHR))),
        Err(code) => return Err(unavailable(no_platform(code))),
    };
    let (mut devices, mut without) = (Vec::new(), Vec::new());
    for platform in platforms {
        match get_device_ids(platform, CL_DEVICE_TYPE_ALL) {
            Ok(ids) if !ids.is_empty() => devices.extend(ids.into_iter().map(DeviceId)),
            Ok(_) | Err(CL_DEVICE_NOT_FOUND) => without.push(name_of(platform)),
            // A driver that is broken does not take those of others away.
            Err(code) => without.push(format!("{} ({})", name_of(platform), codes::name(code))),
        }
    }
    if devices.is_empty() {
        return Err(unavailable(format!(
            "no OpenCL driver has a device here: {}. Install the driver of the device, or one for processors, as with \
             `apt-get install pocl-opencl-icd`; if it is installed, it may need a folder for its cache that this user can \
             write: set HOME, XDG_CACHE_HOME or POCL_CACHE_DIR",
            without.join(", ")
        )));
    }
    Ok(devices)
}

fn name_of(platform: cl_platform_id) -> String {
    get_platform_info(platform, CL_PLATFORM_NAME).map_or_else(codes::name, String::from)
}

fn unavailable(reason: String) -> DeviceError {
    DeviceError::Unavailable { backend: Backend::OpenCl, reason }
}

/// Why there is no platform, and what to do.
fn no_platform(code: cl_int) -> String {
    match code {
        DLOPEN_RUNTIME_LOAD_FAILED => {
            "the OpenCL loader is not there: libOpenCL.so.1, or what OPENCL_DYLIB_PATH names, cannot be loaded. Install \
             it and a driver, as with `apt-get install ocl-icd-libopencl1 pocl-opencl-icd`, or the package of the \
             device's vendor"
                .to_owned()
        }
        DLOPEN_FUNCTION_NOT_AVAILABLE => {
            "what was loaded as libOpenCL.so.1, or as OPENCL_DYLIB_PATH names, is no OpenCL loader: install one, as \
             with `apt-get install ocl-icd-libopencl1`"
                .to_owned()
        }
        CL_PLATFORM_NOT_FOUND_KHR => {
            let folder = std::env::var("OCL_ICD_VENDORS").unwrap_or_else(|_| "/etc/OpenCL/vendors".to_owned());
            format!(
                "the OpenCL loader finds no driver that works in {folder}: install that of the device's vendor, or one \
                 for processors, as with `apt-get install pocl-opencl-icd`"
            )
        }
        code => format!("the OpenCL loader fails: clGetPlatformIDs answered {}", codes::name(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_says_what_to_do() {
        for code in [DLOPEN_RUNTIME_LOAD_FAILED, DLOPEN_FUNCTION_NOT_AVAILABLE, CL_PLATFORM_NOT_FOUND_KHR] {
            assert!(no_platform(code).contains("apt-get install"), "{code}");
        }
        assert!(no_platform(-6).contains("CL_OUT_OF_HOST_MEMORY (-6)"));
    }

    #[test]
    fn devices_are_counted_from_0_or_unavailable() {
        match OpenCl.probe() {
            Ok(found) => {
                let numbers: Vec<_> = found.iter().map(|device| device.index).collect();
                assert_eq!(numbers, (0..found.len()).collect::<Vec<_>>());
                let beyond = OpenCl.open(found.len()).unwrap_err();
                assert!(matches!(beyond, DeviceError::NoSuchDevice { .. }), "{beyond}");
            }
            Err(error) => assert!(matches!(error, DeviceError::Unavailable { .. }), "{error}"),
        }
    }
}
