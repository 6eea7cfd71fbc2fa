//! Back ends that this build does not have.

use super::{Backend, Device, DeviceError, DeviceInfo, Driver};

/// A back end that is known by name and answers that it is not there.
#[derive(Debug)]
pub(super) struct Absent {
    backend: Backend,
    reason: &'static str,
}

impl Absent {
    pub(super) const fn new(backend: Backend, reason: &'static str) -> Self {
        Self { backend, reason }
    }

    fn unavailable(&self) -> DeviceError {
        DeviceError::Unavailable { backend: self.backend, reason: self.reason.to_owned() }
    }
}

impl Driver for Absent {
    fn backend(&self) -> Backend {
        self.backend
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, DeviceError> {
        Err(self.unavailable())
    }

    fn open(&self, _: usize) -> Result<Box<dyn Device>, DeviceError> {
        Err(self.unavailable())
    }
}
