//! What wakes this back end.

use std::sync::Arc;

use polling::Poller;

use super::super::backend::Alarm;

/// The poller's own notification: rung before a wait, it ends that wait.
#[derive(Clone)]
pub(super) struct Bell(Arc<Poller>);

impl Bell {
    pub(super) fn new(poller: Arc<Poller>) -> Self {
        Self(poller)
    }
}

impl Alarm for Bell {
    fn ring(&self) {
        // It fails only if the poller's own descriptor is broken, and then its waits fail and say so.
        let _ = self.0.notify();
    }
}
