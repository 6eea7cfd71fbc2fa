//! The host memory that all sides send out of.

use anyhow::Result;
use transload::device::Device;
use transload::memory::Slab;

use super::shape::{SOURCE_BYTES, Shape};
use crate::message::{stamp_whole, tag};

/// Host memory full of messages, each of which says in every byte which slot it stands in.
///
/// It is written once, here. After that it is only read: those who publish its slots again do not touch their bytes.
#[derive(Clone, Debug)]
pub struct Source {
    slab: Slab,
    kind: &'static str,
}

impl Source {
    /// Memory of the library's: pages that are there, and locked if that is allowed.
    ///
    /// # Errors
    ///
    /// When there is not so much memory.
    pub fn plain(shape: &Shape) -> Result<Self> {
        Ok(Self::filled(Slab::new(shape.capacity(), shape.message_bytes)?, "plain memory", shape))
    }

    /// Memory that the device's driver allocates: for OpenCL `CL_MEM_ALLOC_HOST_PTR`, mapped.
    ///
    /// # Errors
    ///
    /// When the device has no such memory.
    pub fn of_driver(device: &dyn Device, shape: &Shape) -> Result<Self> {
        let slab = device.allocate_slab(shape.capacity(), shape.message_bytes)?;
        Ok(Self::filled(slab, "driver's memory", shape))
    }

    fn filled(slab: Slab, kind: &'static str, shape: &Shape) -> Self {
        // SAFETY: the slab is initialised, as long, and nobody else has it yet.
        let bytes = unsafe { std::slice::from_raw_parts_mut(slab.as_ptr(), SOURCE_BYTES) };
        for (slot, message) in (0..).zip(bytes.chunks_exact_mut(shape.message_bytes)) {
            stamp_whole(message, tag(0, slot));
        }
        Self { slab, kind }
    }

    /// The memory, to make a ring over it.
    pub(super) fn slab(&self) -> &Slab {
        &self.slab
    }

    /// What kind of memory it is.
    pub(super) fn kind(&self) -> &'static str {
        self.kind
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the slab is initialised, stays there while `self` does, and is written by nobody (see the type).
        unsafe { std::slice::from_raw_parts(self.slab.as_ptr(), SOURCE_BYTES) }
    }
}
