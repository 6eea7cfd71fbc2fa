//! Giving back what a dead member had.

use super::cell::Cell;
use super::layout::{SharedCount, Sleeper};
use super::parts::SharedParts;
use super::slot::{SlotState, SlotWord};
use super::word::{FutexWord, SharedWord};
use crate::sync::{Ordering, is_weak, order};
use crate::wait::Barrier;

/// How many slots are looked at together: for each such part that the dead member has something in, the ring is looked
/// through once.
const PART: usize = 512;

/// What a recovery has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Buffers that are free again.
    pub freed: u64,
    /// Messages that will be delivered once more.
    pub put_back: u64,
    /// Buffers that a kernel or a device may still access, so that nobody gets them again.
    pub quarantined: u64,
}

impl Recovered {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            freed: self.freed + other.freed,
            put_back: self.put_back + other.put_back,
            quarantined: self.quarantined + other.quarantined,
        }
    }

    /// Whether there was anything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl<W: AsRef<[SharedWord]>, F: AsRef<[FutexWord]>> SharedParts<W, F> {
    /// Gives back what a dead member had: each of its buffers is freed, put back into the ring as a message, or kept from
    /// everybody for ever.
    ///
    /// The caller knows that the member is dead, that nobody else recovers it, and that nobody gets its number meanwhile.
    /// May be stopped anywhere, by death too, and done again.
    ///
    /// Whoever sleeps is to be woken then, whether or not it has announced that: the dead member may have taken an
    /// announcement away, and died before it woke anybody.
    #[expect(clippy::cast_possible_truncation, reason = "at most 2^24 buffers")]
    pub fn recover(&self, dead: u16, barrier: &impl Barrier) -> Recovered {
        let mut found = Recovered::default();
        let buffers = self.buffers();
        for first in (0..buffers).step_by(PART) {
            let mut words = [SlotWord(0); PART];
            let words = &mut words[..PART.min(buffers - first)];
            found = found.and(self.recover_part(dead, first as u32, words));
        }
        // In any case: an earlier recovery may have died before this. First, as it says that there are free buffers.
        self.add(SharedCount::Recoveries, 1);
        self.add(SharedCount::Reclaimed, found.freed);
        self.add(SharedCount::Quarantined, found.quarantined);
        barrier.light();
        for sleeper in [Sleeper::Consumer, Sleeper::Room] {
            // Whoever is about to sleep then does not.
            self.sleeper(sleeper).take_announcement();
        }
        found
    }

    /// The slots from `first` on, as many as `words` has room for.
    #[expect(clippy::cast_possible_truncation, reason = "at most 2^24 buffers")]
    fn recover_part(&self, dead: u16, first: u32, words: &mut [SlotWord]) -> Recovered {
        // Written by the dead member itself, before the proof of its death: read no earlier than that.
        for (nth, word) in words.iter_mut().enumerate() {
            *word = self.slot_word(first + nth as u32).unwrap_or(SlotWord(0));
        }
        if !words.iter().any(|word| word.owner() == dead) {
            return Recovered::default();
        }
        let named = self.named(first, words);
        let mut found = Recovered::default();
        for (nth, &word) in words.iter().enumerate() {
            let is_named = named[nth / 64] & 1 << (nth % 64) != 0;
            if word.owner() == dead {
                self.recover_slot(first + nth as u32, word, is_named, &mut found);
            }
        }
        found
    }

    /// Which of these slots are named by full cells, one bit each.
    ///
    /// What the dead member did to the ring is seen here, and of its messages only the consumer takes any out of it, which
    /// changes the word first: then whatever is done to the old word fails.
    fn named(&self, first: u32, words: &[SlotWord]) -> [u64; PART / 64] {
        let mut named = [0_u64; PART / 64];
        if is_weak!(SharedScan) {
            return named;
        }
        for position in 0..self.ring_slots() as u64 {
            let cell = Cell(self.cell(position).load(Ordering::Acquire));
            let nth = cell.index().wrapping_sub(first) as usize;
            if words.get(nth).is_some_and(|&word| cell.names(cell.index(), word)) {
                named[nth / 64] |= 1 << (nth % 64);
            }
        }
        named
    }

    fn recover_slot(&self, index: u32, word: SlotWord, is_named: bool, found: &mut Recovered) {
        let (after, counter) = match (word.state(), is_named) {
            // Taken by a consumer that died: delivered once more.
            (Some(SlotState::Owned | SlotState::Lent), true) => (word.put_back(), &mut found.put_back),
            (Some(SlotState::Owned | SlotState::Sent), false) => (word.let_go(), &mut found.freed),
            (Some(SlotState::Lent), false) => (word.tainted().let_go(), &mut found.quarantined),
            // In the ring: whole, and the consumer's. Or nothing of a member's.
            _ => return,
        };
        let counter = if after.is(SlotState::Quarantined) { &mut found.quarantined } else { counter };
        let Some(slot) = self.slot(index) else { return };
        self.step();
        // SYNC: shared-lend (release): the dead owner's use of the bytes comes before the next owner's.
        let swapped = slot.compare_exchange(word.0, after.0, order!(SharedLend, Release), Ordering::Relaxed);
        // It fails if the message was taken between our look at the word and this: then it is the consumer's.
        if swapped.is_ok() {
            *counter += 1;
        }
    }
}
