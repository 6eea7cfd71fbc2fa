//! How sources are told to stop.

use event_listener::Event;
use transload_core::Flag;

/// Raised once when sources are to stop; wakes those that wait in a future.
#[derive(Debug, Default)]
pub(super) struct Stop {
    flag: Flag,
    event: Event,
}

impl Stop {
    pub(super) fn raise(&self) {
        self.flag.raise();
        self.event.notify(usize::MAX);
    }

    pub(super) fn is_raised(&self) -> bool {
        self.flag.is_raised()
    }

    /// Waits until it is raised.
    pub(super) async fn raised(&self) {
        while !self.is_raised() {
            let woken = self.event.listen();
            // It may have been raised before there was a listener.
            if !self.is_raised() {
                woken.await;
            }
        }
    }
}
