//! Host memory that downloads go to.

use super::{Device, DeviceError};
use crate::memory::{Policy, Slab, Tenancy};
use crate::region::{Access, Region};

/// Registered host memory with one owner, that a device writes while it belongs to a [`Download`](super::Download).
#[derive(Debug)]
pub struct Landing {
    region: Region,
    tenancy: Tenancy,
}

impl Landing {
    /// Memory of `len_bytes` bytes, registered with a device for writing.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if there is no memory or the device refuses it.
    pub fn new(device: &dyn Device, len_bytes: usize) -> Result<Self, DeviceError> {
        // Not locked here: a device that needs that pins what is registered with it.
        let slab = Slab::builder(1, len_bytes).lock(Policy::Never).build()?;
        let tenancy = slab.occupy()?;
        Ok(Self { region: device.register(&slab, Access::WRITE)?, tenancy })
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        let slab = self.tenancy.slab();
        // SAFETY: the slab is initialised and stays there while `self` does (I2). It has one landing, and while a
        // device writes it that belongs to the stream, out of reach of this method (I1, I3).
        unsafe { std::slice::from_raw_parts(slab.as_ptr(), slab.len_bytes()) }
    }

    /// The bytes, to be written by whoever has the landing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let slab = self.tenancy.slab();
        // SAFETY: as above; the landing is borrowed for writing, so no other reference to its bytes exists (I3).
        unsafe { std::slice::from_raw_parts_mut(slab.as_ptr(), slab.len_bytes()) }
    }

    /// The start of the memory, for back ends: valid for [`len_bytes`](Landing::len_bytes) while the landing exists.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.tenancy.slab().as_ptr()
    }

    /// How long it is.
    pub fn len_bytes(&self) -> usize {
        self.tenancy.slab().len_bytes()
    }

    /// The region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Keeps the memory for ever: for back ends whose device may still write it.
    pub fn quarantine(self) {
        let Self { region, tenancy } = self;
        // The registration too: it keeps what the device needs to reach the memory.
        region.leak();
        // And the right to hand the memory out: nobody else may be given it.
        let _never_ends = std::mem::ManuallyDrop::new(tenancy);
    }
}
