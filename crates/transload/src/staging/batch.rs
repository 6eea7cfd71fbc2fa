//! Messages that the consumer has taken and not copied.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use transload_core::Taken;

use super::ring::StagingRing;

/// Messages that follow each other in the ring, in place, read-only.
///
/// Several can be alive at once, 64 at most, and be dropped in any order on any thread. Their slots go back to the
/// producers in the order of the ring, once this and all earlier batches are dropped.
#[must_use = "dropping it gives the slots back to the producers"]
pub struct Batch {
    ring: Arc<StagingRing>,
    /// There until the batch is given back.
    taken: Option<Taken>,
    first: u64,
    messages: usize,
}

impl Batch {
    pub(super) fn new(ring: Arc<StagingRing>, taken: Taken) -> Self {
        let (first, messages) = (taken.first(), taken.count());
        Self { ring, taken: Some(taken), first, messages }
    }

    /// How many messages, at least one.
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Bytes in each.
    pub fn message_size(&self) -> usize {
        self.ring.message_size()
    }

    /// The ring that it was taken from.
    pub fn ring(&self) -> &StagingRing {
        &self.ring
    }

    /// How many bytes they have together.
    pub fn bytes(&self) -> usize {
        self.messages * self.ring.message_size()
    }

    /// The number of slots that were claimed before the first message: it grows from batch to batch.
    pub fn first_position(&self) -> u64 {
        self.first
    }

    /// Where the bytes are, as offsets into the [slab](StagingRing::slab). The second range is empty unless the batch
    /// wraps.
    pub fn pieces(&self) -> [Range<usize>; 2] {
        self.ring.pieces(self.first, self.messages)
    }

    /// The bytes. The second part is empty unless the batch wraps; each is a whole number of messages.
    pub fn as_slices(&self) -> (&[u8], &[u8]) {
        let [first, second] = self.pieces();
        // SAFETY: published slots belong to the batch until it is given back, which takes it away (I1): nobody writes
        // them (I3). They are initialised, and `ring` keeps them there (I2).
        let first = unsafe { std::slice::from_raw_parts(self.ring.at(first.start), first.len()) };
        // SAFETY: as above.
        let second = unsafe { std::slice::from_raw_parts(self.ring.at(second.start), second.len()) };
        (first, second)
    }

    /// The messages one by one.
    ///
    /// ```
    /// # use transload::staging::PinnedStagingBuffer;
    /// # let (producer, mut consumer) = PinnedStagingBuffer::new(4, 2)?.split();
    /// producer.try_enqueue_batch(b"abcd")?;
    /// let batch = consumer.take(64)?;
    /// assert_eq!(batch.iter().collect::<Vec<_>>(), [b"ab", b"cd"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> Messages<'_> {
        let size = self.ring.message_size();
        let (first, second) = self.as_slices();
        Messages { messages: first.chunks_exact(size).chain(second.chunks_exact(size)) }
    }

    /// How long ago the sampled messages of the batch were published; none unless the ring
    /// [samples](super::StagingBuilder::sample_latency).
    pub fn sampled_ages(&self) -> impl Iterator<Item = Duration> {
        self.ring.ages(self.first, self.messages as u64)
    }

    /// Never uses the slots again, because a device may still read them. The ring shrinks by them, its memory is
    /// never freed, and no other ring can be made over it.
    pub fn quarantine(self) {
        self.ring.keep_memory();
        if let Some(taken) = &self.taken {
            self.ring.ring.hold(taken);
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            let wake = self.ring.ring.release(taken);
            self.ring.wake_producers(wake);
        }
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a [u8];
    type IntoIter = Messages<'a>;

    fn into_iter(self) -> Messages<'a> {
        self.iter()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("first", &self.first)
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}

/// The messages of a batch, from [`Batch::iter`].
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    messages: std::iter::Chain<std::slice::ChunksExact<'a, u8>, std::slice::ChunksExact<'a, u8>>,
}

impl<'a> Iterator for Messages<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.messages.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.messages.size_hint()
    }
}
