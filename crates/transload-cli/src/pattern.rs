//! Generated messages: each byte follows from the producer's number and the message's, so all can be checked.

use crate::finding::{Finding, word_at};

/// As many numbers as members of a shared region can have, and 0, which none has.
const MOST_MEMBERS: u16 = 1024;

/// The layout of generated messages.
///
/// The first 8 bytes, or as many as there are, are `number << producer_bits | producer`, little-endian. The rest are
/// words mixed from that, so that a message that is torn, stale or shifted shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    message_size: usize,
    producers: u64,
    producer_bits: u32,
    /// Bits of the first word that a message has room for.
    stamp_bits: u32,
}

impl Pattern {
    /// For so many producers; nothing if messages are too small to tell them apart.
    pub(crate) fn new(message_size: usize, producers: u16) -> Option<Self> {
        let producer_bits = u16::BITS - (producers - 1).leading_zeros();
        let stamp_bits = u32::try_from(message_size.min(8)).ok()? * 8;
        (producer_bits <= stamp_bits).then_some(Self {
            message_size,
            producers: producers.into(),
            producer_bits,
            stamp_bits,
        })
    }

    /// For messages of all members of a shared region, each told apart by its number; nothing if they are too small.
    pub(crate) fn of_members(message_size: usize) -> Option<Self> {
        Self::new(message_size, MOST_MEMBERS)
    }

    fn stamp(self, producer: u64, number: u64) -> u64 {
        let stamp = number << self.producer_bits | producer;
        if self.stamp_bits == 64 { stamp } else { stamp & ((1 << self.stamp_bits) - 1) }
    }

    /// Writes a message.
    pub(crate) fn fill(self, producer: u64, number: u64, message: &mut [u8]) {
        self.fill_from(producer, number, 0, message);
    }

    /// Writes a part of a message, from an offset in it on.
    pub(crate) fn fill_from(self, producer: u64, number: u64, offset: usize, part: &mut [u8]) {
        let stamp = self.stamp(producer, number);
        let (index, skipped) = (offset / 8, offset % 8);
        let (first, rest) = part.split_at_mut(part.len().min((8 - skipped) % 8));
        first.copy_from_slice(&word_at(stamp, index as u64)[skipped..skipped + first.len()]);
        let next = offset.div_ceil(8);
        for (index, word) in (next as u64..).zip(rest.chunks_mut(8)) {
            word.copy_from_slice(&word_at(stamp, index)[..word.len()]);
        }
    }

    /// The producer and the number, as far as a message has room for them, if every byte is as it must be.
    fn read(self, found: Finding) -> Option<(u64, u64)> {
        let producer = found.stamp & ((1 << self.producer_bits) - 1);
        (found.right && found.len_bytes == self.message_size && producer < self.producers)
            .then_some((producer, found.stamp >> self.producer_bits))
    }
}

/// Numbers with fewer bits come round again while a lossy policy drops messages in a row: they tell no order then.
const ENOUGH_BITS: u32 = 36;

/// Checks generated messages as they come back, in the order of each producer.
#[derive(Debug)]
pub(crate) struct PatternCheck {
    pattern: Pattern,
    /// The number that is expected next of each producer.
    expected: Vec<u64>,
}

impl PatternCheck {
    pub(crate) fn new(pattern: Pattern) -> Self {
        let producers = usize::try_from(pattern.producers).unwrap_or_default();
        Self { pattern, expected: vec![0; producers] }
    }

    /// Whether a message is whole, and none before it is repeated, nor missing unless some may be.
    pub(crate) fn accepts(&mut self, found: Finding, lossy: bool) -> bool {
        let Some((producer, number)) = self.pattern.read(found) else { return false };
        let Some(expected) = usize::try_from(producer).ok().and_then(|index| self.expected.get_mut(index))
        else {
            return false;
        };
        let bits = self.pattern.stamp_bits - self.pattern.producer_bits;
        if bits == 0 || lossy && bits < ENOUGH_BITS {
            return true;
        }
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let ahead = number.wrapping_sub(*expected) & mask;
        // Behind looks like far ahead.
        let forward = ahead <= mask / 2;
        if forward {
            // Also if some are missing: that is told once.
            *expected = expected.wrapping_add(ahead).wrapping_add(1);
        }
        forward && (lossy || ahead == 0)
    }
}

/// Checks generated messages that members of a shared region have sent, in the order of each member.
///
/// Where it begins to look a member may be anywhere in its numbers, and one whose number is another's by now begins anew.
#[derive(Debug)]
pub(crate) struct MembersCheck {
    /// The number that is expected next of each member; nothing before its first message.
    expected: Vec<Option<u64>>,
}

impl MembersCheck {
    pub(crate) fn new() -> Self {
        Self { expected: vec![None; MOST_MEMBERS.into()] }
    }

