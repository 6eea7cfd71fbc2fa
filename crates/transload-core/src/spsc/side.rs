//! The words of one side, as that side has them and as the other does.

use super::fault::SpscFault;
use crate::shared::{FutexWord, SharedWord};
use crate::sync::{Ordering, fence, is_weak, order};
use crate::wait::Barrier;

/// 32-bit words of one side: two lines of 128 bytes.
pub const SPSC_FUTEX_WORDS: usize = 64;
/// Which of them the other side sleeps on: it grows with each wake-up.
pub const SPSC_SIGNAL: usize = 0;
/// Whether this side sleeps.
const ASLEEP: usize = SPSC_FUTEX_WORDS / 2;

/// A side's words, as that side itself has them: its to write.
#[derive(Debug)]
pub struct SpscOwn<W, F> {
    position: W,
    futexes: F,
}

/// A side's words, as the other side has them: in memory that it can only read.
#[derive(Debug)]
pub struct SpscPeer<W, F> {
    position: W,
    futexes: F,
}

impl<W: AsRef<[SharedWord]>, F: AsRef<[FutexWord]>> SpscOwn<W, F> {
    /// The first of `position`, and [`SPSC_FUTEX_WORDS`].
    ///
    /// # Panics
    ///
    /// If there are fewer words.
    pub fn new(position: W, futexes: F) -> Self {
        assert!(
            !position.as_ref().is_empty() && futexes.as_ref().len() >= SPSC_FUTEX_WORDS,
            "a side's words"
        );
        Self { position, futexes }
    }

    /// Where this side begins.
    pub(super) fn position(&self) -> u64 {
        self.position.as_ref()[0].0.load(Ordering::Relaxed)
    }

    /// Moves on. What was done to the slots before is visible to whoever sees the new position.
    #[inline]
    pub(super) fn move_to(&self, position: u64) {
        // SYNC: spsc-position (release): the bytes and lengths of the slots, or the last read of them, come first.
        self.position.as_ref()[0].0.store(position, order!(SpscPosition, Release));
    }

    /// Says that this side sleeps from now on, on the other's signal, which was looked at before.
    ///
    /// SYNC: spsc-sleep. The announcement comes before the last look at the other's position.
    pub(super) fn announce(&self, barrier: &impl Barrier) {
        self.futexes.as_ref()[ASLEEP].0.store(1, Ordering::Relaxed);
        barrier.heavy();
    }

    /// Says that it does not sleep any more.
    pub(super) fn withdraw(&self) {
        self.futexes.as_ref()[ASLEEP].0.store(0, Ordering::Relaxed);
    }

    /// Changes the word that the other side sleeps on, which is then to be woken.
    #[cold]
    pub(super) fn signal(&self) -> &FutexWord {
        let word = &self.futexes.as_ref()[SPSC_SIGNAL];
        // Its own word: nobody else writes it.
        let next = word.0.load(Ordering::Relaxed).wrapping_add(1);
        word.0.store(next, Ordering::Relaxed);
        word
    }
}

impl<W: AsRef<[SharedWord]>, F: AsRef<[FutexWord]>> SpscPeer<W, F> {
    /// As [`SpscOwn::new`].
    ///
    /// # Panics
    ///
    /// If there are fewer words.
    pub fn new(position: W, futexes: F) -> Self {
        assert!(
            !position.as_ref().is_empty() && futexes.as_ref().len() >= SPSC_FUTEX_WORDS,
            "a side's words"
        );
        Self { position, futexes }
    }

    /// Where it is now, if that is at least where it was and at most where it may be.
    #[inline]
    pub(super) fn position(&self, least: u64, most: u64) -> Result<u64, SpscFault> {
        // Once: the word may be another at the next look.
        let found = self.position.as_ref()[0].0.load(Ordering::Relaxed);
        // SYNC: spsc-position (acquire): a fence, since an acquiring load of read-only memory is not allowed.
        if !is_weak!(SpscFence) {
            fence(Ordering::Acquire);
        }
        if found.wrapping_sub(least) <= most.wrapping_sub(least) {
            Ok(found)
        } else {
            Err(SpscFault::Position { found, least, most })
        }
    }

    /// Whether it sleeps and is to be woken. Called after this side has moved on.
    ///
    /// SYNC: spsc-sleep. The move comes before this look.
    #[inline]
    pub(super) fn is_asleep(&self, barrier: &impl Barrier) -> bool {
        barrier.light();
        self.futexes.as_ref()[ASLEEP].0.load(Ordering::Relaxed) != 0
    }

    /// What its [signal](SPSC_SIGNAL) is now.
    pub(super) fn signal(&self) -> u32 {
        self.futexes.as_ref()[SPSC_SIGNAL].0.load(Ordering::Relaxed)
    }
}
