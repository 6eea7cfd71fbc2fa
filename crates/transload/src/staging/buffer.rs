//! The ring before it is split.

use std::ops::Deref;
use std::sync::Arc;

use transload_core::Reader;

use super::builder::StagingBuilder;
use super::consumer::Consumer;
use super::error::StagingError;
use super::producer::Producer;
use super::ring::StagingRing;

/// A bounded ring of fixed-size messages in pinned memory. See the [module's page](super) for the contract.
///
/// ```
/// use transload::staging::PinnedStagingBuffer;
///
/// let (producer, mut consumer) = PinnedStagingBuffer::new(16, 8)?.split();
/// producer.try_enqueue(b"message!")?;
/// let mut bytes = [0; 8];
/// assert_eq!(consumer.dequeue_batch(&mut bytes, 1)?, 1);
/// assert_eq!(&bytes, b"message!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PinnedStagingBuffer {
    ring: Arc<StagingRing>,
    reader: Reader,
}

impl PinnedStagingBuffer {
    /// A ring of `capacity` messages, a power of two from 2, of `message_size` bytes, at least 1, in memory of its own
    /// that is page-locked if the limit allows.
    ///
    /// # Errors
    ///
    /// [`StagingError`] if one of the numbers cannot be, or there is no memory.
    pub fn new(capacity: usize, message_size: usize) -> Result<Self, StagingError> {
        Self::builder(capacity, message_size).build()
    }

    /// As [`new`](PinnedStagingBuffer::new), with settings.
    pub fn builder(capacity: usize, message_size: usize) -> StagingBuilder {
        StagingBuilder::new(capacity, message_size)
    }

    pub(super) fn from_parts(ring: StagingRing, reader: Reader) -> Self {
        Self { ring: Arc::new(ring), reader }
    }

    /// The two ends: a producer, to be cloned for each thread, and the one consumer.
    ///
    /// A second consumer is a type error:
    ///
    /// ```compile_fail,E0599
    /// # use transload::staging::PinnedStagingBuffer;
    /// let (producer, consumer) = PinnedStagingBuffer::new(16, 8).unwrap().split();
    /// let second = consumer.clone();
    /// ```
    pub fn split(self) -> (Producer, Consumer) {
        (Producer::new(self.ring.clone()), Consumer::new(self.ring, self.reader))
    }
}

impl Deref for PinnedStagingBuffer {
    type Target = StagingRing;

    fn deref(&self) -> &StagingRing {
        &self.ring
    }
}
