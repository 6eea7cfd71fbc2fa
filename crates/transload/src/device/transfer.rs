//! What a stream carries, and how it hands it back.

use std::ops::Range;

use super::{CopyError, DeviceError, Dispatch, Fill, Landing, Launch, Payload, Pieces, Stream};
use crate::region::Region;

/// The number of a transfer: each stream counts its own from 0, in the order of submission.
pub type Ticket = u64;

/// A batch on its way into the device queue.
#[derive(Debug)]
pub struct Upload {
    region: Region,
    payload: Payload,
    to: usize,
}

impl Upload {
    /// The batch, the region of its slab, and the offset in the device queue that its first byte goes to.
    pub fn new(region: &Region, payload: impl Into<Payload>, to: usize) -> Self {
        Self { region: region.clone(), payload: payload.into(), to }
    }

    /// The batch.
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// Gives the batch back.
    pub fn into_payload(self) -> Payload {
        self.payload
    }

    /// Keeps batch and registration for ever: for back ends whose device may still read the memory.
    pub fn quarantine(self) {
        self.region.leak();
        self.payload.quarantine();
    }

    /// How many messages it has.
    pub fn messages(&self) -> usize {
        self.payload.messages()
    }

    /// The region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Where it lands: a range of offsets in the device queue.
    pub fn device_range(&self) -> Range<usize> {
        self.to..self.to.saturating_add(self.payload.bytes())
    }

    /// Refuses what every back end refuses; `holds` says whether the region is of the stream's own device. For back ends,
    /// to be called before the device is given the memory: unless what is in flight
    /// [dies with the process](Stream::dies_with_process), slots that other processes share are marked as lent here.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Busy`], [`DeviceError::OutOfQueue`], [`DeviceError::NotRegistered`], [`DeviceError::Spoilt`].
    pub fn check(&self, stream: &dyn Stream, holds: bool) -> Result<(), DeviceError> {
        check_room(stream, &self.device_range())?;
        let same_memory = self.region.slab().same_memory(self.payload.slab());
        if !same_memory || !self.region.access().reads() || !holds {
            return Err(DeviceError::NotRegistered { purpose: "reading" });
        }
        if stream.dies_with_process() { Ok(()) } else { self.payload.lend() }
    }

    /// The address and length of each piece of memory that it is to be copied from, in order, for back ends. Valid while
    /// the upload exists; together they are as long as [`device_range`](Upload::device_range).
    pub fn pieces(&self) -> Pieces<'_> {
        self.payload.pieces()
    }
}

impl Upload {
    /// Copies the messages to one place, one behind the other.
    ///
    /// # Safety
    ///
    /// `target` is as long as [`device_range`](Upload::device_range), nobody else's while this runs, and no part of the
    /// upload's own memory.
    pub(super) unsafe fn copy_to(&self, mut target: *mut u8) {
        for (source, len_bytes) in self.pieces() {
            // SAFETY: the pieces together are as long as the range, and so as the target, which is the caller's alone and
            // elsewhere. They are the upload's own (I1), initialised, kept there by it (I2); bytes that processes share are
            // copied only (I7).
            unsafe { std::ptr::copy_nonoverlapping(source, target, len_bytes) };
            target = target.wrapping_add(len_bytes);
        }
    }
}

/// A range of the device queue on its way into host memory.
#[derive(Debug)]
pub struct Download {
    from: Range<usize>,
    landing: Landing,
}

impl Download {
    /// The range of offsets in the device queue, and the memory that it goes to.
    pub fn new(from: Range<usize>, landing: Landing) -> Self {
        Self { from, landing }
    }

    /// The range of offsets in the device queue.
    pub fn device_range(&self) -> Range<usize> {
        self.from.clone()
    }

    /// The memory.
    pub fn landing(&self) -> &Landing {
        &self.landing
    }

    /// As [`Upload::check`].
    ///
    /// # Errors
    ///
    /// [`DeviceError::Busy`], [`DeviceError::OutOfQueue`], [`DeviceError::LandingTooSmall`],
    /// [`DeviceError::NotRegistered`].
    pub fn check(&self, stream: &dyn Stream, holds: bool) -> Result<(), DeviceError> {
        check_room(stream, &self.from)?;
        let (needed, available) = (self.from.len(), self.landing.len_bytes());
        if needed > available {
            return Err(DeviceError::LandingTooSmall { needed, available });
        }
        if self.landing.region().access().writes() && holds {
            Ok(())
        } else {
            Err(DeviceError::NotRegistered { purpose: "writing" })
        }
    }

