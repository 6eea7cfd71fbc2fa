//! What a stream does within the device's own memory.

use std::ops::Range;

use super::{DeviceError, Stream};

/// Fills a part of the device queue with a word: a tail, a row of marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Offsets in the device queue, in bytes: multiples of 4.
    pub range: Range<usize>,
    /// What each 4 bytes of it become, in the device's byte order (little-endian, on all that there are).
    pub word: u32,
}

impl Fill {
    /// Refuses what every back end refuses.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Busy`], [`DeviceError::OutOfQueue`], [`DeviceError::Misaligned`].
    pub fn check(&self, stream: &dyn Stream) -> Result<(), DeviceError> {
        super::transfer::check_room(stream, &self.range)?;
        check_word(self.range.start).and_then(|()| check_word(self.range.end))
    }
}

/// Runs a kernel over the queues that are in the device queue's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// How often the kernel runs, side by side: at least once. Some back ends run it a few times more, so each looks
    /// whether it has something to do.
    pub work_items: u32,
    /// Where the queue that it takes from begins, in bytes: a multiple of 4.
    pub inbound: usize,
    /// Where the queue that it gives to begins, in bytes: a multiple of 4. The same as `inbound` if there is only one.
    pub outbound: usize,
}

impl Dispatch {
    /// Refuses what every back end refuses.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Busy`], [`DeviceError::OutOfQueue`], [`DeviceError::Misaligned`], [`DeviceError::ZeroOption`].
    pub fn check(&self, stream: &dyn Stream) -> Result<(), DeviceError> {
        if self.work_items == 0 {
            return Err(DeviceError::ZeroOption { what: "work_items" });
        }
        for offset in [self.inbound, self.outbound] {
            super::transfer::check_room(stream, &(offset..offset.saturating_add(4)))?;
            check_word(offset)?;
        }
        Ok(())
    }
}

fn check_word(offset: usize) -> Result<(), DeviceError> {
    if offset.is_multiple_of(4) { Ok(()) } else { Err(DeviceError::Misaligned { offset, multiple: 4 }) }
}
