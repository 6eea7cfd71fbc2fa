//! A slab that is registered: its pages are the device's own memory, or it is copied through other memory.

use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;

use super::context::Context;
use super::memory::Memory;
use crate::memory::Slab;
use crate::region::Region;

/// What a region is to its device.
#[derive(Debug)]
pub(super) struct Registered {
    context: Arc<Context>,
    direct: Option<Direct>,
}

/// Memory of a slab that the device reaches itself, in pieces of one length; the last may be shorter.
#[derive(Debug)]
pub(super) struct Direct {
    base: usize,
    piece_bytes: usize,
    pieces: Vec<Arc<Memory>>,
}

impl Direct {
    /// Imports the pages of a slab. Says why not in words; nothing is imported then.
    pub(super) fn import(context: &Arc<Context>, slab: &Slab) -> Result<Self, String> {
        let limits = context.physical.limits;
        let alignment = limits.import_alignment.ok_or(
            "the driver does not have VK_EXT_external_memory_host for such buffers; a slab that the device allocates is \
             reached directly",
        )?;
        let alignment =
            usize::try_from(alignment).map_err(|_| "the driver imports no memory of such an address")?;
        let most = usize::try_from(limits.allocation).unwrap_or(usize::MAX).min(context.options.piece_bytes);
        let piece_bytes = (most / alignment * alignment).max(alignment);
        let base = NonNull::new(slab.as_ptr()).ok_or("a slab is somewhere")?;
        let whole = cover(base.addr().get(), slab.len_bytes(), slab.mapped_bytes(), alignment)?;
        let mut pieces = Vec::new();
        for offset in (0..whole).step_by(piece_bytes) {
            let len_bytes = piece_bytes.min(whole - offset);
            // SAFETY: the range lies within what is mapped of the slab.
            let piece = unsafe { base.add(offset) };
            // SAFETY: address and length were aligned by `cover`; the pages stay while the region exists (I2, I4), which ends
            // this before the slab.
            pieces.push(Arc::new(unsafe { Memory::imported(context, piece, len_bytes) }?));
        }
        Ok(Self { base: base.addr().get(), piece_bytes, pieces })
    }

    /// Memory that the driver has allocated, and that is a slab.
    pub(super) fn allocated(base: *const u8, memory: Arc<Memory>) -> Self {
        Self { base: base.addr(), piece_bytes: usize::MAX, pieces: vec![memory] }
    }

    /// The parts of a range of the slab: in which buffer, from where, and how long.
    pub(super) fn cut(
        &self,
        address: usize,
        len_bytes: usize,
    ) -> impl Iterator<Item = (vk::Buffer, u64, u64)> {
        let mut offset = address - self.base;
        let end = offset + len_bytes;
        std::iter::from_fn(move || {
            (offset < end).then(|| {
                let (piece, within) = (offset / self.piece_bytes, offset % self.piece_bytes);
                let len_bytes = (self.piece_bytes - within).min(end - offset);
                offset += len_bytes;
                (self.pieces[piece].raw(), within as u64, len_bytes as u64)
            })
        })
    }
}

/// How much of a slab's mapping is to be imported so that all of the slab is.
fn cover(base: usize, len_bytes: usize, mapped_bytes: usize, alignment: usize) -> Result<usize, String> {
    if !base.is_multiple_of(alignment) {
        return Err(format!(
            "it begins at {base:#x}, and the driver imports memory that begins at a multiple of {alignment}"
        ));
    }
    match len_bytes.checked_next_multiple_of(alignment) {
        Some(whole) if whole <= mapped_bytes => Ok(whole),
        _ => Err(format!(
            "it has {len_bytes} bytes and {mapped_bytes} with the rest of its last page, and the driver imports multiples of \
             {alignment} bytes"
        )),
    }
}

impl Registered {
    pub(super) fn new(context: &Arc<Context>, direct: Option<Direct>) -> Self {
        Self { context: context.clone(), direct }
    }

    /// What was made of a region, if it was registered with this device.
    pub(super) fn of<'a>(region: &'a Region, context: &Arc<Context>) -> Option<&'a Self> {
        let registered: &Self = region.guard().downcast_ref()?;
        Arc::ptr_eq(&registered.context, context).then_some(registered)
    }

    /// The memory, if the device reaches it.
    pub(super) fn direct(&self) -> Option<&Direct> {
        self.direct.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_are_imported_and_no_more_than_is_mapped() {
        assert_eq!(cover(8192, 4096, 4096, 4096), Ok(4096));
        assert_eq!(cover(8192, 1000, 4096, 4096), Ok(4096));
        assert_eq!(cover(8192, 4097, 8192, 4096), Ok(8192));
        assert!(cover(8192, 1000, 1000, 4096).unwrap_err().contains("1000 bytes"));
        assert!(cover(8192, 5000, 8191, 4096).is_err());
        assert!(cover(4096, 4096, 4096, 65536).unwrap_err().contains("0x1000"));
        assert!(cover(0, usize::MAX, usize::MAX, 4096).is_err());
    }
}
