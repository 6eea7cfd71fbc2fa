//! What Metal demands of offsets, lengths and addresses, and what its numbers mean: no call of Metal is made here, so that
//! all of it is tested on any machine.

use std::ops::Range;

/// What offsets and lengths of copies and fills between buffers are multiples of on macOS, in bytes.
pub(super) const WORD: usize = 4;

/// Whether a range begins and ends between words: only such ones are copied between buffers.
pub(super) fn is_of_words(range: &Range<usize>) -> bool {
    range.start.is_multiple_of(WORD) && range.end.is_multiple_of(WORD)
}

/// A range, taken apart: the whole words in it, and the bytes before and behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) words: Range<usize>,
    /// Before and behind, each shorter than a word, or empty. A range that lies within a word is before.
    pub(super) edges: [Range<usize>; 2],
}

impl Cut {
    pub(super) fn new(range: &Range<usize>) -> Self {
        let start = range.start.checked_next_multiple_of(WORD).unwrap_or(range.end).min(range.end);
        let end = (range.end / WORD * WORD).max(start);
        Self { words: start..end, edges: [range.start..start, end..range.end] }
    }

    /// The edges that have bytes, and which of the two each is.
    pub(super) fn edges(&self) -> impl Iterator<Item = (usize, &Range<usize>)> {
        self.edges.iter().enumerate().filter(|(_, edge)| !edge.is_empty())
    }
}

/// The range of whole words that holds a range; reading more than was asked for harms nobody.
pub(super) fn words_around(range: &Range<usize>) -> Range<usize> {
    let end = range.end.checked_next_multiple_of(WORD).unwrap_or(range.end);
    range.start / WORD * WORD..end
}

/// The byte that a word repeats, if it repeats one: Metal fills with bytes.
pub(super) fn repeated_byte(word: u32) -> Option<u8> {
    let [first, rest @ ..] = word.to_le_bytes();
    rest.iter().all(|byte| *byte == first).then_some(first)
}

/// A range in parts of `most` bytes, which is not 0; the last one may be shorter.
pub(super) fn parts(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(most).map(move |start| start..end.min(start.saturating_add(most)))
}

/// How many bytes from `address` on a buffer without a copy is made over: the slab's whole pages. Or why there can be none,
/// and what to do.
pub(super) fn whole_pages(
    address: usize,
    mapped_bytes: usize,
    page_bytes: usize,
    max_bytes: u64,
) -> Result<usize, String> {
    if !address.is_multiple_of(page_bytes) {
        return Err(format!(
            "Metal takes whole pages only, and the memory begins at {address:#x}, which is not a multiple of {page_bytes}: \
             use a slab that this library maps, or memory that begins where a page does"
        ));
    }
    if !mapped_bytes.is_multiple_of(page_bytes) {
        return Err(format!(
            "Metal takes whole pages only, and the memory has {mapped_bytes} bytes: make it {}",
            mapped_bytes.next_multiple_of(page_bytes)
        ));
    }
    if mapped_bytes as u64 > max_bytes {
        return Err(format!(
            "the slab has {mapped_bytes} bytes, and a buffer of this device at most {max_bytes}: use smaller slabs"
        ));
    }
    Ok(mapped_bytes)
}

/// `MTLCommandBufferStatusCompleted`.
pub(super) const COMPLETED: usize = 4;
/// `MTLCommandBufferStatusError`.
pub(super) const ERROR: usize = 5;
/// `MTLCommandBufferErrorDeviceRemoved`.
pub(super) const DEVICE_REMOVED: isize = 11;

/// How a transfer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// All of it succeeded.
    Landed,
    /// It has ended, and not all succeeded.
    Failed(String),
    /// Nobody can say whether the device still touches its memory.
    Lost(String),
}

