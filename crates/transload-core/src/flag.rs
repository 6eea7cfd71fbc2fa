//! A yes or no that one thread tells another.

use crate::sync::{
    AtomicBool,
    Ordering::{Acquire, Release},
};

/// A flag that threads raise for each other.
///
/// What was written before [`raise`](Flag::raise) is visible to whoever then sees the flag raised.
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// A lowered flag.
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Raises the flag. SYNC: flag
    pub fn raise(&self) {
        self.0.store(true, Release);
    }

    /// Raises the flag and says whether it was this call that did. SYNC: flag
    pub fn raise_first(&self) -> bool {
        !self.0.swap(true, crate::sync::Ordering::AcqRel)
    }

    /// Whether the flag has been raised. SYNC: flag
    pub fn is_raised(&self) -> bool {
        self.0.load(Acquire)
    }

    /// Lowers the flag and says whether it had been raised. SYNC: flag
    pub fn take(&self) -> bool {
        self.0.load(Acquire) && self.0.swap(false, crate::sync::Ordering::AcqRel)
    }
}
