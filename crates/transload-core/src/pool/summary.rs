//! A tree of bits: where free buffers may be, for all threads.

use crate::sync::{AtomicU64, Ordering};

/// 64 bits of the tree, in the caller's memory. Zero at first.
#[derive(Debug)]
pub struct HintWord(AtomicU64);

impl HintWord {
    /// No hints.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Default for HintWord {
    fn default() -> Self {
        Self::new()
    }
}

/// 64 to the sixth power is more than there can be buffers.
const LEVELS: usize = 6;
const BITS: usize = 64;
/// A search gives up after so many words that were empty when it came to them; others find more there than it can.
const PATIENCE: usize = 64;

/// One bit a buffer in the lowest level; above it, one bit for each word below that is not zero.
///
/// All of it is hints, so an order that is too weak would lose hints and not buffers. It does not: the orders are those
/// that keep a word from staying hidden below a zero bit. Whoever clears a bit looks at the word below once more, by a
/// read-modify-write: either it sees the bits that another has set since, or the other's setting of the bit above comes
/// after the clearing.
#[derive(Debug)]
pub(super) struct Summary<H> {
    words: H,
    /// Where each level begins, the lowest first.
    levels: [usize; LEVELS],
    depth: usize,
}

/// How many words, and how many of them before each level.
fn layout(buffers: usize) -> (usize, [usize; LEVELS], usize) {
    let (mut total, mut levels, mut depth) = (0, [0; LEVELS], 0);
    let mut width = buffers;
    loop {
        width = width.div_ceil(BITS);
        levels[depth] = total;
        total += width;
        depth += 1;
        if width <= 1 || depth == LEVELS {
            return (total, levels, depth);
        }
    }
}

pub(super) fn words_for(buffers: usize) -> usize {
    layout(buffers).0
}

impl<H: AsRef<[HintWord]>> Summary<H> {
    /// A tree over `buffers` free buffers.
    pub(super) fn full(buffers: usize, words: H) -> Self {
        let (_, levels, depth) = layout(buffers);
        let summary = Self { words, levels, depth };
        let mut width = buffers;
        for level in 0..depth {
            for at in 0..width.div_ceil(BITS) {
                let bits = (width - at * BITS).min(BITS);
                let mask = u64::MAX >> (BITS - bits);
                summary.word(level, at).store(mask, Ordering::Relaxed);
            }
            width = width.div_ceil(BITS);
        }
        summary
    }

    fn word(&self, level: usize, at: usize) -> &AtomicU64 {
        &self.words.as_ref()[self.levels[level] + at].0
    }

    /// Sets bits of one word of the lowest level.
    pub(super) fn put(&self, word: usize, mask: u64) {
        self.put_above(0, word, mask);
    }

    /// Sets bits of a word, and those above that lead to it.
    fn put_above(&self, level: usize, word: usize, mask: u64) {
        let (mut at, mut mask) = (word, mask);
        for level in level..self.depth {
            if self.word(level, at).fetch_or(mask, Ordering::AcqRel) != 0 {
                return;
            }
            mask = 1 << (at % BITS);
            at /= BITS;
        }
    }

    /// Takes a whole word of the lowest level: its number and bits. `start` turns the search, so that threads take
    /// different words.
    pub(super) fn take(&self, start: u32) -> Option<(usize, u64)> {
        for _ in 0..PATIENCE {
            let mut at = 0;
            for level in (0..self.depth).rev() {
                let bits = self.word(level, at).load(Ordering::Relaxed);
                if bits == 0 {
                    if level + 1 == self.depth {
                        return None;
                    }
                    break;
                }
                if level == 0 {
                    let mask = self.word(0, at).swap(0, Ordering::AcqRel);
                    self.clear_above(0, at);
                    if mask != 0 {
                        return Some((at, mask));
                    }
                    break;
                }
                let turned = bits.rotate_right(start % 64);
                at = at * BITS + (turned.trailing_zeros().wrapping_add(start) % 64) as usize;
                if self.word(level - 1, at).load(Ordering::Relaxed) == 0 {
                    self.clear_above(level - 1, at);
                    break;
                }
            }
        }
        None
    }

    /// Clears the bits above a word that was seen empty, as far as they lead to nothing else.
    fn clear_above(&self, level: usize, word: usize) {
        let mut at = word;
        for below in level..self.depth - 1 {
            let bit = 1 << (at % BITS);
            let above = self.word(below + 1, at / BITS);
            let left = above.fetch_and(!bit, Ordering::AcqRel) & !bit;
            // A read-modify-write, so that it cannot miss what was set before.
            if self.word(below, at).fetch_or(0, Ordering::AcqRel) != 0 {
                self.put_above(below + 1, at / BITS, bit);
                return;
            }
            if left != 0 {
                return;
            }
            at /= BITS;
        }
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    extern crate std;
    use super::*;
    use std::{boxed::Box, collections::BTreeSet, vec::Vec};

    fn full(buffers: usize) -> Summary<Box<[HintWord]>> {
        Summary::full(buffers, (0..words_for(buffers)).map(|_| HintWord::new()).collect())
    }

    fn drain(summary: &Summary<Box<[HintWord]>>, start: u32) -> Vec<usize> {
        let mut found = Vec::new();
        while let Some((word, mask)) = summary.take(start) {
            found.extend((0..64).filter(|bit| mask >> bit & 1 == 1).map(|bit| word * 64 + bit));
        }
        found
    }

    #[test]
    fn what_is_put_is_found_once_at_every_size() {
        for buffers in [1, 2, 63, 64, 65, 4095, 4096, 4097, 262_145] {
            let summary = full(buffers);
            for start in [0, 13, 63] {
                let found = drain(&summary, start);
                assert_eq!(found.len(), buffers);
                assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), (0..buffers).collect());
                for word in &summary.words {
                    assert_eq!(word.0.load(Ordering::Relaxed), 0);
                }
                for index in found {
                    summary.put(index / 64, 1 << (index % 64));
                }
            }
        }
    }

    #[test]
    fn the_largest_pool_has_a_tree() {
        let (words, _, depth) = layout(1 << 31);
        assert_eq!(depth, 6);
        assert_eq!(words, (1 << 25) + (1 << 19) + (1 << 13) + 128 + 2 + 1);
    }
}