/// Judges a transfer by the status of its command buffer; `None` while it has not ended. `error` gives number and words of
/// the error, if there is one.
pub(super) fn judge(status: usize, error: impl FnOnce() -> Option<(isize, String)>) -> Option<Ended> {
    match status {
        ..COMPLETED => None,
        COMPLETED => Some(Ended::Landed),
        ERROR => Some(match error() {
            // The number is not asked for the domain it is of: to keep memory without need does no harm.
            Some((DEVICE_REMOVED, words)) => Ended::Lost(words),
            Some((code, words)) => Ended::Failed(format!("{words} ({code})")),
            None => Ended::Failed("the command buffer has an error, and does not say which".to_owned()),
        }),
        _ => Some(Ended::Lost(format!("the command buffer has the status {status}, which is not known"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_are_of_words() {
        for whole in [0..0, 0..4, 8..64, 4..4] {
            assert!(is_of_words(&whole), "{whole:?}");
        }
        for part in [0..3, 2..8, 4..9, 1..1, 1..5] {
            assert!(!is_of_words(&part), "{part:?}");
        }
    }

    #[test]
    fn a_range_is_cut_into_words_and_edges_that_are_shorter() {
        for start in 0..9 {
            for end in start..18 {
                let cut = Cut::new(&(start..end));
                let [head, tail] = &cut.edges;
                assert_eq!((head.start, head.end, tail.start), (start, cut.words.start, cut.words.end));
                assert_eq!(tail.end, end);
                assert!(head.len() < WORD && tail.len() < WORD, "{start}..{end}: {cut:?}");
                assert!(cut.words.is_empty() || is_of_words(&cut.words), "{start}..{end}: {cut:?}");
                let whole = is_of_words(&(start..end));
                assert_eq!(cut.edges().count() == 0, whole || start == end, "{start}..{end}: {cut:?}");
            }
        }
        assert_eq!(Cut::new(&(5..7)), Cut { words: 7..7, edges: [5..7, 7..7] });
    }

    #[test]
    fn the_words_around_a_range_hold_it_and_are_whole() {
        for start in 0..9 {
            for end in start..18 {
                let words = words_around(&(start..end));
                assert!(words.start <= start && end <= words.end, "{start}..{end}: {words:?}");
                assert!(start - words.start < WORD && words.end - end < WORD, "{start}..{end}: {words:?}");
                assert!(is_of_words(&words), "{start}..{end}: {words:?}");
            }
        }
    }

    #[test]
    fn only_a_word_of_four_equal_bytes_is_filled_by_bytes() {
        for byte in [0, 7, 0xff] {
            assert_eq!(repeated_byte(u32::from_le_bytes([byte; 4])), Some(byte));
        }
        for word in [1, 0x0100, 0xff00_0000, 0x0707_0706, 0x0607_0707] {
            assert_eq!(repeated_byte(word), None, "{word:#x}");
        }
    }

    #[test]
    fn parts_cover_a_range_once() {
        let all = |range, most| parts(range, most).map(|part| (part.start, part.end)).collect::<Vec<_>>();
        assert_eq!(all(8..20, 8), [(8, 16), (16, 20)]);
        assert_eq!(all(0..16, 16), [(0, 16)]);
        assert_eq!(all(4..4, 8), []);
        assert_eq!(all(usize::MAX - 4..usize::MAX, 64), [(usize::MAX - 4, usize::MAX)]);
    }

    #[test]
    fn only_whole_pages_become_a_buffer() {
        const PAGE: usize = 16 << 10;
        assert_eq!(whole_pages(PAGE, 4 * PAGE, PAGE, 1 << 30), Ok(4 * PAGE));
        assert_eq!(whole_pages(PAGE, 4 * PAGE, PAGE, 4 * PAGE as u64), Ok(4 * PAGE));
        // A page of 4 KiB is none there.
        let cases = [
            (whole_pages(PAGE + 4096, PAGE, PAGE, 1 << 30), "0x5000"),
            (whole_pages(PAGE, PAGE + 4096, PAGE, 1 << 30), "make it 32768"),
            (whole_pages(PAGE, 4 * PAGE, PAGE, 4 * PAGE as u64 - 1), "at most 65535"),
        ];
        for (refused, words) in cases {
            assert!(refused.as_ref().is_err_and(|reason| reason.contains(words)), "{refused:?}");
        }
    }

    #[test]
    fn a_transfer_has_ended_when_its_commands_have() {
        let never = || panic!("nobody asks for the error of what has none");
        for running in 0..COMPLETED {
            assert_eq!(judge(running, never), None);
        }
        assert_eq!(judge(COMPLETED, never), Some(Ended::Landed));
        let failed = judge(ERROR, || Some((2, "timed out".to_owned())));
        assert_eq!(failed, Some(Ended::Failed("timed out (2)".to_owned())));
        assert!(matches!(judge(ERROR, || None), Some(Ended::Failed(_))));
        let removed = judge(ERROR, || Some((DEVICE_REMOVED, "removed".to_owned())));
        assert_eq!(removed, Some(Ended::Lost("removed".to_owned())));
        assert!(matches!(judge(6, never), Some(Ended::Lost(_))), "its memory is not given back by guess");
    }
}