    /// The memory, for back ends.
    pub fn landing_mut(&mut self) -> &mut Landing {
        &mut self.landing
    }

    /// Gives the memory back.
    pub fn into_landing(self) -> Landing {
        self.landing
    }

    /// Keeps memory and registration for ever: for back ends whose device may still write it.
    pub fn quarantine(self) {
        self.landing.quarantine();
    }
}

/// Whether a stream has room for one more transfer, of this range of its queue.
pub(super) fn check_room(stream: &dyn Stream, range: &Range<usize>) -> Result<(), DeviceError> {
    let limit = stream.in_flight_limit();
    if stream.in_flight() >= limit {
        return Err(DeviceError::Busy { limit });
    }
    let (len_bytes, available) = (range.len(), stream.queue_bytes());
    if range.end > available || range.start > range.end {
        return Err(DeviceError::OutOfQueue { offset: range.start, len_bytes, available });
    }
    Ok(())
}

/// What a completion hands back.
#[derive(Debug)]
#[non_exhaustive]
pub enum Transfer {
    /// A batch; dropping it gives the slots back to the producers.
    Upload(Upload),
    /// A range of the device queue, now in the landing if the copy succeeded.
    Download(Download),
    /// A batch that went through a kernel, with its outputs if that succeeded.
    Launch(Launch),
    /// A part of the device queue was filled.
    Fill(Fill),
    /// A kernel ran over the queues on the device.
    Dispatch(Dispatch),
    /// The device is lost and may still touch the memory: it is never used again.
    Quarantined {
        /// How many messages an upload or a launch had; 0 for anything else.
        messages: usize,
    },
}

/// A transfer that has ended.
#[derive(Debug)]
#[must_use = "the transfer inside may have failed"]
pub struct Completion {
    /// Its number.
    pub ticket: Ticket,
    /// The transfer.
    pub transfer: Transfer,
    /// How it ended.
    pub result: Result<(), CopyError>,
}

impl Transfer {
    /// Keeps what it holds for ever, and says what a completion hands back in its place: for back ends whose device is
    /// lost.
    #[must_use]
    pub fn quarantine(self) -> Self {
        let messages = match self {
            Self::Upload(upload) => {
                let messages = upload.messages();
                upload.quarantine();
                messages
            }
            Self::Download(download) => {
                download.quarantine();
                0
            }
            Self::Launch(launch) => {
                let messages = launch.upload().messages();
                launch.quarantine();
                messages
            }
            Self::Fill(_) | Self::Dispatch(_) => 0,
            Self::Quarantined { messages } => messages,
        };
        Self::Quarantined { messages }
    }

    /// Where its bytes come back to, and how many they are, if any do.
    #[cfg(any(feature = "cuda", feature = "vulkan"))]
    pub(super) fn arrival(&mut self) -> Option<(&mut Landing, usize)> {
        match self {
            Self::Download(download) => {
                let len_bytes = download.device_range().len();
                Some((download.landing_mut(), len_bytes))
            }
            Self::Launch(launch) => {
                let len_bytes = launch.layout().len_bytes()?;
                Some((launch.landing_mut(), len_bytes))
            }
            Self::Upload(_) | Self::Fill(_) | Self::Dispatch(_) | Self::Quarantined { .. } => None,
        }
    }
}

impl Completion {
    /// The upload that succeeded.
    ///
    /// # Panics
    ///
    /// If it failed, or was a download: for examples and tests.
    pub fn expect_upload(self) -> Upload {
        match (self.result, self.transfer) {
            (Ok(()), Transfer::Upload(upload)) => upload,
            (result, transfer) => panic!("not an upload that succeeded: {result:?} {transfer:?}"),
        }
    }

    /// The download that succeeded.
    ///
    /// # Panics
    ///
    /// If it failed, or was an upload: for examples and tests.
    pub fn expect_download(self) -> Download {
        match (self.result, self.transfer) {
            (Ok(()), Transfer::Download(download)) => download,
            (result, transfer) => panic!("not a download that succeeded: {result:?} {transfer:?}"),
        }
    }
}
