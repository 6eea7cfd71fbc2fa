//! What is written into each message, word by word, and what is seen of each that arrives.

use crate::message::whole_word;

/// What stands in a message that a tag names.
pub trait Content {
    /// One of its words, counted from 0. The first is the tag.
    fn word(tag: u64, at: usize) -> u64;
}

/// For timed runs: the tag in every word. Costs a store and a comparison a word, and still shows a message that was read
/// while it was being written.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// For verifying runs: every bit depends on the tag and on where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Hashed;

impl Content for Plain {
    #[inline]
    fn word(tag: u64, _: usize) -> u64 {
        tag
    }
}

impl Content for Hashed {
    #[inline]
    fn word(tag: u64, at: usize) -> u64 {
        whole_word(tag, at)
    }
}

/// A message that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its first word.
    pub tag: u64,
    /// Whether all its other words are what the tag asks for.
    pub is_whole: bool,
}

/// Writes the message that a tag names.
///
/// # Safety
///
/// `to` is aligned and valid for writes of so many words, which nobody else reads or writes meanwhile.
#[inline]
pub(super) unsafe fn write<C: Content, const WORDS: usize>(to: *mut u64, tag: u64) {
    for at in 0..WORDS {
        // SAFETY: one of the words that the caller promises.
        unsafe { to.wrapping_add(at).write(C::word(tag, at)) };
    }
}

/// Reads a message, every word of it.
///
/// # Safety
///
/// `from` is aligned and valid for reads of so many words, at least one, which nobody writes meanwhile.
#[inline]
pub(super) unsafe fn read<C: Content, const WORDS: usize>(from: *const u64) -> Seen {
    // SAFETY: the first of the words that the caller promises.
    let tag = unsafe { from.read() };
    let mut wrong = 0;
    for at in 0..WORDS {
        // SAFETY: one of the words that the caller promises.
        wrong |= unsafe { from.wrapping_add(at).read() } ^ C::word(tag, at);
    }
    Seen { tag, is_whole: wrong == 0 }
}

/// The message that a tag names, as bytes.
#[inline]
pub(super) fn bytes<C: Content, const WORDS: usize>(tag: u64) -> [[u8; 8]; WORDS] {
    std::array::from_fn(|at| C::word(tag, at).to_ne_bytes())
}

/// What is seen of a message that was copied out.
#[inline]
pub(super) fn see<C: Content, const WORDS: usize>(message: &[[u8; 8]; WORDS]) -> Seen {
    let tag = u64::from_ne_bytes(message[0]);
    let mut wrong = 0;
    for (at, word) in message.iter().enumerate() {
        wrong |= u64::from_ne_bytes(*word) ^ C::word(tag, at);
    }
    Seen { tag, is_whole: wrong == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_changed_bit_is_seen<C: Content>() {
        let tag = crate::message::tag(2, 77);
        let message = bytes::<C, 8>(tag);
        assert_eq!(see::<C, 8>(&message), Seen { tag, is_whole: true });
        for at in 0..64 {
            let mut torn = message;
            torn.as_flattened_mut()[at] ^= 1;
            let seen = see::<C, 8>(&torn);
            assert!(!seen.is_whole, "a change of byte {at} goes unseen");
        }
    }

    #[test]
    fn no_change_goes_unseen() {
        every_changed_bit_is_seen::<Plain>();
        every_changed_bit_is_seen::<Hashed>();
    }

    #[test]
    fn in_place_and_copied_are_the_same() {
        let mut words = [0_u64; 8];
        // SAFETY: an array of so many words.
        unsafe { write::<Hashed, 8>(words.as_mut_ptr(), 5) };
        assert_eq!(words.map(u64::to_ne_bytes), bytes::<Hashed, 8>(5));
        // SAFETY: as above.
        let seen = unsafe { read::<Hashed, 8>(words.as_ptr()) };
        assert_eq!(seen, Seen { tag: 5, is_whole: true });
        words[7] ^= 1 << 63;
        // SAFETY: as above.
        assert!(!unsafe { read::<Hashed, 8>(words.as_ptr()) }.is_whole);
    }
}
