//! OpenCL: any device with a driver, loaded at run time.

use super::{Backend, Device, DeviceError, DeviceInfo, Driver};

/// The driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenCl;

impl Driver for OpenCl {
    fn backend(&self) -> Backend {
        Backend::OpenCl
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, DeviceError> {
        Err(DeviceError::Unavailable { backend: Backend::OpenCl, reason: "being written".to_owned() })
    }

    fn open(&self, _: usize) -> Result<Box<dyn Device>, DeviceError> {
        Err(DeviceError::Unavailable { backend: Backend::OpenCl, reason: "being written".to_owned() })
    }
}
