//! The state of a ring and what anyone may ask of it.

use core::fmt;

use super::batches::OpenBatches;
use super::claim::CLOSED;
use super::take::Reader;
use super::words::{Word, Words};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::wait::{Barrier, Sleepers};
use crate::{Counter, Flag, Padded};

/// The most slots of a ring: 2^31, so that a slot's number fits where 32 bits must do.
pub const MAX_SLOTS: usize = 1 << 31;

/// A bounded ring with many producers and one consumer, over control words in memory of the caller's.
///
/// `S` holds the words, `B` is the barrier of its sleepers. The ring hands out positions; what stands in the slots
/// is the caller's business. See the crate's page for an example.
pub struct Ring<S, B> {
    // Read by all, never written.
    pub(super) words: Words<S>,
    pub(super) barrier: B,
    /// Slots that are held for ever. Written by whoever holds one, before `head` passes it; read by claimers.
    pub(super) held: AtomicUsize,
    /// Raised once the ring is closed, behind the bit of `tail` that decides. A consumer that finds nothing looks
    /// here, so that it does not take the line of `tail` from under the producers.
    pub(super) closing: Flag,
    pub(super) producers: Padded<ProducerSide>,
    pub(super) consumer: Padded<ConsumerSide>,
    pub(super) batches: Padded<OpenBatches>,
    pub(super) sleepers: Padded<Sleepers>,
}

/// What producers write.
#[derive(Debug)]
pub(super) struct ProducerSide {
    /// The next position to be claimed; bit 63 says that the ring is closed. Swapped by producers, or-ed by
    /// whoever closes. A slot's bytes never follow from it, only what its claimers knew of `head`. SYNC: tail
    pub(super) tail: AtomicU64,
    /// A copy of `head` that may be old, next to `tail` so that a claim needs one cache line. SYNC: cached-head
    pub(super) cached_head: AtomicU64,
}

/// What the consumer side writes.
#[derive(Debug)]
pub(super) struct ConsumerSide {
    /// The oldest position that is not yet free. Written by the consumer, or by whoever releases a batch; read by
    /// producers that find the ring full. SYNC: free
    pub(super) head: AtomicU64,
    /// The next position that the consumer will look at. Written by the consumer only.
    pub(super) taken: AtomicU64,
    /// Positions that the consumer stepped over because their producers gave up.
    pub(super) skipped: Counter,
    /// Messages that the consumer took.
    pub(super) delivered: Counter,
    /// Messages that the consumer threw away.
    pub(super) discarded: Counter,
}

/// A ring cannot have this many slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeometryError {
    /// The number of slots is not a power of two between 2 and [`MAX_SLOTS`].
    Slots {
        /// The number asked for.
        wanted: usize,
    },
    /// The caller's memory holds too few words, or too many.
    Words {
        /// One for each slot.
        needed: usize,
        /// The number that there are.
        available: usize,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots { wanted } => {
                write!(f, "a ring of {wanted} slots cannot be: use a power of two from 2 to {MAX_SLOTS}")
            }
            Self::Words { needed, available } => {
                write!(f, "the ring needs exactly {needed} control words and was given {available}")
            }
        }
    }
}

impl core::error::Error for GeometryError {}

impl<S: AsRef<[Word]>, B: Barrier> Ring<S, B> {
    /// A ring of `slots` slots, and the one [`Reader`] that can take from it.
    ///
    /// All words must be zero. `words.as_ref()` must give the same slice each time.
    ///
    /// # Errors
    ///
    /// [`GeometryError`] if `slots` is not a power of two from 2 to [`MAX_SLOTS`], or if there is not exactly one word
    /// for each.
    pub fn new(slots: usize, words: S, barrier: B) -> Result<(Self, Reader), GeometryError> {
        Self::starting_at(0, slots, words, barrier)
    }

    /// As [`new`](Ring::new), with the positions starting at `start`: for tests that begin next to a wrap.
    ///
    /// # Errors
    ///
    /// As for [`new`](Ring::new).
    #[doc(hidden)]
    pub fn starting_at(
        start: u64,
        slots: usize,
        words: S,
        barrier: B,
    ) -> Result<(Self, Reader), GeometryError> {
        if !slots.is_power_of_two() || !(2..=MAX_SLOTS).contains(&slots) {
            return Err(GeometryError::Slots { wanted: slots });
        }
        let available = words.as_ref().len();
        if slots != available {
            return Err(GeometryError::Words { needed: slots, available });
        }
        let ring = Self {
            words: Words::new(slots, words),
            barrier,
            held: AtomicUsize::new(0),
            closing: Flag::new(),
            producers: Padded(ProducerSide {
                tail: AtomicU64::new(start),
                cached_head: AtomicU64::new(start),
            }),
            consumer: Padded(ConsumerSide {
                head: AtomicU64::new(start),
                taken: AtomicU64::new(start),
                skipped: Counter::new(),
                delivered: Counter::new(),
                discarded: Counter::new(),
            }),
            batches: Padded(OpenBatches::new()),
            sleepers: Padded(Sleepers::new()),
        };
        Ok((ring, Reader::new(start)))
    }

