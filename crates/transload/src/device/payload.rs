//! What an upload carries.

use std::time::Duration;

use super::DeviceError;
use crate::memory::Slab;
#[cfg(target_os = "linux")]
use crate::shared::SharedBatch;
use crate::staging::Batch;

/// The messages of an upload, in place. Dropping it gives their slots back to the producers.
#[derive(Debug)]
#[must_use = "dropping it gives the slots back to the producers"]
#[non_exhaustive]
pub enum Payload {
    /// Messages of a staging ring: they lie behind each other, but for the wrap.
    Staged(Batch),
    /// Messages of a ring that processes share: each is a whole buffer, wherever that is in the region.
    #[cfg(target_os = "linux")]
    Shared(SharedBatch),
}

impl Payload {
    /// How many messages, at least one.
    pub fn messages(&self) -> usize {
        match self {
            Self::Staged(batch) => batch.messages(),
            #[cfg(target_os = "linux")]
            Self::Shared(batch) => batch.messages(),
        }
    }

    /// Bytes in each.
    pub fn message_size(&self) -> usize {
        match self {
            Self::Staged(batch) => batch.message_size(),
            #[cfg(target_os = "linux")]
            Self::Shared(batch) => batch.region().buffer_size(),
        }
    }

    /// How many bytes they have together.
    pub fn bytes(&self) -> usize {
        self.messages() * self.message_size()
    }

    /// The position of the first message in its ring: it grows from batch to batch.
    pub fn first_position(&self) -> u64 {
        match self {
            Self::Staged(batch) => batch.first_position(),
            #[cfg(target_os = "linux")]
            Self::Shared(batch) => batch.first_position(),
        }
    }

    /// How long ago the sampled messages were published; none unless their ring samples.
    pub fn sampled_ages(&self) -> impl Iterator<Item = Duration> {
        let staged = match self {
            Self::Staged(batch) => Some(batch),
            #[cfg(target_os = "linux")]
            Self::Shared(_) => None,
        };
        staged.into_iter().flat_map(Batch::sampled_ages)
    }

    /// Where the bytes are, for back ends.
    ///
    /// ```
    /// use transload::device::Payload;
    /// use transload::staging::PinnedStagingBuffer;
    ///
    /// let (producer, mut consumer) = PinnedStagingBuffer::new(4, 8)?.split();
    /// producer.try_enqueue_batch(&[7; 24])?;
    /// let payload = Payload::from(consumer.take(64)?);
    /// assert_eq!(payload.pieces().map(|(_, len_bytes)| len_bytes).collect::<Vec<_>>(), [24]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces { payload: self, next: 0 }
    }

    /// The bytes, if they lie in one piece and nobody else writes them: for back ends that read them in place.
    pub fn private_piece(&self) -> Option<&[u8]> {
        match self {
            Self::Staged(batch) => {
                let (slots, behind_wrap) = batch.as_slices();
                behind_wrap.is_empty().then_some(slots)
            }
            #[cfg(target_os = "linux")]
            Self::Shared(_) => None,
        }
    }

    /// Never uses the slots again, because a device may still read them.
    pub fn quarantine(self) {
        match self {
            Self::Staged(batch) => batch.quarantine(),
            #[cfg(target_os = "linux")]
            Self::Shared(batch) => batch.quarantine(),
        }
    }

    /// Gives the slots back, also where dropping the payload puts its messages back into the ring.
    pub(crate) fn done(self) {
        match self {
            Self::Staged(batch) => drop(batch),
            #[cfg(target_os = "linux")]
            Self::Shared(batch) => batch.done(),
        }
    }

    /// Notes, where other processes see it, that a device may read the slots from now on, whatever becomes of this one.
    pub(super) fn lend(&self) -> Result<(), DeviceError> {
        match self {
            Self::Staged(_) => Ok(()),
            #[cfg(target_os = "linux")]
            Self::Shared(batch) => batch.lend(true).map_err(DeviceError::Spoilt),
        }
    }

    /// Notes that no device reads the slots any more.
    pub(crate) fn take_back(&self) {
        match self {
            Self::Staged(_) => {}
            // Of spoilt memory nothing is worth noting; whoever uses it next is told.
            #[cfg(target_os = "linux")]
            Self::Shared(batch) => drop(batch.lend(false)),
        }
    }

    /// The memory that the slots are part of.
    pub(super) fn slab(&self) -> &Slab {
        match self {
            Self::Staged(batch) => batch.ring().slab(),
            #[cfg(target_os = "linux")]
            Self::Shared(batch) => batch.region().slab(),
        }
    }

    /// The run of messages from this one on that lie behind each other: where it begins, and how many they are.
    fn run(&self, first: usize) -> (*const u8, usize) {
        match self {
            Self::Staged(batch) => {
                let (before_wrap, behind_wrap) = batch.as_slices();
                let offset = first * batch.message_size();
                let rest = match offset.checked_sub(before_wrap.len()) {
                    None => &before_wrap[offset..],
                    Some(offset) => &behind_wrap[offset..],
                };
                (rest.as_ptr(), rest.len() / batch.message_size())
            }
            #[cfg(target_os = "linux")]
            Self::Shared(batch) => {
                let addresses = (first..batch.messages()).filter_map(|nth| batch.message(nth));
                let mut addresses = addresses.map(|message| batch.address(&message).cast_const());
                let start = addresses.next().unwrap_or(std::ptr::dangling());
                let size = batch.region().buffer_size();
                let behind = (1..).map(|nth| start.wrapping_add(nth * size));
                (start, 1 + addresses.zip(behind).take_while(|(address, next)| address == next).count())
            }
        }
    }
}

impl From<Batch> for Payload {
    fn from(batch: Batch) -> Self {
        Self::Staged(batch)
    }
}

#[cfg(target_os = "linux")]
impl From<SharedBatch> for Payload {
    fn from(batch: SharedBatch) -> Self {
        Self::Shared(batch)
    }
}

/// The address and length of each piece of memory that a payload lies in, in the order of the messages: from
/// [`Payload::pieces`]. Valid while the payload exists. No piece is empty, and none begins where the one before it ends.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    payload: &'a Payload,
    /// The message that the next piece begins with.
    next: usize,
}

impl Iterator for Pieces<'_> {
    type Item = (*const u8, usize);

    fn next(&mut self) -> Option<(*const u8, usize)> {
        if self.next >= self.payload.messages() {
            return None;
        }
        let (start, messages) = self.payload.run(self.next);
        self.next += messages;
        Some((start, messages * self.payload.message_size()))
    }
}
