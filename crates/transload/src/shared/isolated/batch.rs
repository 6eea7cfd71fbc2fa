//! Messages of one lane that were taken and are not done.

use std::fmt;
use std::sync::Arc;

use transload_core::SpscRun;

use super::super::member_error::OutOfBuffer;
use super::lane::Lane;

/// Messages of one lane that follow each other, in place.
///
/// Several can be alive at once, also of one lane, and be dropped in any order on any thread. Dropping one is saying that
/// its messages are done: when the older ones of its lane are done too, the producer may write there again.
///
/// The producer can write there before as well, if it does not keep to the rules. So no references to the bytes are given:
/// they are read by copies, and a device that reads them reads what is there at that moment.
#[must_use = "dropping it says that its messages are done"]
pub struct IsolatedBatch {
    lane: Arc<Lane>,
    number: u64,
    run: SpscRun,
    batch: u64,
}

/// A message of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IsolatedMessage {
    /// Its slot, and so its place in a registered lane: `slot * slot_bytes`.
    pub slot: usize,
    /// How long it is, at most a slot.
    pub len_bytes: usize,
}

impl IsolatedBatch {
    pub(super) fn new(lane: Arc<Lane>, number: u64, run: SpscRun, batch: u64) -> Self {
        Self { lane, number, run, batch }
    }

    /// The number of the lane.
    pub fn lane(&self) -> u64 {
        self.number
    }

    /// How many messages, at least one.
    pub fn messages(&self) -> usize {
        self.run.count
    }

    /// How many messages of this lane came before the first.
    pub fn first_position(&self) -> u64 {
        self.run.first
    }

    /// A message, counted from 0.
    pub fn message(&self, nth: usize) -> Option<IsolatedMessage> {
        let position = (nth < self.run.count).then(|| self.run.first.wrapping_add(nth as u64))?;
        let (slot, len_bytes) = self.lane.message(position);
        Some(IsolatedMessage { slot, len_bytes: len_bytes as usize })
    }

    /// The messages in order.
    pub fn iter(&self) -> impl Iterator<Item = IsolatedMessage> {
        (0..self.messages()).filter_map(|nth| self.message(nth))
    }

    /// Copies the beginning of the slot of a message out.
    ///
    /// # Errors
    ///
    /// [`OutOfBuffer`] if there is no such message, or more is asked for than a slot has.
    pub fn read(&self, nth: usize, bytes: &mut [u8]) -> Result<(), OutOfBuffer> {
        let slot = self.message(nth).map(|message| message.slot);
        match slot {
            Some(slot) if bytes.len() <= self.lane.slot_bytes() && self.lane.check_process().is_ok() => {
                self.lane.memory().read(slot, bytes);
                Ok(())
            }
            _ => {
                let available = slot.map_or(0, |_| self.lane.slot_bytes());
                Err(OutOfBuffer { offset: 0, len_bytes: bytes.len(), available })
            }
        }
    }

    /// A copy of a message; nothing if there is no such message.
    pub fn to_vec(&self, nth: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.message(nth)?.len_bytes];
        self.read(nth, &mut bytes).ok().map(|()| bytes)
    }

    /// The address of a message in this process, valid for reading a slot's length while the batch exists: for devices. The
    /// producer may change what is there.
    pub fn address(&self, nth: usize) -> Option<*const u8> {
        self.message(nth).map(|message| self.lane.memory().address(message.slot))
    }
}

impl Drop for IsolatedBatch {
    fn drop(&mut self) {
        if self.lane.check_process().is_ok() {
            self.lane.finish(self.batch);
        }
    }
}

impl fmt::Debug for IsolatedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IsolatedBatch")
            .field("lane", &self.number)
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}
