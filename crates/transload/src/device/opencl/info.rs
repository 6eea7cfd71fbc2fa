//! What drivers say of their devices.

use opencl3::device::{
    CL_DEVICE_HOST_UNIFIED_MEMORY, CL_DEVICE_MAX_MEM_ALLOC_SIZE, CL_DEVICE_NAME, CL_DEVICE_TYPE,
    CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, cl_device_id, get_device_info,
};
use opencl3::types::cl_ulong;

use super::codes;
use crate::device::{Backend, DeviceInfo, Kind};

/// A device of a driver. Those of a machine stay there while the process runs; parts of them (sub-devices) while the
/// context does that they are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceId(pub(super) cl_device_id);

// SAFETY: a name for calls that may be made on any thread.
unsafe impl Send for DeviceId {}
// SAFETY: as above.
unsafe impl Sync for DeviceId {}

impl DeviceId {
    /// Name, kind and limits. A device that does not tell them is still a device, so that the numbers of those behind
    /// it do not change.
    pub(super) fn describe(self, index: usize) -> DeviceInfo {
        let name = match get_device_info(self.0, CL_DEVICE_NAME) {
            Ok(name) => String::from(name).trim().to_owned(),
            Err(code) => format!("a device without a name: {}", codes::name(code)),
        };
        let kind = kind(self.device_type());
        let most = get_device_info(self.0, CL_DEVICE_MAX_MEM_ALLOC_SIZE).map_or(0, cl_ulong::from);
        DeviceInfo::new(Backend::OpenCl, index, name, kind, most)
    }

    /// Whether the device is a processor of this machine that works on its memory.
    pub(super) fn is_this_processor(self) -> bool {
        kind(self.device_type()) == Kind::Cpu && self.shares_host_memory()
    }

    /// Whether host and device have the same memory chips. It says nothing about what the device can address.
    pub(super) fn shares_host_memory(self) -> bool {
        get_device_info(self.0, CL_DEVICE_HOST_UNIFIED_MEMORY).is_ok_and(|shared| u32::from(shared) != 0)
    }

    fn device_type(self) -> cl_ulong {
        get_device_info(self.0, CL_DEVICE_TYPE).map_or(0, cl_ulong::from)
    }
}

/// The kind that a driver's bits name. The processor comes first: a processor that also calls itself a GPU is none.
fn kind(device_type: cl_ulong) -> Kind {
    if device_type & CL_DEVICE_TYPE_CPU != 0 {
        Kind::Cpu
    } else if device_type & CL_DEVICE_TYPE_GPU != 0 {
        Kind::Gpu
    } else {
        Kind::Accelerator
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opencl3::device::{CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_DEFAULT};

    #[test]
    fn a_processor_is_never_a_gpu() {
        assert_eq!(kind(CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT), Kind::Gpu);
        assert_eq!(kind(CL_DEVICE_TYPE_CPU), Kind::Cpu);
        assert_eq!(kind(CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU), Kind::Cpu);
        assert_eq!(kind(CL_DEVICE_TYPE_ACCELERATOR), Kind::Accelerator);
        assert_eq!(kind(0), Kind::Accelerator);
    }
}
