//! What happens with messages once they are on the device.

use std::io;
use std::ops::Range;

/// Messages that have landed: where they are in the device queue.
///
/// The range is used again after the callback has returned. A kernel that was enqueued on the stream's own in-order
/// queue before then sees these messages, since a later upload into the range comes behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Landed {
    /// Offsets in the device queue.
    pub device_range: Range<usize>,
    /// How many messages.
    pub messages: usize,
    /// Bytes in each.
    pub message_size: usize,
    /// The number of slots claimed before the first: it grows from batch to batch.
    pub first_position: u64,
}

/// What is called for each batch that has landed.
pub(super) type LandedCallback = Box<dyn FnMut(&Landed) + Send>;

/// Receives what is read back from the device, in order, on the pump's thread.
///
/// While a sink blocks, so does the pump: it looks at requests to stop between batches only.
pub trait Sink: Send {
    /// Takes messages that have come back: a whole number of them, one behind the other.
    ///
    /// # Errors
    ///
    /// An error ends the pump; these messages then count as dropped.
    fn receive(&mut self, messages: &[u8], message_size: usize) -> io::Result<()>;

    /// So many messages that stood here will not come: their copy was given up. They count as dropped. What a policy
    /// dropped before it reached the device is not told.
    fn lost(&mut self, messages: usize) {
        let _ = messages;
    }

    /// Nothing more will come: flush.
    ///
    /// # Errors
    ///
    /// An error is the pump's.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
