//! The verifying mode: every byte of every message is checked, and the order of each producer's messages.

use serde::Serialize;

use crate::check::Check;
use crate::message::{first_word, is_blank, is_whole, stamp_whole, untag};

/// What a verified run found. All of it is zero, less `messages`, for a queue that works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Messages that arrived in whatever state.
    pub messages: u64,
    /// Messages that hold bytes of more than one message.
    pub torn: u64,
    /// Whole messages that arrived before, or out of their producer's order, and slots that were never written.
    pub stale: u64,
    /// Messages that were accepted and never arrived whole and in order.
    pub missing: u64,
    /// Runs that had to be stopped.
    pub overdue: u64,
}

impl Findings {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        (self.torn, self.stale, self.missing, self.overdue) == (0, 0, 0, 0)
    }

    /// Adds what another run found.
    pub fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.torn += other.torn;
        self.stale += other.stale;
        self.missing += other.missing;
        self.overdue += other.overdue;
    }
}

/// Looks at messages in the order in which they arrive.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// The number that is expected next from each producer.
    next: Vec<u64>,
    findings: Findings,
}

impl Verifier {
    /// Expects the messages of so many producers, each from number 0 on.
    pub fn new(producers: usize) -> Self {
        Self { next: vec![0; producers], findings: Findings::default() }
    }

    /// What was found, when each producer's queue accepted `sent[producer]` messages.
    pub fn findings(&self, sent: &[u64]) -> Findings {
        let unseen = sent.iter().zip(&self.next).map(|(sent, next)| sent.saturating_sub(*next)).sum::<u64>();
        Findings { missing: self.findings.missing + unseen, ..self.findings }
    }
}

impl Check for Verifier {
    #[inline]
    fn stamp(message: &mut [u8], tag: u64) {
        stamp_whole(message, tag);
    }

    fn see(&mut self, message: &[u8]) {
        self.findings.messages += 1;
        if !is_whole(message) {
            if is_blank(message) {
                self.findings.stale += 1;
            } else {
                self.findings.torn += 1;
            }
            return;
        }
        let Some((producer, sequence)) = untag(first_word(message)) else {
            self.findings.torn += 1;
            return;
        };
        let Some(next) = self.next.get_mut(producer) else {
            self.findings.torn += 1;
            return;
        };
        if sequence < *next {
            self.findings.stale += 1;
        } else {
            self.findings.missing += sequence - *next;
            *next = sequence + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tag;

    fn message(producer: usize, sequence: u64) -> [u8; 64] {
        let mut message = [0; 64];
        stamp_whole(&mut message, tag(producer, sequence));
        message
    }

    fn see_all(messages: &[[u8; 64]], sent: &[u64]) -> Findings {
        let mut verifier = Verifier::new(sent.len());
        for message in messages {
            verifier.see(message);
        }
        verifier.findings(sent)
    }

    #[test]
    fn producers_may_interleave() {
        let findings = see_all(&[message(0, 0), message(1, 0), message(1, 1), message(0, 1)], &[2, 2]);
        assert!(findings.is_clean(), "{findings:?}");
        assert_eq!(findings.messages, 4);
    }

    #[test]
    fn what_is_left_out_is_missing() {
        assert_eq!(see_all(&[message(0, 0), message(0, 2)], &[3]).missing, 1);
        assert_eq!(see_all(&[message(0, 0)], &[3]).missing, 2, "the last ones too");
    }

    #[test]
    fn doubled_and_reordered_messages_are_stale() {
        assert_eq!(see_all(&[message(0, 0), message(0, 0)], &[1]).stale, 1);
        let swapped = see_all(&[message(0, 1), message(0, 0)], &[2]);
        assert_eq!((swapped.missing, swapped.stale), (1, 1));
        assert_eq!(see_all(&[[0; 64]], &[0]).stale, 1, "a blank slot");
    }

    #[test]
    fn damage_is_torn() {
        let mut torn = message(0, 0);
        torn[40..].copy_from_slice(&message(0, 1)[40..]);
        assert_eq!(see_all(&[torn], &[0]).torn, 1);
        assert_eq!(see_all(&[message(5, 0)], &[0]).torn, 1, "a producer that does not exist");
    }
}
