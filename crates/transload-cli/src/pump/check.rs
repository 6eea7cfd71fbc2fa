//! Whether what comes back is what was sent, and how much of it.

use std::sync::Arc;

use transload_core::Counter;

use super::digest::Digests;
use crate::finding::Finding;
use crate::framing::Framing;
use crate::pattern::{MembersCheck, PatternCheck};

/// Checks messages as they come back.
#[derive(Debug)]
pub(super) struct Check {
    by: By,
    /// Whether messages may be missing: the policy drops or refuses some, or a copy was given up.
    lossy: bool,
    counts: Arc<Counts>,
}

/// What a message is compared with.
#[derive(Debug)]
pub(super) enum By {
    /// Generated messages: with what they must be.
    Pattern(PatternCheck),
    /// Messages from outside: with their digests.
    Digest(Digests),
    /// Messages that members of a shared region have generated, framed so: with what they must be.
    Members(MembersCheck, Framing),
}

/// How many messages were right, and how many not.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) verified: Counter,
    pub(super) corrupt: Counter,
}

impl Check {
    pub(super) fn new(by: By, lossy: bool) -> (Self, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        (Self { by, lossy, counts: counts.clone() }, counts)
    }

    /// Some messages will not come.
    pub(super) fn lost(&mut self) {
        self.lossy = true;
    }

    /// Looks at a message that has come back.
    pub(super) fn message(&mut self, message: &[u8]) {
        let right = match &mut self.by {
            By::Pattern(check) => check.accepts(Finding::of(message), self.lossy),
            By::Digest(digests) => digests.accepts(message, self.lossy),
            By::Members(check, framing) => framing
                .payload(message)
                .is_some_and(|payload| check.accepts(Finding::of(payload), self.lossy)),
        };
        self.count(right);
    }

    /// Takes what the device has found in a message; nothing is wrong.
    pub(super) fn finding(&mut self, found: Option<Finding>) {
        let right = found.is_some_and(|found| match &mut self.by {
            By::Pattern(check) => check.accepts(found, self.lossy),
            By::Members(check, _) => check.accepts(found, self.lossy),
            // A digest needs the message itself.
            By::Digest(_) => false,
        });
        self.count(right);
    }

    fn count(&self, right: bool) {
        let count = if right { &self.counts.verified } else { &self.counts.corrupt };
        count.add_as_only_writer(1);
    }
}