    /// How many messages fit: the slots, less those that are held for ever.
    pub fn capacity(&self) -> usize {
        self.slots() - self.held()
    }

    /// How many slots there are, held ones included.
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_SLOTS")]
    pub fn slots(&self) -> usize {
        self.words.slots() as usize
    }

    /// How many slots are held for ever.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// How many positions are claimed and not yet taken, skipped ones included, held ones not: exact when nobody is
    /// active, else a hint. Never more than [`slots`](Ring::slots).
    #[expect(clippy::cast_possible_truncation, reason = "clamped to the slots")]
    pub fn len(&self) -> usize {
        let taken = self.consumer.taken.load(Ordering::Relaxed);
        let claimed = self.tail().saturating_sub(taken).min(self.words.slots());
        if self.held() == 0 { claimed as usize } else { self.not_held(taken, claimed) }
    }

    /// How many of so many positions have slots that are not held.
    #[cold]
    fn not_held(&self, first: u64, count: u64) -> usize {
        (0..count).filter(|step| !self.words.is_held(first + step)).count()
    }

    /// Whether nothing is there to be taken: exact when nobody is active, else a hint.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a claim would find no room: slots in open batches count as used. Exact when nobody is active, else
    /// a hint.
    pub fn is_full(&self) -> bool {
        let head = self.head();
        let tail = self.tail();
        let room = self.words.slots().saturating_sub(tail.saturating_sub(head));
        room == 0 || (self.held() != 0 && self.not_held(tail, room) == 0)
    }

    /// The next position to be claimed.
    pub fn tail(&self) -> u64 {
        self.producers.tail.load(Ordering::Relaxed) & !CLOSED
    }

    /// The next position that the consumer will look at. If it is below [`tail`](Ring::tail) and stays, then
    /// the producer that claimed it is not done.
    pub fn taken(&self) -> u64 {
        self.consumer.taken.load(Ordering::Relaxed)
    }

    /// How many positions there are from the next that the consumer will look at to the wrap.
    #[expect(clippy::cast_possible_truncation, reason = "at most the slots")]
    pub fn until_wrap(&self) -> usize {
        (self.words.slots() - self.taken() % self.words.slots()) as usize
    }

    /// The oldest position that is not yet free: below it, producers may claim again.
    pub fn head(&self) -> u64 {
        self.consumer.head.load(Ordering::Relaxed)
    }

    /// How many messages the consumer has taken.
    pub fn delivered(&self) -> u64 {
        self.consumer.delivered.value()
    }

    /// How many messages the consumer has thrown away by [`discard`](Ring::discard).
    pub fn discarded(&self) -> u64 {
        self.consumer.discarded.value()
    }

    /// How many positions the consumer has stepped over because their producers gave up.
    pub fn skipped(&self) -> u64 {
        self.consumer.skipped.value()
    }
}

impl<S, B> fmt::Debug for Ring<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("producers", &self.producers)
            .field("consumer", &self.consumer)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    extern crate std;
    use std::boxed::Box;

    use super::*;
    use crate::FullBarrier;

    type Tested = Ring<Box<[Word]>, FullBarrier>;

    #[test]
    fn each_side_has_cache_lines_of_its_own() {
        use core::mem::offset_of;
        let mut offsets = [
            offset_of!(Tested, words),
            offset_of!(Tested, producers),
            offset_of!(Tested, consumer),
            offset_of!(Tested, batches),
            offset_of!(Tested, sleepers),
        ];
        offsets.sort_unstable();
        assert!(offsets.windows(2).all(|pair| pair[1] - pair[0] >= 128), "{offsets:?}");
        assert_eq!(align_of::<Tested>(), 128);
    }

    #[test]
    fn geometry_is_checked() {
        let words = |count: usize| (0..count).map(|_| Word::new(0)).collect::<Box<[Word]>>();
        for wanted in [0, 1, 3, 15, MAX_SLOTS + 1, usize::MAX] {
            assert_eq!(
                Tested::new(wanted, words(16), FullBarrier).err(),
                Some(GeometryError::Slots { wanted })
            );
        }
        assert_eq!(
            Tested::new(512, words(256), FullBarrier).err(),
            Some(GeometryError::Words { needed: 512, available: 256 })
        );
    }
}
