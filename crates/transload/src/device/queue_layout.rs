//! Where everything is in a queue that lies in device memory.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::{DeviceError, Fill, Stream};

/// A queue begins at a multiple of this, and so do its marks and its slots: storage buffers of all devices may begin there.
const ALIGNMENT: usize = 256;
/// Where the head block ends and the marks begin.
const MARKS_AT: usize = 256;
/// How long a device may take to fill a part of its memory.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where everything is in a queue that lies in the memory of a [`Stream`]: what the host and kernels agree
/// on. Offsets count from the queue's beginning.
///
/// ```text
///  0          128    192     196        256
///  | geometry | tail | head  | skipped  | a mark for each slot | slots
///    capacity, bytes in a message, where marks and slots begin
/// ```
///
/// All of it is 32-bit words, little-endian. A position is counted from 0 and wraps at 2^32; its slot is its rest by the
/// capacity, which is a power of two. Whoever gives writes the tail, whoever takes writes the head.
///
/// ```
/// use transload::device::QueueLayout;
///
/// let layout = QueueLayout::new(4, 8)?;
/// assert_eq!(layout.len_bytes(), 512 + 4 * 8);
/// // Positions 6, 7 and 8: the last two slots, and the first.
/// assert_eq!(layout.slots(6, 3), [512 + 16..512 + 32, 512..512 + 8]);
/// # Ok::<(), transload::device::QueueLayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueLayout {
    capacity: u32,
    message_size: u32,
}

/// A queue in device memory cannot be like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueLayoutError {
    /// Not a power of two, or too much for positions of 32 bits.
    #[error("a device queue of {wanted} messages cannot be: use a power of two, at most {most}")]
    Capacity {
        /// How many were wanted.
        wanted: usize,
        /// The most.
        most: usize,
    },
    /// Nothing, or not whole words.
    #[error("a device queue has no messages of {wanted} bytes: use a multiple of 4, at least 4")]
    MessageSize {
        /// Bytes wanted.
        wanted: usize,
    },
    /// More memory than can be addressed in it.
    #[error(
        "a device queue of {capacity} messages of {message_size} bytes is longer than the {most} bytes that one can have: \
         use a smaller one"
    )]
    TooLong {
        /// Messages wanted.
        capacity: usize,
        /// Bytes in each.
        message_size: usize,
        /// The most bytes.
        most: usize,
    },
}

impl QueueLayout {
    /// The most messages.
    pub const MOST: usize = 1 << 31;
    /// The most bytes: kernels count them in 32 bits.
    const MOST_BYTES: usize = u32::MAX as usize;
    /// Where the tail is: the position behind the last message given.
    pub const TAIL_AT: usize = 128;
    /// Where the head is: the position of the next message to be taken.
    pub const HEAD_AT: usize = 192;
    /// Where it is counted how many slots a kernel has marked as skipped.
    pub const SKIPPED_AT: usize = 196;
    /// The mark of a slot that holds no message, to be stepped over. That of a message is 0.
    pub const SKIPPED: u32 = 1;

    /// For so many messages of so many bytes.
    ///
    /// # Errors
    ///
    /// [`QueueLayoutError`].
    pub fn new(capacity: usize, message_size: usize) -> Result<Self, QueueLayoutError> {
        if !capacity.is_power_of_two() || capacity > Self::MOST {
            return Err(QueueLayoutError::Capacity { wanted: capacity, most: Self::MOST });
        }
        if message_size == 0 || !message_size.is_multiple_of(4) {
            return Err(QueueLayoutError::MessageSize { wanted: message_size });
        }
        let too_long = QueueLayoutError::TooLong { capacity, message_size, most: Self::MOST_BYTES };
        let slots = capacity.checked_mul(message_size).ok_or(too_long)?;
        let len_bytes = slots.checked_add(slots_at(capacity));
        if len_bytes.is_none_or(|bytes| bytes > Self::MOST_BYTES) {
            return Err(too_long);
        }
        let word = |number| u32::try_from(number).map_err(|_| too_long);
        Ok(Self { capacity: word(capacity)?, message_size: word(message_size)? })
    }

