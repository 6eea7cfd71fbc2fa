//! Stops the copies of a host device.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Stops the copies of a host device while it is closed. Clones are handles on the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    inner: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    /// An open gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops copies that have not begun.
    pub fn close(&self) {
        self.set(true);
    }

    /// Lets copies go on.
    pub fn open(&self) {
        self.set(false);
    }

    fn set(&self, closed: bool) {
        let (state, changed) = &*self.inner;
        *state.lock().unwrap_or_else(PoisonError::into_inner) = closed;
        changed.notify_all();
    }

    /// Waits until the gate is open.
    pub(super) fn pass(&self) {
        let (state, changed) = &*self.inner;
        let mut closed = state.lock().unwrap_or_else(PoisonError::into_inner);
        while *closed {
            closed = changed.wait(closed).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
