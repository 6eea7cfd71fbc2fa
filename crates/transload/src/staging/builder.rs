//! How a ring is made.

use transload_core::{MAX_SLOTS, Ring, Word};

use super::buffer::PinnedStagingBuffer;
use super::error::StagingError;
use super::ring::StagingRing;
use crate::barrier::ProcessBarrier;
use crate::memory::{Slab, SlabBuilder};

/// Settings of a ring, each with a default. From [`PinnedStagingBuffer::builder`].
///
/// ```
/// use transload::memory::Policy;
/// use transload::staging::PinnedStagingBuffer;
///
/// let ring = PinnedStagingBuffer::builder(1024, 64)
///     .memory(|slab| slab.transparent_pages(Policy::Prefer).lock(Policy::Prefer))
///     .build()?;
/// assert_eq!(ring.capacity(), 1024);
/// # Ok::<(), transload::staging::StagingError>(())
/// ```
#[derive(Debug)]
pub struct StagingBuilder {
    capacity: usize,
    message_size: usize,
    memory: Memory,
    sample_latency: bool,
}

#[derive(Debug)]
enum Memory {
    New(SlabBuilder),
    Given(Slab),
}

impl StagingBuilder {
    pub(super) fn new(capacity: usize, message_size: usize) -> Self {
        let memory = Memory::New(Slab::builder(capacity, message_size));
        Self { capacity, message_size, memory, sample_latency: false }
    }

    /// Sets policies of the slab that the ring makes for itself. No effect after [`slab`](StagingBuilder::slab).
    #[must_use]
    pub fn memory(mut self, policies: impl FnOnce(SlabBuilder) -> SlabBuilder) -> Self {
        if let Memory::New(builder) = self.memory {
            self.memory = Memory::New(policies(builder));
        }
        self
    }

    /// Uses this slab, which must have at least `capacity * message_size` bytes: one that a device has supplied, or
    /// one that wraps foreign memory. The ring hands out its parts until the ring and all its batches are gone;
    /// meanwhile no second ring can be made over it.
    #[must_use]
    pub fn slab(mut self, slab: Slab) -> Self {
        self.memory = Memory::Given(slab);
        self
    }

    /// Stamps one message in 64 when it is published, so that whoever holds its batch can tell its age. Off at first.
    #[must_use]
    pub fn sample_latency(mut self, sample: bool) -> Self {
        self.sample_latency = sample;
        self
    }

    /// Makes the ring.
    ///
    /// # Errors
    ///
    /// [`StagingError`]. Nothing is left behind.
    pub fn build(self) -> Result<PinnedStagingBuffer, StagingError> {
        let Self { capacity, message_size, memory, sample_latency } = self;
        if !capacity.is_power_of_two() || !(2..=MAX_SLOTS).contains(&capacity) {
            return Err(StagingError::Capacity { wanted: capacity });
        }
        if message_size == 0 {
            return Err(StagingError::MessageSize);
        }
        let slab = match memory {
            Memory::New(builder) => builder.build()?,
            Memory::Given(slab) => {
                let needed = capacity.saturating_mul(message_size);
                let available = slab.len_bytes();
                if available < needed {
                    return Err(StagingError::SlabTooSmall { capacity, message_size, needed, available });
                }
                slab
            }
        };
        let tenancy = slab.occupy()?;
        let words: Box<[Word]> = (0..capacity).map(|_| Word::new(0)).collect();
        let (ring, reader) = Ring::new(capacity, words, ProcessBarrier::new())
            .map_err(|_| StagingError::Capacity { wanted: capacity })?;
        Ok(PinnedStagingBuffer::from_parts(
            StagingRing::new(ring, message_size, tenancy, sample_latency),
            reader,
        ))
    }
}
