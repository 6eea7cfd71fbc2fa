//! What a region keeps of its slab's registration.

use std::ptr::NonNull;
use std::sync::Arc;

use super::buffer::Buffer;
use super::device::Shared;
use super::rules;
use crate::memory::Slab;
use crate::region::{Region, Registration};

/// The guard of a region: with which device the slab is registered, and the buffer that was made over its pages.
#[derive(Debug)]
pub(super) struct Imported {
    /// Nothing where Metal does not take the memory as it is. Ends before the slab does (I2): the region drops its guard
    /// first.
    buffer: Option<Buffer>,
    /// The address of the slab.
    base: usize,
    device: Arc<Shared>,
}

impl Imported {
    /// Registers a slab: never fails, for what cannot be imported is staged.
    pub(super) fn new(device: Arc<Shared>, slab: &Slab) -> (Self, Registration) {
        let (buffer, registration) = match import(&device, slab) {
            Ok(buffer) if device.is_unified() => (Some(buffer), Registration::Mapped),
            Ok(buffer) => (Some(buffer), Registration::Pinned),
            Err(reason) => (None, Registration::Staged { reason }),
        };
        (Self { buffer, base: slab.as_ptr().addr(), device }, registration)
    }

    /// The registration of a region that was registered with this device.
    pub(super) fn of<'a>(region: &'a Region, device: &Shared) -> Option<&'a Self> {
        let imported: &Self = region.guard().downcast_ref()?;
        std::ptr::eq(&raw const *imported.device, device).then_some(imported)
    }

    /// The buffer, and where in it the pieces of memory are, if all are of whole words.
    pub(super) fn direct<P: Iterator<Item = (*const u8, usize)> + Clone>(
        &self,
        pieces: P,
    ) -> Option<(&Buffer, impl Iterator<Item = (usize, usize)> + Clone + use<P>)> {
        let base = self.base;
        let places = pieces.map(move |(piece, len_bytes)| (piece.addr() - base, len_bytes));
        let is_whole = |(offset, len_bytes)| rules::is_of_words(&(offset..offset + len_bytes));
        let buffer = self.buffer.as_ref()?;
        places.clone().all(is_whole).then_some((buffer, places))
    }
}

/// A buffer over the pages of the slab, or why there is none.
fn import(device: &Shared, slab: &Slab) -> Result<Buffer, String> {
    let (address, max_bytes) = (slab.as_ptr().addr(), device.info().max_allocation_bytes);
    let page_bytes = rustix::param::page_size();
    let len_bytes = rules::whole_pages(address, slab.mapped_bytes(), page_bytes, max_bytes)?;
    let refused = || {
        format!(
            "newBufferWithBytesNoCopy:length:options:deallocator: gave nil for {len_bytes} bytes at {address:#x}"
        )
    };
    let base = NonNull::new(slab.as_ptr()).ok_or_else(refused)?;
    // SAFETY: the pages are whole (just checked), and the slab's: all of `mapped_bytes` are mapped, readable and writable, from
    // one end to the other, while a handle on it exists, and they stay where they are (I4). The region holds one, and each
    // transfer holds the region until its commands have ended, or for ever (I2).
    unsafe { Buffer::over(device.native(), base, len_bytes) }.ok_or_else(refused)
}
