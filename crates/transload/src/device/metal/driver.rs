//! The driver: which devices there are.

use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLCopyAllDevices, MTLDevice};

use super::device::MetalDevice;
use super::info::{NativeDevice, describe};
use crate::device::{Backend, Device, DeviceError, DeviceInfo, Driver};

// Apple asks programs without a window to link this framework: without it, Metal may have no device for them.
#[link(name = "CoreGraphics", kind = "framework")]
unsafe extern "C" {}

/// All devices of Metal, numbered from 0 in the order in which the system gives them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metal;

impl Driver for Metal {
    fn backend(&self) -> Backend {
        Backend::Metal
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, DeviceError> {
        Ok(devices()?.iter().enumerate().map(|(index, device)| describe(device, index)).collect())
    }

    fn open(&self, index: usize) -> Result<Box<dyn Device>, DeviceError> {
        Ok(Box::new(MetalDevice::open(index)?))
    }
}

/// The device of a number.
pub(super) fn device(index: usize) -> Result<NativeDevice, DeviceError> {
    let devices = devices()?;
    let count = devices.len();
    let none = DeviceError::NoSuchDevice { backend: Backend::Metal, index, count };
    devices.into_iter().nth(index).ok_or(none)
}

/// Which of the devices this is; for one that is none of them, how many there are.
pub(super) fn index_of(device: &ProtocolObject<dyn MTLDevice>) -> usize {
    let devices = devices().unwrap_or_default();
    let is_it = |other: &NativeDevice| other.registryID() == device.registryID();
    devices.iter().position(is_it).unwrap_or(devices.len())
}

/// The devices, at least one.
fn devices() -> Result<Vec<NativeDevice>, DeviceError> {
    let devices = autoreleasepool(|_| MTLCopyAllDevices().to_vec());
    if devices.is_empty() {
        let reason = "this Mac gives Metal no device; a virtual machine may have none: use host".to_owned();
        return Err(DeviceError::Unavailable { backend: Backend::Metal, reason });
    }
    Ok(devices)
}
