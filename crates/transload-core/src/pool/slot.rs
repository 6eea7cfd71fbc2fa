//! One control word a slot: whose the buffer is, and which lease of it this is.

use crate::sync::{AtomicU64, Ordering, is_weak, order};

const FREE: u64 = 0;
const LEASED: u64 = 1;
const RAW: u64 = 2;
const QUARANTINED: u64 = 3;
const STATE: u64 = 3;
const SEAT: u32 = 2;
const SEAT_MASK: u64 = (1 << 6) - 1;
const TICK: u32 = 8;
const TICK_MASK: u64 = (1 << 18) - 1;
/// One generation: 38 bits.
const STEP: u64 = 1 << 26;
const GENERATION: u64 = !(STEP - 1);

/// One buffer's control word, 8 bytes.
///
/// ```text
///  63          26 25        8 7    2 1   0
///  | generation  |   tick    | seat |state|
/// ```
///
/// Swapped from free to leased by whoever claims the buffer, with the next generation, the claimer's seat and the tick;
/// stored by its owner from then on. A free word has nothing but its generation, so that a claim only adds to it.
/// SYNC: lend
///
/// The generation wraps after 2^38 leases of this one buffer, 23 minutes of doing nothing else at 5 ns each. Claims do
/// not rest on it: a free word that has been leased in between is as free as any. What rests on it are leases as numbers,
/// whose token is all of the word above the state: a token of an earlier lease is taken for the present one only if a
/// multiple of 2^38 leases lie between, and seat and tick are the same, and this one is laid down too.
#[derive(Debug)]
pub struct Slot(AtomicU64);

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

/// Who claims, and when: what a claim adds to a free word.
#[derive(Clone, Copy)]
pub(super) struct Claimer(u64);

impl Claimer {
    /// `stamp` is that of the present tick.
    #[inline]
    pub(super) fn new(seat: usize, stamp: u64) -> Self {
        Self(stamp + ((seat as u64) << SEAT))
    }
}

/// All that claims of this tick add to a free word but for the seat: made once a tick rather than with each claim.
pub(super) fn stamp(tick: u64) -> u64 {
    STEP | (tick & TICK_MASK) << TICK | LEASED
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
        Self(AtomicU64::new(generation.wrapping_mul(STEP) | FREE))
    }

    /// Claims the buffer if it is free.
    #[inline]
    pub(super) fn claim(&self, by: Claimer) -> bool {
        // A word that is old fails the swap.
        let word = self.0.load(Ordering::Relaxed);
        word & STATE == FREE && self.swap_from(word, by).is_ok()
    }

    /// Whether it is free: a hint.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.0.load(Ordering::Relaxed) & STATE == FREE
    }

    /// Claims the buffer if it is free, else says whose it is.
    pub(super) fn look(&self, by: Claimer) -> Result<(), Taken> {
        // SYNC: look (acquire): what the claimer of this word had seen given back, we see given back.
        let mut word = self.0.load(order!(Look, Acquire));
        while word & STATE == FREE {
            match self.swap_from(word, by) {
                Ok(()) => return Ok(()),
                Err(now) => word = now,
            }
        }
        Err(Taken { generation: word / STEP })
    }

    #[inline]
    fn swap_from(&self, free: u64, by: Claimer) -> Result<(), u64> {
        let leased = free.wrapping_add(by.0);
        // SYNC: lend (acquire): the last owner's use of the bytes comes before ours.
        // SYNC: look (release): whoever sees this word sees each release that we had seen.
        let order = match (is_weak!(Lend), is_weak!(Look)) {
            (true, _) => Ordering::Release,
            (_, true) => Ordering::Acquire,
            _ => Ordering::AcqRel,
        };
        self.0.compare_exchange(free, leased, order, order!(Look, Acquire)).map(|_| ())
    }

    /// Gives the buffer back. Only by whoever has its grant, so nothing needs to be compared.
    #[inline]
    pub(super) fn free(&self) {
        let word = self.own() & GENERATION | FREE;
        // SYNC: lend (release): our use of the bytes comes before the next owner's.
        self.0.store(word, order!(Lend, Release));
    }

    /// Keeps the buffer from all owners for ever. Only by whoever has its grant.
    pub(super) fn quarantine(&self) {
        self.0.store(self.own() | QUARANTINED, Ordering::Relaxed);
    }

    /// Leaves the buffer to whoever takes it up with this generation. Only by whoever has its grant.
    pub(super) fn lay_down(&self) -> u64 {
        let word = self.own() | RAW;
        // SYNC: raw (release): our use of the bytes comes before that of whoever takes it up.
        self.0.store(word, order!(Raw, Release));
        word >> SEAT
    }

    /// The word without its state, which is the caller's own: it has the grant, and with it the sight of the word.
    #[inline]
    fn own(&self) -> u64 {
        self.0.load(Ordering::Relaxed) & !STATE
    }

    /// Takes up what was laid down; one of several that try succeeds.
    pub(super) fn take_up(&self, token: u64) -> bool {
        if token >> (64 - SEAT) != 0 {
            // A number that no lease has.
            return false;
        }
        // The next generation, so that a copy of the token is worth nothing when the lease is laid down again.
        let (raw, leased) = (token << SEAT | RAW, (token << SEAT).wrapping_add(STEP) | LEASED);
        // SYNC: raw (acquire): the bytes' use by whoever laid it down comes before ours.
        self.0.compare_exchange(raw, leased, order!(Raw, Acquire), Ordering::Relaxed).is_ok()
    }

    /// How many ticks before the one of this stamp, and by which seat, the buffer was leased; nothing if it is not.
    pub(super) fn holder(&self, now: u64) -> Option<(u64, usize)> {
        let word = self.0.load(Ordering::Relaxed);
        let seat = (word >> SEAT & SEAT_MASK) as usize;
        matches!(word & STATE, LEASED | RAW)
            .then(|| ((now >> TICK).wrapping_sub(word >> TICK) & TICK_MASK, seat))
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::*;

    #[test]
    fn a_generation_wraps_and_an_older_token_takes_nothing_up() {
        let last = (1 << 38) - 1;
        let slot = Slot::starting_at(last);
        let by = Claimer::new(5, stamp(3));
        assert!(slot.claim(by) && !slot.claim(by));
        let token = slot.lay_down();
        assert_eq!(token, 3 << 6 | 5, "generation 0");
        for stale in [0, last << 24 | token, 1 << 24 | token, 1 << 62 | token, u64::MAX] {
            assert!(!slot.take_up(stale), "{stale}");
        }
        assert!(slot.take_up(token) && !slot.take_up(token));
        slot.free();
        assert!(slot.is_free() && !slot.take_up(token));
        assert!(slot.claim(by));
        assert_eq!(slot.lay_down(), 2 << 24 | token);
    }

    #[test]
    fn a_word_says_who_has_it_and_since_when() {
        let slot = Slot::new();
        assert_eq!(slot.holder(stamp(0)), None);
        assert!(slot.claim(Claimer::new(63, stamp(TICK_MASK))));
        assert_eq!(slot.holder(stamp(TICK_MASK)), Some((0, 63)));
        assert_eq!(slot.holder(stamp(TICK_MASK + 3)), Some((3, 63)), "ticks wrap");
        slot.quarantine();
        assert_eq!(slot.holder(stamp(TICK_MASK)), None);
    }
}
