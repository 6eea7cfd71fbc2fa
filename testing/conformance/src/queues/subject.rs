//! A device whose queues are tested.

use transload::device::host::{HostDevice, HostKernel};
use transload::device::{Device, DeviceError, Kernel, KernelSource};

use crate::faulty::{Faults, Faulty};

/// What `echo` changes each byte by.
pub const TURN: u8 = 0x5a;

/// A device, and its kernel `echo`.
#[derive(Debug)]
pub struct Subject {
    /// The device, with calls that can be made to fail.
    pub device: Faulty,
    /// What fails.
    pub faults: Faults,
    /// The kernel.
    pub echo: Kernel,
    /// Whether one work item gives in the order in which it takes, and is alone: devices may run more than they are told.
    pub in_order: bool,
}

impl Subject {
    /// With a kernel that is built from this.
    ///
    /// # Errors
    ///
    /// What the device says.
    pub fn new(device: Box<dyn Device>, echo: &KernelSource) -> Result<Self, DeviceError> {
        let faults = Faults::new();
        let device = Faulty::new(device, faults.clone());
        Ok(Self { echo: device.build(echo)?, device, faults, in_order: false })
    }

    /// The host, and the twin of the kernel.
    ///
    /// # Errors
    ///
    /// None in fact.
    pub fn host() -> Result<Self, DeviceError> {
        Self::of_host_kernel(echo())
    }

    /// The host, and a kernel that may be another.
    ///
    /// # Errors
    ///
    /// None in fact.
    pub fn of_host_kernel(kernel: HostKernel) -> Result<Self, DeviceError> {
        let source = KernelSource::host(kernel, "echo");
        Ok(Self { in_order: true, ..Self::new(Box::new(HostDevice::new()), &source)? })
    }
}

/// The twin of the kernel `echo` on the host: one message a work item. It takes the room first, as those on devices must,
/// and marks the slot if there is no message for it.
pub fn echo() -> HostKernel {
    HostKernel::over_queues(|queues| {
        let Some(mut place) = queues.give() else { return };
        match queues.take() {
            Some(message) => message.iter().zip(&mut *place).for_each(|(byte, to)| *to = byte ^ TURN),
            None => place.skip(),
        }
    })
}
