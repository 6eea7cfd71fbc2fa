//! Where the copies of a stream go from and to: the memory of a batch or a landing itself, if it is pinned, or pinned memory of
//! the stream.

use cudarc::driver::sys::CUdeviceptr;

use super::device::Registered;
use super::in_flight::{Enqueue, InFlight};
use super::pinned::Allocation;
use super::stream::CudaStream;
use crate::device::{DeviceError, Landing, Upload};

impl CudaStream {
    /// Memory that an upload is gathered in, if the driver is to read that and not the upload's own.
    pub(super) fn gather(&mut self, upload: &Upload) -> Result<Option<Allocation>, DeviceError> {
        let is_pinned = Registered::of(upload.region()).is_some_and(|region| region.hold().is_some());
        self.gatherer.gather(self.device.context(), upload, !is_pinned)
    }

    /// Puts an upload into the stream, from where it was gathered if it was.
    pub(super) fn enqueue_upload(
        &self,
        work: &mut Enqueue<'_>,
        upload: &Upload,
        gathered: Option<&Allocation>,
    ) {
        let range = upload.device_range();
        let mut to = self.memory.pointer() + range.start as u64;
        if let Some(memory) = gathered {
            // SAFETY: the range lies within the device queue (checked by `Upload::check`). The memory is pinned, has all of
            // the bytes, is written by nobody, and stays with the transfer until that has ended (I1, I2).
            unsafe { work.upload(memory.base().as_ptr(), range.len(), to) };
            return;
        }
        // What is not pinned was gathered.
        let Some(hold) = Registered::of(upload.region()).and_then(Registered::hold) else { return };
        for (source, len_bytes) in upload.pieces().flat_map(|(source, len_bytes)| hold.cut(source, len_bytes))
        {
            // SAFETY: as above. The source is a piece of a batch: initialised, written by nobody (I1, I3) but processes that
            // lie (I7), pinned by its region, and with the transfer, in flight or in quarantine, until that has ended (I2).
            unsafe { work.upload(source, len_bytes, to) };
            to += len_bytes as u64;
        }
    }

    /// Memory that a landing is reached through, if the driver is to write that and not the landing itself.
    pub(super) fn through(
        &mut self,
        landing: &Landing,
        len_bytes: usize,
    ) -> Result<Option<Allocation>, DeviceError> {
        if Registered::of(landing.region()).is_some_and(|region| region.hold().is_some()) || len_bytes == 0 {
            return Ok(None);
        }
        self.gatherer.landing(self.device.context(), len_bytes).map(Some)
    }

    /// Puts a copy into a landing into the stream: into what it is reached through, if there is that.
    pub(super) fn enqueue_download(
        work: &mut Enqueue<'_>,
        from: CUdeviceptr,
        landing: &mut Landing,
        len_bytes: usize,
        through: Option<&Allocation>,
    ) {
        let target = landing.as_mut_ptr();
        let hold = Registered::of(landing.region()).and_then(Registered::hold);
        match (through, hold) {
            // SAFETY: the memory is long enough, pinned, and the transfer's alone until that has ended (I1, I2).
            (Some(through), _) => unsafe { work.download(from, through.base().as_ptr(), len_bytes, None) },
            // SAFETY: the landing is long enough (checked before), pinned, and has one owner (I1): the transfer, which keeps
            // it, out of reach of everybody, until that has ended (I2, I3).
            (None, Some(_)) if len_bytes > 0 => unsafe { work.download(from, target, len_bytes, hold) },
            (None, _) => {}
        }
    }
}

/// Brings what has come back through pinned memory of the stream to where it was to go.
pub(super) fn land(transfer: &mut InFlight) {
    let Some(through) = &transfer.landing else { return };
    let Some((target, len_bytes)) = transfer.transfer.arrival() else { return };
    // SAFETY: the memory has that many bytes, the driver has written them, and the transfer is over, so it is this one's
    // alone (I1).
    let bytes = unsafe { std::slice::from_raw_parts(through.base().as_ptr(), len_bytes) };
    target.as_mut_slice()[..len_bytes].copy_from_slice(bytes);
}
