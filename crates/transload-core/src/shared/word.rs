//! Words in memory that several processes map.

use crate::sync::{AtomicU32, AtomicU64};

/// One 64-bit word that several processes read and write, at any moment and with any value.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct SharedWord(pub(super) AtomicU64);

/// One 32-bit word that threads of several processes sleep on.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct FutexWord(pub(super) AtomicU32);

impl SharedWord {
    /// A word that holds `value`.
    pub fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// What it holds at this moment. What was written before a [`store`](SharedWord::store) of it is visible then.
    pub fn load(&self) -> u64 {
        // SYNC: shared-word (acquire)
        self.0.load(crate::sync::Ordering::Acquire)
    }

    /// Replaces what it holds. SYNC: shared-word (release)
    pub fn store(&self, value: u64) {
        self.0.store(value, crate::sync::Ordering::Release);
    }
}

impl FutexWord {
    /// A word that holds `value`.
    pub fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    /// The word itself, for the system call that sleeps on it.
    #[cfg(not(feature = "model"))]
    pub fn as_atomic(&self) -> &AtomicU32 {
        &self.0
    }
}
