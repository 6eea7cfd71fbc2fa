//! One control word a slot: whose the buffer is, and which lease of it this is.

use crate::sync::{AtomicU64, Ordering, is_weak, order};

const FREE: u64 = 0;
const LEASED: u64 = 1;
const RAW: u64 = 2;
const QUARANTINED: u64 = 3;
const STATE: u64 = 3;
/// One generation.
const STEP: u64 = 4;
/// Bits of a note that hold the seat; above them the tick, below them the low half of the generation.
const NOTE_SEAT: u32 = 32;
const NOTE_TICK: u32 = 40;
/// Ticks are compared within 24 bits.
const TICKS: u64 = (1 << 24) - 1;

/// One buffer's control words, 16 bytes.
#[derive(Debug)]
pub struct Slot {
    /// The generation in the upper 62 bits, the state in the lower 2. Swapped from free to leased by whoever claims the
    /// buffer, with the next generation; stored by its owner from then on. The generation wraps after 2^62 leases of
    /// this one buffer: at one a nanosecond after 146 years. SYNC: lend
    word: AtomicU64,
    /// Who claimed the buffer and when, for people: tick, seat and the lower half of the generation, by which a reader
    /// sees whether it is about the lease in `word`. Stored by the claimer, orders nothing.
    note: AtomicU64,
}

/// The right to one buffer.
///
/// Not `Clone`: giving it back consumes it. One that is dropped instead stays out for ever. It does not hold the
/// generation, which nobody else may change meanwhile: so it fits, with whatever the caller keeps beside it, in registers.
#[derive(Debug)]
#[must_use = "a grant that is dropped is never given back"]
pub struct Grant {
    index: u32,
}

impl Grant {
    pub(super) fn new(index: u32) -> Self {
        Self { index }
    }

    /// Which buffer.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }
}

/// What a look at a slot found that was not free.
pub(super) struct Taken {
    /// Of whoever has it.
    pub(super) generation: u64,
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

impl Slot {
    /// A free slot.
    pub fn new() -> Self {
        Self::starting_at(0)
    }

    /// A free slot of which so many leases are over: for tests that begin next to a wrap.
    #[doc(hidden)]
    pub fn starting_at(generation: u64) -> Self {
        Self { word: AtomicU64::new(generation.wrapping_mul(STEP) | FREE), note: AtomicU64::new(0) }
    }

    /// Claims the buffer if it is free; gives the lease's generation.
    #[inline]
    pub(super) fn claim(&self) -> Option<u64> {
        // A word that is old fails the swap.
        let word = self.word.load(Ordering::Relaxed);
        if word & STATE == FREE { self.swap_from(word).ok() } else { None }
    }

    /// Claims the buffer if nobody had it since this word was stored.
    #[inline]
    pub(super) fn claim_freed_as(&self, word: u64) -> Option<u64> {
        self.swap_from(word).ok()
    }

    /// Claims the buffer if it is free, else says whose it is.
    pub(super) fn look(&self) -> Result<u64, Taken> {
        // SYNC: look (acquire): what the claimer of this word had seen given back, we see given back.
        let mut word = self.word.load(order!(Look, Acquire));
        while word & STATE == FREE {
            match self.swap_from(word) {
                Ok(generation) => return Ok(generation),
                Err(now) => word = now,
            }
        }
        Err(Taken { generation: word / STEP })
    }

    #[inline]
    fn swap_from(&self, free: u64) -> Result<u64, u64> {
        let leased = free.wrapping_add(STEP) | LEASED;
        // SYNC: lend (acquire): the last owner's use of the bytes comes before ours.
        // SYNC: look (release): whoever sees this word sees each release that we had seen.
        let order = match (is_weak!(Lend), is_weak!(Look)) {
            (true, _) => Ordering::Release,
            (_, true) => Ordering::Acquire,
            _ => Ordering::AcqRel,
        };
        self.word
            .compare_exchange(free, leased, order, order!(Look, Acquire))
            .map(|_| leased / STEP)
    }