    /// What the words at a queue's beginning say, if that can be.
    pub fn of_words(words: [u32; 4]) -> Option<Self> {
        let [capacity, message_size, ..] = words;
        let layout = Self::new(usize::try_from(capacity).ok()?, usize::try_from(message_size).ok()?).ok()?;
        (layout.words() == words).then_some(layout)
    }

    /// The words at the queue's beginning.
    pub fn words(self) -> [u32; 4] {
        let word = |offset| u32::try_from(offset).unwrap_or(u32::MAX);
        [self.capacity, self.message_size, word(MARKS_AT), word(self.slots_at())]
    }

    /// How many messages fit.
    pub fn capacity(self) -> u32 {
        self.capacity
    }

    /// Bytes in each.
    pub fn message_size(self) -> usize {
        self.message_size as usize
    }

    fn slots_at(self) -> usize {
        slots_at(self.capacity as usize)
    }

    /// How long it is.
    pub fn len_bytes(self) -> usize {
        self.slots_at() + self.capacity as usize * self.message_size()
    }

    /// How many bytes it takes up where another queue lies behind it.
    pub fn stride_bytes(self) -> usize {
        self.len_bytes().next_multiple_of(ALIGNMENT)
    }

    /// The slots of so many positions: the second range is empty unless they wrap.
    pub fn slots(self, first: u32, count: u32) -> [Range<usize>; 2] {
        self.parts(first, count).map(|part| scaled(self.slots_at(), self.message_size(), &part))
    }

    /// The marks of so many positions, as [`slots`](QueueLayout::slots).
    pub fn marks(self, first: u32, count: u32) -> [Range<usize>; 2] {
        self.parts(first, count).map(|part| scaled(MARKS_AT, 4, &part))
    }

    /// How many positions there are from one to the wrap.
    pub fn until_wrap(self, position: u32) -> u32 {
        self.capacity - self.slot(position)
    }

    /// The slot of a position.
    pub fn slot(self, position: u32) -> u32 {
        position & (self.capacity - 1)
    }

    /// The slot numbers of so many positions.
    pub(super) fn parts(self, first: u32, count: u32) -> [Range<usize>; 2] {
        let count = count.min(self.capacity);
        let before_wrap = count.min(self.until_wrap(first));
        let slot = self.slot(first) as usize;
        [slot..slot + before_wrap as usize, 0..(count - before_wrap) as usize]
    }

    /// What makes an empty queue of a stream's memory, from an offset on, when it is all done in this order: every mark,
    /// tail, head and count is 0, and the geometry stands in front.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Misaligned`] unless the offset is a multiple of 256.
    pub fn fills(self, at: usize) -> Result<[Fill; 5], DeviceError> {
        if !at.is_multiple_of(ALIGNMENT) {
            return Err(DeviceError::Misaligned { offset: at, multiple: ALIGNMENT });
        }
        let words = self.words();
        let word = |nth: usize| Fill { range: at + nth * 4..at + nth * 4 + 4, word: words[nth] };
        let zeros = Fill { range: at + 16..at + self.slots_at(), word: 0 };
        Ok([zeros, word(0), word(1), word(2), word(3)])
    }

    /// Makes an empty queue of a stream's memory, from an offset on, and waits until it is there. For a stream with nothing
    /// in flight.
    ///
    /// # Errors
    ///
    /// As [`fills`](QueueLayout::fills) and [`Stream::fill`]; [`DeviceError::Copy`] if one fails;
    /// [`DeviceError::Lost`] if the device does not answer.
    pub fn make(self, stream: &mut dyn Stream, at: usize) -> Result<(), DeviceError> {
        self.make_from(stream, at, 0)
    }

    /// As [`make`](QueueLayout::make), with positions from `start` on: for tests that begin next to a wrap.
    #[doc(hidden)]
    pub fn make_from(self, stream: &mut dyn Stream, at: usize, start: u32) -> Result<(), DeviceError> {
        let words = [Self::TAIL_AT, Self::HEAD_AT];
        let words = words.map(|word| Fill { range: at + word..at + word + 4, word: start });
        for fill in self.fills(at)?.into_iter().chain(words) {
            stream.fill(fill).map_err(|refused| refused.error)?;
            let until = Instant::now() + PATIENCE;
            let done = loop {
                if let Some(done) = stream.wait(Duration::from_millis(50)) {
                    break done;
                }
                if Instant::now() >= until {
                    return Err(DeviceError::Lost { reason: format!("no answer within {PATIENCE:?}") });
                }
            };
            done.result?;
        }
        Ok(())
    }
}

