//! Memory of the driver that transfers go through where Metal does not take theirs as it is.

use super::buffer::Buffer;
use super::device::Shared;
use super::rules;
use crate::device::{DeviceError, Upload};

/// Lengths are multiples of this, so that one does for batches of similar sizes.
const GRAIN: usize = 64 << 10;

/// The longest pattern that a fill is copied from.
pub(super) const PATTERN: usize = GRAIN;

/// Memory that host and device reach, of one transfer.
#[derive(Debug)]
pub(super) struct Staging {
    buffer: Buffer,
    len_bytes: usize,
}

impl Staging {
    pub(super) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Where the host finds it.
    pub(super) fn base(&self) -> *mut u8 {
        self.buffer.contents().as_ptr()
    }
}

/// The memory of one stream for this: what no transfer has is kept for the next.
#[derive(Debug, Default)]
pub(super) struct Stagings {
    spare: Vec<Staging>,
}

impl Stagings {
    /// A copy of a batch, in one piece, that stands to the words of this memory as it will to those of the device queue: it
    /// begins as many bytes behind a word's beginning.
    pub(super) fn copy_of(&mut self, device: &Shared, upload: &Upload) -> Result<Staging, DeviceError> {
        let range = upload.device_range();
        let words = rules::words_around(&range);
        let staging = self.take(device, words.len())?;
        let target = staging.base().wrapping_add(range.start - words.start);
        // SAFETY: the memory was chosen for the words around the range, so there is room for the range behind what is before it;
        // it is this function's alone (I1), and the driver's own.
        unsafe { upload.copy_to(target) };
        Ok(staging)
    }

    /// `len_bytes` bytes of a repeated word: whole words, [`PATTERN`] at most.
    pub(super) fn pattern(
        &mut self,
        device: &Shared,
        word: u32,
        len_bytes: usize,
    ) -> Result<Staging, DeviceError> {
        let staging = self.take(device, len_bytes)?;
        let bytes: Vec<u8> = word.to_le_bytes().into_iter().cycle().take(len_bytes).collect();
        // SAFETY: the memory was chosen for as many bytes, is this function's alone (I1), and elsewhere than the vector's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), staging.base(), len_bytes) };
        Ok(staging)
    }

    /// At least `len_bytes` bytes, at least one. What is in them is of no meaning.
    pub(super) fn take(&mut self, device: &Shared, len_bytes: usize) -> Result<Staging, DeviceError> {
        if let Some(fits) = self.spare.iter().position(|spare| spare.len_bytes >= len_bytes) {
            return Ok(self.spare.swap_remove(fits));
        }
        // One that is too short makes room, so that there are never more than transfers.
        drop(self.spare.pop());
        let len_bytes = len_bytes.checked_next_multiple_of(GRAIN).unwrap_or(len_bytes);
        Ok(Staging { buffer: Buffer::shared(device.native(), len_bytes)?, len_bytes })
    }

    /// Takes the memory of a transfer back that is over.
    pub(super) fn give_back(&mut self, staging: Option<Staging>) {
        self.spare.extend(staging);
    }
}
