//! Where the copies of a stream go from and to: the memory of a batch or a landing itself, if the device reaches that, or
//! memory of the stream.

use std::fmt;

use ash::vk;

use super::commands::Recording;
use super::memory::Memory;
use super::registered::{Direct, Registered};
use super::stream::VulkanStream;
use crate::device::{DeviceError, Landing, Upload};
use crate::region::Region;

impl VulkanStream {
    /// Whether a region was registered with the stream's own device.
    pub(super) fn holds(&self, region: &Region) -> bool {
        Registered::of(region, &self.context).is_some()
    }

    pub(super) fn direct<'a>(&self, region: &'a Region) -> Option<&'a Direct> {
        Registered::of(region, &self.context)?.direct()
    }

    /// Memory with the bytes of an upload, if the device is to read that and not the upload's own.
    pub(super) fn source_of(&mut self, upload: &Upload) -> Result<Option<Memory>, DeviceError> {
        match self.direct(upload.region()) {
            Some(_) => Ok(None),
            None => self.staging.gather(&self.context, upload).map(Some),
        }
    }

    /// Memory for what comes back, if the device is to write that and not the landing itself.
    pub(super) fn landing_for(
        &mut self,
        landing: &Landing,
        len_bytes: usize,
    ) -> Result<Option<Memory>, DeviceError> {
        match self.direct(landing.region()) {
            Some(_) => Ok(None),
            None => self.staging.take(&self.context, len_bytes).map(Some),
        }
    }

    /// Records the copy of a batch into the device queue: from its own memory, however many pieces it has, or from where it
    /// was gathered.
    pub(super) fn record_upload(
        &mut self,
        recording: &Recording<'_>,
        upload: &Upload,
        gathered: Option<&Memory>,
    ) {
        let range = upload.device_range();
        let (target, mut to) = (self.memory.raw(), range.start as u64);
        if let Some(memory) = gathered {
            let whole = vk::BufferCopy { src_offset: 0, dst_offset: to, size: range.len() as u64 };
            // SAFETY: the range lies within the device queue (checked by `Upload::check`). The memory has all of the bytes, is
            // written by nobody, and stays with the transfer until that has ended (I1, I2).
            unsafe { recording.copy(memory.raw(), target, &[whole]) };
            return;
        }
        // What the device does not reach was gathered.
        let Some(direct) = self.direct(upload.region()) else { return };
        let pieces = upload.pieces().flat_map(|(piece, len_bytes)| direct.cut(piece.addr(), len_bytes));
        let parts = pieces.map(|(buffer, from, size)| {
            let part = vk::BufferCopy { src_offset: from, dst_offset: to, size };
            to += size;
            (buffer, part)
        });
        self.parts.by_buffer(parts, |source, parts| {
            // SAFETY: as above. The parts are pieces of a batch: initialised, written by nobody (I1, I3) but processes that lie
            // (I7), imported by its region, and with the transfer, in flight or in quarantine, until that has ended (I2). One
            // follows the other in the queue.
            unsafe { recording.copy(source, target, parts) };
        });
    }

    /// Records the copy of so many bytes, at least one, from a buffer into a landing, or into what it is reached through.
    pub(super) fn record_download(
        &mut self,
        recording: &Recording<'_>,
        (source, mut from): (vk::Buffer, u64),
        landing: &mut Landing,
        len_bytes: usize,
        through: Option<&Memory>,
    ) {
        if let Some(memory) = through {
            let whole = vk::BufferCopy { src_offset: from, dst_offset: 0, size: len_bytes as u64 };
            // SAFETY: the range is within the source. The memory is long enough, and the transfer's alone until that has
            // ended (I1, I2).
            unsafe { recording.copy(source, memory.raw(), &[whole]) };
            return;
        }
        let target = landing.as_mut_ptr().addr();
        let Some(direct) = self.direct(landing.region()) else { return };
        let parts = direct.cut(target, len_bytes).map(|(buffer, to, size)| {
            let part = vk::BufferCopy { src_offset: from, dst_offset: to, size };
            from += size;
            (buffer, part)
        });
        self.parts.by_buffer(parts, |target, parts| {
            // SAFETY: as above. The landing is long enough (checked before), imported by its region, and has one owner (I1):
            // the transfer, which keeps it, out of reach of everybody, until that has ended (I2, I3).
            unsafe { recording.copy(source, target, parts) };
        });
    }
}

/// The parts of a copy that are told in one call: room that is kept, so that no transfer allocates.
#[derive(Default)]
pub(super) struct Parts(Vec<vk::BufferCopy>);

impl Parts {
    /// Hands parts on, those that are of one buffer together.
    fn by_buffer(
        &mut self,
        parts: impl Iterator<Item = (vk::Buffer, vk::BufferCopy)>,
        mut copy: impl FnMut(vk::Buffer, &[vk::BufferCopy]),
    ) {
        self.0.clear();
        let mut current = vk::Buffer::null();
        for (buffer, part) in parts {
            if buffer != current && !self.0.is_empty() {
                copy(current, &self.0);
                self.0.clear();
            }
            current = buffer;
            self.0.push(part);
        }
        if !self.0.is_empty() {
            copy(current, &self.0);
        }
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parts").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use ash::vk::Handle;

    use super::*;

    #[test]
    fn parts_of_one_buffer_go_together() {
        let of = |buffer, size| (vk::Buffer::from_raw(buffer), vk::BufferCopy { size, ..Default::default() });
        let calls = |parts: &[(vk::Buffer, vk::BufferCopy)]| {
            let mut calls = Vec::new();
            Parts::default().by_buffer(parts.iter().copied(), |buffer, parts| {
                calls.push((buffer.as_raw(), parts.iter().map(|part| part.size).collect::<Vec<_>>()));
            });
            calls
        };
        assert_eq!(calls(&[]), []);
        assert_eq!(calls(&[of(7, 1), of(7, 2)]), [(7, vec![1, 2])]);
        assert_eq!(
            calls(&[of(7, 1), of(8, 2), of(8, 3), of(7, 4)]),
            [(7, vec![1]), (8, vec![2, 3]), (7, vec![4])]
        );
    }
}