/// The bytes of a range of things of one size that stand in a row.
fn scaled(at: usize, size: usize, part: &Range<usize>) -> Range<usize> {
    at + part.start * size..at + part.end * size
}

fn slots_at(capacity: usize) -> usize {
    (MARKS_AT + capacity * 4).next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_with_numbers() {
        for wanted in [0, 3, 12, QueueLayout::MOST + 1, usize::MAX] {
            let refused = QueueLayout::new(wanted, 4);
            assert_eq!(refused, Err(QueueLayoutError::Capacity { wanted, most: QueueLayout::MOST }));
        }
        for wanted in [0, 1, 3, 6, usize::MAX] {
            assert_eq!(QueueLayout::new(4, wanted), Err(QueueLayoutError::MessageSize { wanted }));
        }
        for (capacity, message_size) in [(1 << 31, 4), (1 << 20, 4096), (1 << 16, usize::MAX - 3)] {
            let refused = QueueLayout::new(capacity, message_size);
            assert!(matches!(refused, Err(QueueLayoutError::TooLong { .. })), "{refused:?}");
        }
    }

    #[test]
    fn parts_stand_where_kernels_look_for_them() {
        let layout = QueueLayout::new(128, 24).unwrap();
        assert_eq!(layout.words(), [128, 24, 256, 768]);
        assert_eq!((layout.len_bytes(), layout.stride_bytes()), (768 + 128 * 24, 3840));
        assert_eq!(layout.marks(0, 128), [256..768, 256..256]);
        assert_eq!(QueueLayout::of_words(layout.words()), Some(layout));
        for (nth, word) in [(0, 127), (1, 23), (2, 512), (3, 512)] {
            let mut words = layout.words();
            words[nth] = word;
            assert_eq!(QueueLayout::of_words(words), None, "{words:?}");
        }
        // The least there is: one slot.
        assert_eq!(QueueLayout::new(1, 4).unwrap().slots(u32::MAX, 1), [512..516, 512..512]);
    }

    /// Against the plain rule, one position at a time, also where the positions themselves wrap.
    #[test]
    fn runs_of_positions_are_cut_at_the_wrap() {
        let layout = QueueLayout::new(8, 12).unwrap();
        for first in (0..17).chain(u32::MAX - 17..=u32::MAX) {
            for count in 0..=8 {
                let bytes = |ranges: [Range<usize>; 2]| ranges.into_iter().flatten().collect::<Vec<_>>();
                let each = |one: fn(QueueLayout, u32, u32) -> [Range<usize>; 2]| {
                    (0..count)
                        .flat_map(|nth| bytes(one(layout, first.wrapping_add(nth), 1)))
                        .collect::<Vec<_>>()
                };
                assert_eq!(bytes(layout.slots(first, count)), each(QueueLayout::slots), "{first} {count}");
                assert_eq!(bytes(layout.marks(first, count)), each(QueueLayout::marks), "{first} {count}");
            }
        }
        assert_eq!(layout.until_wrap(u32::MAX), 1);
        assert_eq!(layout.slots(u32::MAX, 2), [512 + 84..512 + 96, 512..512 + 12]);
    }

    #[test]
    fn a_new_queue_is_filled_to_its_slots() {
        let layout = QueueLayout::new(4, 8).unwrap();
        let mut memory = [0xff_u8; 1024];
        for fill in layout.fills(256).unwrap() {
            memory[fill.range].as_chunks_mut::<4>().0.fill(fill.word.to_le_bytes());
        }
        let (words, rest) = memory[256..].as_chunks::<4>().0.split_at(4);
        assert_eq!(words, layout.words().map(u32::to_le_bytes));
        assert!(rest[..124].as_flattened().iter().all(|byte| *byte == 0));
        assert!(memory[..256].iter().chain(&memory[768..]).all(|byte| *byte == 0xff));
        assert!(matches!(layout.fills(128), Err(DeviceError::Misaligned { offset: 128, multiple: 256 })));
    }
}
