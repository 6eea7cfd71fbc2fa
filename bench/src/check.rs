//! What is written into each message and what is looked at in each: the difference between a timed and a verified run.

use crate::message::{first_word, last_word, stamp_ends, tag};

/// The same content on both sides of a run.
pub trait Check: Send {
    /// Makes the message that the tag names.
    fn stamp(message: &mut [u8], tag: u64);

    /// Looks at a message that arrived.
    fn see(&mut self, message: &[u8]);
}

/// For timed runs: a tag at both ends. Costs two stores and two loads a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// Messages whose two ends differ: read while they were written.
    pub torn: u64,
    sum: u64,
}

impl Ends {
    /// Whether the tags that arrived add up to those that were sent. A stale, doubled or lost message shows here.
    pub fn balances(&self, sent: &[u64]) -> bool {
        self.sum == sum_of_tags(sent)
    }
}

impl Check for Ends {
    #[inline]
    fn stamp(message: &mut [u8], tag: u64) {
        stamp_ends(message, tag);
    }

    #[inline]
    fn see(&mut self, message: &[u8]) {
        let first = first_word(message);
        self.torn += u64::from(first != last_word(message));
        self.sum = self.sum.wrapping_add(first);
    }
}

/// For timed runs in place: a tag at both ends, and one word read from each cache line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines {
    sum: u64,
    lines: u64,
}

impl Lines {
    /// Whether the tags that arrived add up to those that were sent.
    pub fn balances(&self, sent: &[u64]) -> bool {
        self.sum == sum_of_tags(sent)
    }

    /// A value that depends on every line read, so that no read can be left out.
    pub fn lines(&self) -> u64 {
        self.lines
    }
}

impl Check for Lines {
    #[inline]
    fn stamp(message: &mut [u8], tag: u64) {
        stamp_ends(message, tag);
    }

    #[inline]
    fn see(&mut self, message: &[u8]) {
        self.sum = self.sum.wrapping_add(first_word(message));
        for line in message.chunks_exact(64) {
            self.lines = self.lines.wrapping_add(first_word(line));
        }
    }
}

/// The sum of all tags, where producer number `i` sent the first `sent[i]` of its messages.
fn sum_of_tags(sent: &[u64]) -> u64 {
    let mut sum = 0_u64;
    for (producer, &count) in sent.iter().enumerate() {
        let sequences = if count % 2 == 0 {
            (count / 2).wrapping_mul(count.wrapping_sub(1))
        } else {
            count.wrapping_mul(count / 2)
        };
        sum = sum.wrapping_add(tag(producer, 0).wrapping_mul(count)).wrapping_add(sequences);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_tags_are_those_of_the_messages() {
        for sent in [vec![0], vec![1], vec![2, 5], vec![9, 0, 4]] {
            let mut sum = 0_u64;
            for (producer, &count) in sent.iter().enumerate() {
                for sequence in 0..count {
                    sum = sum.wrapping_add(tag(producer, sequence));
                }
            }
            assert_eq!(sum_of_tags(&sent), sum, "{sent:?}");
        }
    }

    #[test]
    fn two_ends_that_differ_are_counted() {
        let mut message = [0_u8; 64];
        Ends::stamp(&mut message, tag(0, 0));
        let mut ends = Ends::default();
        ends.see(&message);
        message[63] ^= 1;
        ends.see(&message);
        assert_eq!(ends.torn, 1);
        assert!(!ends.balances(&[1]), "the first message arrived twice");
    }
}
