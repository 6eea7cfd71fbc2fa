//! What Metal says of its devices.

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_metal::MTLDevice;

use crate::device::{Backend, DeviceInfo, Kind};

/// A device of Metal. It may be used from any thread.
pub(super) type NativeDevice = Retained<ProtocolObject<dyn MTLDevice>>;

/// Name and limits. All devices of Metal are graphics processors.
pub(super) fn describe(device: &ProtocolObject<dyn MTLDevice>, index: usize) -> DeviceInfo {
    let name = autoreleasepool(|_| device.name().to_string());
    DeviceInfo::new(Backend::Metal, index, name, Kind::Gpu, device.maxBufferLength() as u64)
}