    /// Notes who claimed it. By the claimer only.
    #[inline]
    pub(super) fn note(&self, generation: u64, seat: usize, tick: u64) {
        let note = (generation & u64::from(u32::MAX)) | (seat as u64) << NOTE_SEAT | tick << NOTE_TICK;
        self.note.store(note, Ordering::Relaxed);
    }

    /// Gives the buffer back, by this word. Only by whoever has its grant, so nothing needs to be compared.
    #[inline]
    pub(super) fn free(&self) -> u64 {
        let word = self.own() | FREE;
        // SYNC: lend (release): our use of the bytes comes before the next owner's.
        self.word.store(word, order!(Lend, Release));
        word
    }

    /// Keeps the buffer from all owners for ever. Only by whoever has its grant.
    pub(super) fn quarantine(&self) {
        self.word.store(self.own() | QUARANTINED, Ordering::Relaxed);
    }

    /// Leaves the buffer to whoever takes it up with this generation. Only by whoever has its grant.
    pub(super) fn lay_down(&self) -> u64 {
        let word = self.own() | RAW;
        // SYNC: raw (release): our use of the bytes comes before that of whoever takes it up.
        self.word.store(word, order!(Raw, Release));
        word / STEP
    }

    /// The word without its state, which is the caller's own: it has the grant, and with it the sight of the word.
    #[inline]
    fn own(&self) -> u64 {
        self.word.load(Ordering::Relaxed) & !STATE
    }

    /// Takes up what was laid down; one of several that try succeeds.
    pub(super) fn take_up(&self, generation: u64) -> bool {
        let (raw, leased) = (generation.wrapping_mul(STEP) | RAW, generation.wrapping_mul(STEP) | LEASED);
        if raw / STEP != generation {
            // A number that no lease has.
            return false;
        }
        // SYNC: raw (acquire): the bytes' use by whoever laid it down comes before ours.
        self.word.compare_exchange(raw, leased, order!(Raw, Acquire), Ordering::Relaxed).is_ok()
    }

    /// How many ticks ago, and by which seat, the buffer was leased; nothing if it is not, or if that is not known yet.
    pub(super) fn holder(&self, now: u64) -> Option<(u64, usize)> {
        let word = self.word.load(Ordering::Relaxed);
        if !matches!(word & STATE, LEASED | RAW) {
            return None;
        }
        let note = self.note.load(Ordering::Relaxed);
        if note & u64::from(u32::MAX) != (word / STEP) & u64::from(u32::MAX) {
            return None;
        }
        let seat = (note >> NOTE_SEAT & 0xFF) as usize;
        Some((now.wrapping_sub(note >> NOTE_TICK) & TICKS, seat))
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::*;

    #[test]
    fn a_generation_wraps_and_an_older_token_takes_nothing_up() {
        let last = (1 << 62) - 1;
        let slot = Slot::starting_at(last);
        assert_eq!(slot.claim(), Some(0));
        assert_eq!(slot.claim(), None);
        assert_eq!(slot.lay_down(), 0);
        for stale in [last, 1, 1 << 62, u64::MAX] {
            assert!(!slot.take_up(stale), "{stale}");
        }
        assert!(slot.take_up(0) && !slot.take_up(0));
        assert_eq!(slot.free(), 0);
        assert!(!slot.take_up(0));
        assert_eq!(slot.claim(), Some(1));
    }

    #[test]
    fn a_note_speaks_of_its_own_lease_only() {
        let slot = Slot::new();
        assert_eq!(slot.holder(0), None);
        let generation = slot.claim().unwrap();
        assert_eq!(slot.holder(0), None, "not noted yet");
        slot.note(generation, 63, TICKS);
        assert_eq!(slot.holder(TICKS), Some((0, 63)));
        assert_eq!(slot.holder(TICKS + 3), Some((3, 63)), "ticks wrap");
        slot.quarantine();
        assert_eq!(slot.holder(TICKS), None);
    }
}
