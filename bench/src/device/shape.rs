//! What is moved: the sizes of messages, batches and memory, alike for all sides.

use std::fmt;

use serde::Serialize;

/// Bytes of host memory that batches are sent out of, again and again: more than a core's own caches.
pub const SOURCE_BYTES: usize = 16 << 20;

/// Batches in flight of a pump with its default options.
pub const IN_FLIGHT: usize = 4;

/// Batches that the device's queue has room for: one more than a pump has in flight. In a longer one a pump that has nothing
/// in flight would begin again at the start, which is in caches, where the others go on to its end.
pub const QUEUE_BATCHES: usize = IN_FLIGHT + 1;

/// Sizes of messages and batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Bytes of a message: a divisor of `batch_bytes`, at most [`LARGEST`](crate::message::LARGEST).
    pub message_bytes: usize,
    /// Bytes of a batch: a divisor of [`SOURCE_BYTES`].
    pub batch_bytes: usize,
}

impl Shape {
    /// Those that are measured.
    pub const ALL: [Self; 4] = [
        Self::new(256, 256 << 10),
        Self::new(256, 1 << 20),
        Self::new(4096, 256 << 10),
        Self::new(4096, 1 << 20),
    ];

    const fn new(message_bytes: usize, batch_bytes: usize) -> Self {
        Self { message_bytes, batch_bytes }
    }

    /// Messages of a batch.
    pub fn batch_messages(&self) -> usize {
        self.batch_bytes / self.message_bytes
    }

    /// Messages that the host memory has room for.
    pub fn capacity(&self) -> usize {
        SOURCE_BYTES / self.message_bytes
    }

    /// Bytes of the device's queue.
    pub fn queue_bytes(&self) -> usize {
        QUEUE_BATCHES * self.batch_bytes
    }

    /// Where a batch of this number goes in a queue that is filled from its start, over and over.
    pub(super) fn place(&self, batch: u64) -> usize {
        let places = QUEUE_BATCHES as u64;
        usize::try_from(batch % places).map_or(0, |place| place * self.batch_bytes)
    }

    /// Where a batch of this number comes from in the host memory.
    pub(super) fn origin(&self, batch: u64) -> usize {
        let places = (SOURCE_BYTES / self.batch_bytes) as u64;
        usize::try_from(batch % places).map_or(0, |place| place * self.batch_bytes)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B in batches of {} KiB", self.message_bytes, self.batch_bytes >> 10)
    }
}
