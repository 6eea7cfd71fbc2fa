//! Messages of `N` bytes: how they are stamped, and how a damaged one is told from a whole one.
//!
//! A tag names the producer and the number of the message. The first eight bytes of a message are its tag. In the
//! verifying mode every other word of eight bytes is a hash of the tag, mixed with a constant of that position: so
//! every byte depends on the tag and on where it stands, and two halves of two messages never make a whole one. In the
//! timed mode only the first and the last word carry the tag, which costs next to nothing and still shows a message
//! that was read while it was being written.

/// The largest message, in bytes.
pub const LARGEST: usize = 4096;

const WORD: usize = 8;
const SEQUENCE_BITS: u32 = 48;

/// One constant for each position of a word in a message.
const POSITIONS: [u64; LARGEST / WORD] = {
    let mut table = [0; LARGEST / WORD];
    let mut at = 0;
    let mut seed = 0;
    while at < table.len() {
        seed += 1;
        table[at] = mix(seed);
        at += 1;
    }
    table
};

/// The 64-bit finaliser of `SplitMix64`: every bit of the result depends on every bit of `value`.
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Names message number `sequence` of producer number `producer`. Never zero, so that memory that was never written
/// is no message.
pub const fn tag(producer: usize, sequence: u64) -> u64 {
    ((producer as u64 + 1) << SEQUENCE_BITS) | sequence
}

/// The producer and the sequence number that a tag names; `None` for a tag that [`tag`] never makes.
pub fn untag(tag: u64) -> Option<(usize, u64)> {
    let producer = usize::try_from(tag >> SEQUENCE_BITS).ok()?.checked_sub(1)?;
    Some((producer, tag & ((1 << SEQUENCE_BITS) - 1)))
}

/// The word of eight bytes at byte `at` of the message.
#[inline]
fn word(message: &[u8], at: usize) -> u64 {
    let mut bytes = [0; WORD];
    bytes.copy_from_slice(&message[at..at + WORD]);
    u64::from_le_bytes(bytes)
}

/// The message's first word: its tag.
#[inline]
pub fn first_word(message: &[u8]) -> u64 {
    word(message, 0)
}

/// The message's last word.
#[inline]
pub fn last_word(message: &[u8]) -> u64 {
    word(message, message.len() - WORD)
}

/// Writes the tag at both ends of the message and nothing between.
#[inline]
pub fn stamp_ends(message: &mut [u8], tag: u64) {
    let last = message.len() - WORD;
    message[..WORD].copy_from_slice(&tag.to_le_bytes());
    message[last..].copy_from_slice(&tag.to_le_bytes());
}

/// Fills the whole message with bytes that depend on the tag.
#[inline]
pub fn stamp_whole(message: &mut [u8], tag: u64) {
    for (at, bytes) in message.chunks_exact_mut(WORD).enumerate() {
        bytes.copy_from_slice(&whole_word(tag, at).to_le_bytes());
    }
}

/// One word of a message that [`stamp_whole`] fills, counted from 0.
#[inline]
pub fn whole_word(tag: u64, at: usize) -> u64 {
    if at == 0 { tag } else { mix(tag) ^ POSITIONS[at] }
}

/// Whether every byte of the message is as [`stamp_whole`] writes it for the tag that it carries.
#[inline]
pub fn is_whole(message: &[u8]) -> bool {
    let hash = mix(first_word(message));
    let mut wrong = 0;
    for (bytes, position) in message.chunks_exact(WORD).zip(&POSITIONS).skip(1) {
        wrong |= first_word(bytes) ^ hash ^ position;
    }
    wrong == 0
}

/// Whether every byte is zero: a slot that was never written.
pub fn is_blank(message: &[u8]) -> bool {
    message.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_its_producer_and_number() {
        for (producer, sequence) in [(0, 0), (3, 1), (7, (1 << 48) - 1)] {
            assert_eq!(untag(tag(producer, sequence)), Some((producer, sequence)));
        }
        assert_eq!(untag(0), None);
    }

    #[test]
    fn every_single_changed_byte_is_seen() {
        let mut message = [0_u8; 256];
        stamp_whole(&mut message, tag(1, 77));
        assert!(is_whole(&message));
        for at in 0..message.len() {
            message[at] ^= 1;
            assert!(!is_whole(&message), "a change of byte {at} goes unseen");
            message[at] ^= 1;
        }
    }

    #[test]
    fn two_halves_of_two_messages_are_no_message() {
        let (mut old, mut new) = ([0_u8; 64], [0_u8; 64]);
        stamp_whole(&mut old, tag(0, 5));
        stamp_whole(&mut new, tag(0, 6));
        for cut in 1..64 {
            let mut torn = old;
            torn[..cut].copy_from_slice(&new[..cut]);
            assert_eq!(is_whole(&torn), torn == old || torn == new, "cut at byte {cut}");
        }
    }

    #[test]
    fn both_ends_carry_the_tag() {
        let mut message = [0_u8; 64];
        stamp_ends(&mut message, 9);
        assert_eq!((first_word(&message), last_word(&message)), (9, 9));
        assert!(is_blank(&message[8..56]));
    }
}
