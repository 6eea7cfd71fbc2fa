//! One control word a slot: which lap it was last used in, and how that ended.

use crate::sync::{AtomicU32, Ordering, order};

/// One slot's control word: `lap` in the upper 30 bits, a [`Mark`] in the lower 2. Zero at first.
pub type Word = AtomicU32;

/// How a claimed position ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A whole message is there.
    Written,
    /// The producer gave up: the consumer steps over the position and counts it.
    Skipped,
    /// Somebody, a kernel or a device, may still write there: the slot is never used again.
    Held,
}

const NEVER: u32 = 0;
const WRITTEN: u32 = 1;
const SKIPPED: u32 = 2;
const HELD: u32 = 3;
const MARK: u32 = 3;

/// The control words of a ring, in the caller's memory.
///
/// A word's owner changes with its slot's: the claimer of a position stores it once, with release, when it is
/// done; the consumer only loads it. It is stored on every lap, so the word that a claimer replaces is always the
/// one of the lap before, and 30 bits of lap cannot be mistaken.
#[derive(Debug)]
pub(super) struct Words<S> {
    table: S,
    mask: u64,
    shift: u32,
}

impl<S: AsRef<[Word]>> Words<S> {
    pub(super) fn new(slots: usize, table: S) -> Self {
        Self { table, mask: slots as u64 - 1, shift: slots.trailing_zeros() }
    }

    pub(super) fn slots(&self) -> u64 {
        self.mask + 1
    }

    #[inline]
    fn word(&self, position: u64) -> &Word {
        #[expect(clippy::cast_possible_truncation, reason = "a slot number is below the length of a slice")]
        let slot = (position & self.mask) as usize;
        &self.table.as_ref()[slot]
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "30 bits of the lap are kept")]
    fn lap(&self, position: u64) -> u32 {
        ((position >> self.shift) as u32) << 2
    }

    #[inline]
    pub(super) fn store(&self, position: u64, mark: Mark) {
        let mark = match mark {
            Mark::Written => WRITTEN,
            Mark::Skipped => SKIPPED,
            Mark::Held => HELD,
        };
        // SYNC: publish. The bytes of the slot come before its word. A skip too: the next lap's producer writes
        // the slot on the strength of it.
        self.word(position).store(self.lap(position) | mark, order!(Publish, Release));
    }

    /// How the position ended, or nothing if its claimer is not done. A held slot is held in every lap.
    #[inline]
    pub(super) fn load(&self, position: u64) -> Option<Mark> {
        // SYNC: publish. The word comes before the bytes of the slot.
        let word = self.word(position).load(order!(Publish, Acquire));
        match word & MARK {
            HELD => Some(Mark::Held),
            NEVER => None,
            _ if word & !MARK != self.lap(position) => None,
            WRITTEN => Some(Mark::Written),
            _ => Some(Mark::Skipped),
        }
    }

    /// Whether the slot of this position, which the caller may be about to claim, is held for ever.
    pub(super) fn is_held(&self, position: u64) -> bool {
        // The mark was stored before `head` passed the slot, and the caller has acquired `head`.
        self.word(position).load(Ordering::Relaxed) & MARK == HELD
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_only_in_its_own_lap_and_a_held_one_in_all() {
        let words = Words::new(2, [Word::new(0), Word::new(0)]);
        let wrap = (1u64 << 30) * 2;
        for position in [0, 1, wrap - 1, wrap, wrap + 1] {
            words.store(position, Mark::Written);
            assert_eq!(words.load(position), Some(Mark::Written));
            assert_eq!(words.load(position + 2), None);
            words.store(position, Mark::Skipped);
            assert_eq!(words.load(position), Some(Mark::Skipped));
        }
        words.store(4, Mark::Held);
        assert_eq!(words.load(4), Some(Mark::Held));
        assert_eq!(words.load(6), Some(Mark::Held));
        assert!(words.is_held(8) && !words.is_held(9));
    }
}
