//! What the driver says of its devices.

use std::ffi::{CStr, c_int};

use cudarc::driver::sys::CUdevice;

use super::api::Api;
use super::codes::Failure;
use crate::device::{Backend, DeviceInfo, Kind};

/// How many devices there are.
pub(super) fn count(api: &Api) -> Result<usize, Failure> {
    let mut count = 0;
    // SAFETY: the place of a number.
    unsafe { api.device_count(&raw mut count) }?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The device of a number that is below the count.
pub(super) fn device(api: &Api, index: usize) -> Result<CUdevice, Failure> {
    let mut device = 0;
    let ordinal = c_int::try_from(index).unwrap_or(c_int::MAX);
    // SAFETY: the place of a device.
    unsafe { api.device(&raw mut device, ordinal) }?;
    Ok(device)
}

/// Name and memory. A device that does not tell them is still a device, so that the numbers of those behind it do not change.
pub(super) fn describe(api: &Api, device: CUdevice, index: usize) -> DeviceInfo {
    let mut name = [0; 256];
    // SAFETY: there is room for so many bytes.
    let told = unsafe { api.device_name(name.as_mut_ptr(), 256, device) };
    let name = told.map(|()| {
        // The driver ends it with a zero; if it does not, this does.
        name[name.len() - 1] = 0;
        // SAFETY: there is a zero.
        unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
    });
    let name = name.unwrap_or_else(|failure| format!("a device without a name: {failure}"));
    let mut bytes = 0;
    // SAFETY: the place of a number.
    let told = unsafe { api.device_memory(&raw mut bytes, device) };
    let most = if told.is_ok() { bytes as u64 } else { 0 };
    DeviceInfo::new(Backend::Cuda, index, name, Kind::Gpu, most)
}
