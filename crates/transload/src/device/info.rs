//! What is known of a device.

use super::Backend;

/// What a device is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The machine's own processor and memory.
    Host,
    /// A graphics processor.
    Gpu,
    /// A processor behind a driver that could also serve a GPU.
    Cpu,
    /// Anything else.
    Accelerator,
}

/// What is known of a device before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Its back end.
    pub backend: Backend,
    /// Which of the back end's devices, from 0.
    pub index: usize,
    /// What its driver calls it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The most bytes of one allocation, and so of a stream's queue.
    pub max_allocation_bytes: u64,
}

impl DeviceInfo {
    /// What a back end says of a device.
    pub fn new(
        backend: Backend,
        index: usize,
        name: impl Into<String>,
        kind: Kind,
        max_allocation_bytes: u64,
    ) -> Self {
        Self { backend, index, name: name.into(), kind, max_allocation_bytes }
    }
}
