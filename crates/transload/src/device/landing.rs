//! Host memory that downloads go to.

use super::{Device, DeviceError};
use crate::memory::{Policy, Slab, Tenancy};
use crate::region::{Access, Region};
use crate::staging::OwnedReservation;

/// Registered host memory with one owner, that a device writes while it belongs to a [`Download`](super::Download): memory
/// of its own, or slots of a staging ring.
///
/// Dropped, slots are given up: the ring's consumer steps over them, and counts them.
#[derive(Debug)]
pub struct Landing {
    region: Region,
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    Own(Tenancy),
    Slots(OwnedReservation),
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
        Ok(Self { region: device.register(&slab, Access::WRITE)?, memory: Memory::Own(tenancy) })
    }

    /// Slots of a ring whose memory is registered with a device for writing: what arrives is where the ring's consumer
    /// finds it, without a copy. [`into_slots`](Landing::into_slots) gives them back, to be committed.
    ///
    /// ```
    /// use transload::device::{Device, Download, Driver, Fill, Landing, StreamOptions, host};
    /// use transload::region::{Access, Registrar};
    /// use transload::staging::PinnedStagingBuffer;
    ///
    /// let device = host::Host.open(0)?;
    /// let (producer, mut consumer) = PinnedStagingBuffer::new(4, 8)?.split();
    /// let region = device.register(producer.slab(), Access::WRITE)?;
    /// let mut stream = device.open_stream(&StreamOptions { queue_bytes: 64, in_flight: 2 })?;
    /// stream.fill(Fill { range: 0..16, word: 7 })?;
    /// let (slots, _) = producer.try_reserve_owned(2)?;
    /// stream.fetch(Download::new(0..16, Landing::over(&region, slots)?))?;
    ///
    /// while stream.in_flight() > 0 {
    ///     if let Some(done) = stream.poll() {
    ///         done.result.clone()?;
    ///         if let transload::device::Transfer::Download(download) = done.transfer {
    ///             download.into_landing().into_slots().expect("slots went in").commit();
    ///         }
    ///     }
    /// }
    /// assert_eq!(consumer.take(4)?.as_slices().0, [7, 0, 0, 0].repeat(4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotRegistered`] if the region is of other memory. The slots are given up then.
    pub fn over(region: &Region, slots: OwnedReservation) -> Result<Self, DeviceError> {
        if region.slab().same_memory(slots.ring().slab()) {
            Ok(Self { region: region.clone(), memory: Memory::Slots(slots) })
        } else {
            Err(DeviceError::NotRegistered { purpose: "writing" })
        }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match &self.memory {
            // SAFETY: the slab is initialised and stays there while `self` does (I2). It has one landing, and while a
            // device writes it that belongs to the stream, out of reach of this method (I1, I3).
            Memory::Own(own) => unsafe {
                std::slice::from_raw_parts(own.slab().as_ptr(), own.slab().len_bytes())
            },
            Memory::Slots(slots) => slots.as_slice(),
        }
    }

    /// The bytes, to be written by whoever has the landing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.memory {
            // SAFETY: as above; the landing is borrowed for writing, so no other reference to its bytes exists (I3).
            Memory::Own(own) => unsafe {
                std::slice::from_raw_parts_mut(own.slab().as_ptr(), own.slab().len_bytes())
            },
            Memory::Slots(slots) => slots.as_mut_slice(),
        }
    }

    /// The start of the memory, for back ends: valid for [`len_bytes`](Landing::len_bytes) while the landing exists. It may
    /// lie anywhere within the region's slab.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        match &self.memory {
            Memory::Own(own) => own.slab().as_ptr(),
            Memory::Slots(slots) => slots.as_ptr(),
        }
    }

    /// How long it is.
    pub fn len_bytes(&self) -> usize {
        match &self.memory {
            Memory::Own(own) => own.slab().len_bytes(),
            Memory::Slots(slots) => slots.len_bytes(),
        }
    }

    /// The region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Gives the slots back, if it has slots.
    pub fn into_slots(self) -> Option<OwnedReservation> {
        match self.memory {
            Memory::Own(_) => None,
            Memory::Slots(slots) => Some(slots),
        }
    }

    /// Keeps the memory for ever: for back ends whose device may still write it.
    pub fn quarantine(self) {
        let Self { region, memory } = self;
        // The registration too: it keeps what the device needs to reach the memory.
        region.leak();
        match memory {
            // And the right to hand the memory out: nobody else may be given it.
            Memory::Own(own) => {
                let _never_ends = std::mem::ManuallyDrop::new(own);
            }
            Memory::Slots(slots) => slots.quarantine(),
        }
    }
}
