//! The driver and the device.

use std::sync::Arc;

use super::gate::Gate;
use super::stream::HostStream;
use crate::device::{
    Backend, Code, Device, DeviceError, DeviceInfo, Driver, Kernel, KernelSource, Kind, Stream, StreamOptions,
};
use crate::memory::Slab;
use crate::region::{Access, Region, RegisterError, Registrar, Registration};

/// The driver of the host: always there, with one device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

impl Driver for Host {
    fn backend(&self) -> Backend {
        Backend::Host
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, DeviceError> {
        Ok(vec![info()])
    }

    fn open(&self, index: usize) -> Result<Box<dyn Device>, DeviceError> {
        match index {
            0 => Ok(Box::new(HostDevice::new())),
            _ => Err(DeviceError::NoSuchDevice { backend: Backend::Host, index, count: 1 }),
        }
    }
}

fn info() -> DeviceInfo {
    DeviceInfo::new(Backend::Host, 0, "main memory", Kind::Host, isize::MAX as u64)
}

/// The host as a device. Each stream has a copy thread of its own.
#[derive(Clone, Debug)]
pub struct HostDevice {
    info: Arc<DeviceInfo>,
    gate: Gate,
}

/// With which device a region is registered: `info` is shared by the handles of one device, and by no other.
#[derive(Debug)]
pub(super) struct Registered {
    info: Arc<DeviceInfo>,
}

impl Registered {
    /// Whether `region` was registered with this device.
    pub(super) fn holds(&self, region: &Region) -> bool {
        region.guard().downcast_ref().is_some_and(|other: &Self| Arc::ptr_eq(&self.info, &other.info))
    }
}

impl HostDevice {
    /// The device.
    pub fn new() -> Self {
        Self::with_gate(Gate::new())
    }

    /// The device, with copies that stop while a gate is closed: for tests.
    pub fn with_gate(gate: Gate) -> Self {
        Self { info: Arc::new(info()), gate }
    }

    fn registered(&self) -> Registered {
        Registered { info: self.info.clone() }
    }
}

impl Default for HostDevice {
    fn default() -> Self {
        Self::new()
    }
}

impl Registrar for HostDevice {
    /// Only notes with whom: the copy thread reaches all memory of the process.
    fn register(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        let access = access.local_only("the host device")?;
        Ok(Region::new(slab.clone(), access, Registration::Mapped, Box::new(self.registered())))
    }
}

impl Device for HostDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn allocate_slab(&self, buffer_count: usize, buffer_size: usize) -> Result<Slab, DeviceError> {
        Ok(Slab::new(buffer_count, buffer_size)?)
    }

    fn open_stream(&self, options: &StreamOptions) -> Result<Box<dyn Stream>, DeviceError> {
        options.check(self.info.max_allocation_bytes)?;
        Ok(Box::new(HostStream::open(options, self.registered(), self.gate.clone())?))
    }

    fn build(&self, source: &KernelSource) -> Result<Kernel, DeviceError> {
        match &source.code {
            Code::Host(kernel) => Ok(Kernel::new(&source.entry, kernel.clone())),
            other => Err(DeviceError::OtherLanguage {
                backend: Backend::Host,
                language: other.language(),
                takes: "a function of this process",
            }),
        }
    }
}
