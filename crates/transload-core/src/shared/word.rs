//! Words in memory that several processes map.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::wait::Barrier;

/// One 64-bit word that several processes read and write, at any moment and with any value.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct SharedWord(pub(crate) AtomicU64);

/// One 32-bit word that threads of several processes sleep on.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct FutexWord(pub(crate) AtomicU32);

impl SharedWord {
    /// A word that holds `value`.
    pub fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// What it holds at this moment. What was written before a [`store`](SharedWord::store) of it is visible then.
    pub fn load(&self) -> u64 {
        // SYNC: shared-word (acquire)
        self.0.load(Ordering::Acquire)
    }

    /// Replaces what it holds. SYNC: shared-word (release)
    pub fn store(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }
}

impl FutexWord {
    /// A word that holds `value`.
    pub fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    /// Says that somebody sleeps on it from now on: it is 1 until somebody wakes. Look once more for what you wait for
    /// before you do sleep, and sleep only while the word is 1, and not for ever: whoever was to wake you may be dead.
    ///
    /// SYNC: shared-sleep. The announcement comes before that look, as seen by whoever makes it true.
    pub fn announce(&self, barrier: &impl Barrier) {
        self.0.store(1, Ordering::Relaxed);
        barrier.heavy();
    }

    /// Whether somebody sleeps on it, who is then to be woken, with all others. Called behind the light barrier.
    ///
    /// SYNC: shared-sleep. What the sleeper waits for comes before this look.
    #[inline]
    pub fn take_announcement(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0 && self.0.swap(0, Ordering::Relaxed) != 0
    }

    /// The word itself, for the system call that sleeps on it.
    pub fn as_atomic(&self) -> &AtomicU32 {
        &self.0
    }
}
