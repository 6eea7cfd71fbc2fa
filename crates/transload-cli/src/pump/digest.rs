//! The check of messages that come from outside: a digest of each goes round the device, and is compared with what
//! comes back.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// Digests of messages that are on their way, in order. One source writes, the pump's thread reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Digests {
    on_their_way: Arc<Mutex<VecDeque<u64>>>,
}

fn digest(message: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(message);
    hasher.finish()
}

impl Digests {
    /// Notes a message, before it can arrive.
    pub(super) fn note(&self, message: &[u8]) {
        let digest = digest(message);
        self.on_their_way.lock().unwrap_or_else(PoisonError::into_inner).push_back(digest);
    }

    /// Whether this is the next message. A lossy policy may have dropped some before it.
    pub(super) fn accepts(&self, message: &[u8], lossy: bool) -> bool {
        let digest = digest(message);
        let mut on_their_way = self.on_their_way.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead = if lossy {
            on_their_way.iter().position(|&noted| noted == digest)
        } else {
            on_their_way.front().filter(|&&noted| noted == digest).map(|_| 0)
        };
        let skipped = ahead.map_or(1, |ahead| ahead + 1).min(on_their_way.len());
        on_their_way.drain(..skipped);
        ahead.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_compared_with_its_own() {
        let digests = Digests::default();
        for message in [b"one", b"two", b"six"] {
            digests.note(message);
        }
        assert!(digests.accepts(b"one", false));
        assert!(!digests.accepts(b"twp", false), "changed");
        assert!(digests.accepts(b"six", false), "one fault does not spoil the next");
        assert!(!digests.accepts(b"six", false), "more than were sent");
    }

    #[test]
    fn a_lossy_policy_may_drop_but_not_repeat() {
        let digests = Digests::default();
        for message in [b"one", b"two", b"six"] {
            digests.note(message);
        }
        assert!(digests.accepts(b"six", true));
        assert!(!digests.accepts(b"two", true));
    }
}
