//! When everybody stops reading, and why.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use event_listener::Event;
use transload_core::Flag;

use super::report::StoppedBy;
use crate::failure::Failure;

/// Tells everybody to stop reading and to send what they have. The first reason counts.
#[derive(Debug, Default)]
pub(super) struct Stop {
    first: RefCell<Option<(StoppedBy, Instant)>>,
    failure: RefCell<Option<Failure>>,
    /// For the reading thread.
    raised: Arc<Flag>,
    event: Event,
}

impl Stop {
    pub(super) fn now(&self, why: StoppedBy) {
        self.first.borrow_mut().get_or_insert_with(|| (why, Instant::now()));
        self.raised.raise();
        self.event.notify(usize::MAX);
    }

    /// Stops because of a failure. The first is reported.
    pub(super) fn fail(&self, failure: Failure) {
        self.failure.borrow_mut().get_or_insert(failure);
        self.now(StoppedBy::Error);
    }

    pub(super) fn has_come(&self) -> bool {
        self.raised.is_raised()
    }

    /// Why, and since when.
    pub(super) fn reason(&self) -> Option<(StoppedBy, Instant)> {
        *self.first.borrow()
    }

    pub(super) fn take_failure(&self) -> Option<Failure> {
        self.failure.borrow_mut().take()
    }

    pub(super) fn flag(&self) -> Arc<Flag> {
        self.raised.clone()
    }

    /// Is ready when it has come.
    pub(super) async fn comes(&self) {
        loop {
            let listener = self.event.listen();
            if self.has_come() {
                return;
            }
            listener.await;
        }
    }
}