    /// Whether a message is whole, and the next of its member, or its first.
    pub(crate) fn accepts(&mut self, found: Finding, lossy: bool) -> bool {
        let Some(pattern) = Pattern::of_members(found.len_bytes) else { return false };
        let Some((member, number)) = pattern.read(found) else { return false };
        let Some(expected) = usize::try_from(member).ok().and_then(|member| self.expected.get_mut(member))
        else {
            return false;
        };
        let bits = pattern.stamp_bits - pattern.producer_bits;
        let next = |number: u64| number.wrapping_add(1) & (u64::MAX >> (64 - bits));
        // Also if some are missing or come again: that is told once.
        let before = expected.replace(next(number));
        before.is_none_or(|before| number == before || number == 0 || lossy && number > before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(pattern: Pattern, producer: u64, number: u64) -> Vec<u8> {
        let mut message = vec![0xAA; pattern.message_size];
        pattern.fill(producer, number, &mut message);
        message
    }

    fn found(pattern: Pattern, producer: u64, number: u64) -> Finding {
        Finding::of(&message(pattern, producer, number))
    }

    #[test]
    fn what_is_generated_is_accepted_whatever_its_size() {
        for message_size in [1, 3, 7, 8, 9, 24, 63, 256, 4097] {
            for producers in [1, 2, 3, 4] {
                let pattern = Pattern::new(message_size, producers).unwrap();
                let mut check = PatternCheck::new(pattern);
                for number in 0..1000 {
                    for producer in 0..u64::from(producers) {
                        assert!(
                            check.accepts(found(pattern, producer, number), false),
                            "{message_size} {producers}"
                        );
                    }
                }
            }
        }
        assert!(Pattern::new(1, 257).is_none());
    }

    #[test]
    fn parts_make_up_the_whole() {
        let pattern = Pattern::new(61, 3).unwrap();
        let whole = message(pattern, 2, 77);
        for cut in 0..=61 {
            for end in cut..=61 {
                let mut part = vec![0xAA; end - cut];
                pattern.fill_from(2, 77, cut, &mut part);
                assert_eq!(part, whole[cut..end], "{cut}..{end}");
            }
        }
    }

    #[test]
    fn each_flipped_bit_is_caught() {
        let pattern = Pattern::new(61, 3).unwrap();
        for bit in 0..61 * 8 {
            let mut torn = message(pattern, 1, 0);
            torn[bit / 8] ^= 1 << (bit % 8);
            assert!(!PatternCheck::new(pattern).accepts(Finding::of(&torn), false), "bit {bit}");
        }
    }

    #[test]
    fn numbers_that_come_round_while_messages_are_dropped_tell_nothing() {
        let pattern = Pattern::new(1, 4).unwrap();
        let mut check = PatternCheck::new(pattern);
        for number in [0, 40, 3, 64, 64] {
            assert!(check.accepts(found(pattern, 3, number), true));
        }
        let pattern = Pattern::new(9, 3).unwrap();
        let mut check = PatternCheck::new(pattern);
        assert!(check.accepts(found(pattern, 2, 1 << 40), true));
        assert!(!check.accepts(found(pattern, 2, 1 << 39), true), "there is room for numbers that only grow");
        assert!(!check.accepts(found(pattern, 3, 0), true), "there are three producers");
    }

    #[test]
    fn missing_and_repeated_messages_are_caught() {
        let pattern = Pattern::new(16, 2).unwrap();
        let mut check = PatternCheck::new(pattern);
        assert!(check.accepts(found(pattern, 0, 0), false));
        assert!(!check.accepts(found(pattern, 0, 0), false), "repeated");
        assert!(!check.accepts(found(pattern, 0, 2), false), "missing");
        assert!(check.accepts(found(pattern, 0, 3), false), "which is told once");
        let mut check = PatternCheck::new(pattern);
        assert!(check.accepts(found(pattern, 0, 5), true), "a lossy policy drops some");
        assert!(!check.accepts(found(pattern, 0, 4), true), "but never goes back");
        assert!(!check.accepts(found(pattern, 0, 5), true), "nor repeats");
        assert!(!check.accepts(Finding::of(&message(pattern, 0, 6)[..15]), true), "nor cuts");
    }

    #[test]
    fn members_are_checked_each_for_itself_wherever_they_begin() {
        for message_size in [2, 3, 8, 24, 61] {
            let pattern = Pattern::of_members(message_size).unwrap();
            let mut check = MembersCheck::new();
            for number in 10..100 {
                for member in [1, 7, 1023] {
                    let found = found(pattern, member, number);
                    assert!(check.accepts(found, false), "{message_size} {member} {number}");
                }
            }
        }
        let pattern = Pattern::of_members(24).unwrap();
        let mut check = MembersCheck::new();
        let mut accepts = |member, number, lossy| check.accepts(found(pattern, member, number), lossy);
        assert!(accepts(5, 7, false) && accepts(5, 8, false));
        assert!(!accepts(5, 8, false), "repeated");
        assert!(!accepts(5, 10, false), "missing");
        assert!(accepts(5, 11, false), "which is told once");
        assert!(accepts(5, 13, true) && !accepts(5, 12, true), "lost ones are no repeats");
        assert!(accepts(5, 0, false) && accepts(5, 1, false), "another has its number");
        let mut torn = message(pattern, 5, 2);
        torn[23] ^= 1;
        assert!(!check.accepts(Finding::of(&torn), false));
        assert!(!check.accepts(Finding::of(&[1]), false), "too short to tell");
    }
}
