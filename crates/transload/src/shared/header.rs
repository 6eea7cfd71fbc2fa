//! The page by which a memory says that it is a region, and of which numbers.
//!
//! It is read once, word by word, into private memory; what is checked there is what is used from then on.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::{
    error::SharedError,
    fnv::fnv1a,
    geometry::{ALIGNMENTS, Geometry, HEADER_BYTES, Layout, Place},
    words::Words,
};

/// Words of the header that mean something. All others are zero.
pub(super) const WORDS: usize = 64;

const MAGIC: u64 = u64::from_le_bytes(*b"transld\x01");
const BYTE_ORDER: u64 = 0x0102_0304_0506_0708;
const LAYOUT_VERSION: u64 = 1;
/// No feature has been thought of yet.
const KNOWN_FEATURES: u64 = 0;
const READY: u64 = u64::from_le_bytes(*b"\xf1ready\r\n");

/// What a field is called, in the order of the words.
const NAMES: [&str; READY_AT + 1] = [
    "magic number",
    "byte order",
    "layout version",
    "bytes of the header",
    "features",
    "buffers",
    "bytes in a buffer",
    "slots of the ring",
    "members",
    "alignment",
    "offset of the control words",
    "offset of the sleepers",
    "offset of the members",
    "offset of the slots",
    "offset of the cells",
    "bytes without the buffers",
    "offset of the buffers",
    "bytes in all",
    "first half of the id",
    "second half of the id",
    "user word",
    "checksum",
    "ready",
];
const GEOMETRY_AT: usize = 5;
const ALIGNMENT_AT: usize = 9;
const LAYOUT_AT: usize = 10;
const ID_AT: usize = 18;
const USER_WORD_AT: usize = 20;
const CHECKSUM_AT: usize = 21;
const READY_AT: usize = 22;

/// What a header says, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) geometry: Geometry,
    pub(super) place: Place,
    pub(super) id: u128,
}

impl Header {
    pub(super) fn layout(&self) -> Layout {
        self.geometry.layout(self.place)
    }

    /// The header as it is written.
    pub(super) fn encode(&self) -> [u64; WORDS] {
        let Geometry { buffer_count, buffer_size, ring_slots, members, user_word } = self.geometry;
        let Layout { control, sleepers, members: table, slots, cells, metadata_bytes, buffers, total_bytes } =
            self.layout();
        let alignment = match self.place {
            Place::Behind { alignment } => alignment,
            Place::Apart => 0,
        };
        let mut words = [0; WORDS];
        words[..GEOMETRY_AT].copy_from_slice(&[
            MAGIC,
            BYTE_ORDER,
            LAYOUT_VERSION,
            HEADER_BYTES as u64,
            KNOWN_FEATURES,
        ]);
        let numbers = [
            buffer_count,
            buffer_size,
            ring_slots,
            members,
            alignment,
            control,
            sleepers,
            table,
            slots,
            cells,
            metadata_bytes,
            buffers.unwrap_or(0),
            total_bytes,
        ];
        for (word, number) in words[GEOMETRY_AT..].iter_mut().zip(numbers) {
            *word = number as u64;
        }
        let half = |shift: u32| u64::try_from(self.id >> shift & u128::from(u64::MAX)).unwrap_or(0);
        (words[ID_AT], words[ID_AT + 1]) = (half(0), half(64));
        words[USER_WORD_AT] = user_word;
        words[CHECKSUM_AT] = checksum(&words[..CHECKSUM_AT]);
        words[READY_AT] = READY;
        words
    }

    /// Reads a header out of words that nobody else can change.
    pub(super) fn decode(words: &[u64; WORDS]) -> Result<Header, SharedError> {
        let field = |at: usize, expected: u64| match words[at] {
            found if found == expected => Ok(()),
            found => {
                Err(SharedError::Header { field: NAMES.get(at).unwrap_or(&"reserved word"), found, expected })
            }
        };
        if words[0] == MAGIC.swap_bytes() {
            return Err(SharedError::OtherByteOrder { found: words[1], expected: BYTE_ORDER });
        }
        if words[READY_AT] == 0 {
            return Err(SharedError::NotReady { magic: words[0], expected: MAGIC });
        }
        field(0, MAGIC)?;
        field(1, BYTE_ORDER)?;
        if words[2] != LAYOUT_VERSION {
            return Err(SharedError::LayoutVersion { found: words[2], known: LAYOUT_VERSION });
        }
        field(3, HEADER_BYTES as u64)?;
        if words[4] & !KNOWN_FEATURES != 0 {
            return Err(SharedError::Features { found: words[4], known: KNOWN_FEATURES });
        }
        let number = |at: usize| usize::try_from(words[at]).unwrap_or(usize::MAX);
        let [buffer_count, buffer_size, ring_slots, members] = [0, 1, 2, 3].map(|n| number(GEOMETRY_AT + n));
        let geometry = Geometry::new(buffer_count, buffer_size, Some(ring_slots), Some(members))?;
        let geometry = Geometry { user_word: words[USER_WORD_AT], ..geometry };
        let place = match number(ALIGNMENT_AT) {
            0 => Place::Apart,
            alignment if alignment.is_power_of_two() && ALIGNMENTS.contains(&alignment) => {
                Place::Behind { alignment }
            }
            _ => {
                let (found, expected) = (words[ALIGNMENT_AT], *ALIGNMENTS.start() as u64);
                return Err(SharedError::Header { field: NAMES[ALIGNMENT_AT], found, expected });
            }
        };
        let id = u128::from(words[ID_AT]) | u128::from(words[ID_AT + 1]) << 64;
        let header = Header { geometry, place, id };
        let expected = header.encode();
        (LAYOUT_AT..WORDS).try_for_each(|at| field(at, expected[at]))?;
        Ok(header)
    }

    /// Makes the memory a region, for others to find: the last word says that all before it is there.
    pub(super) fn write(&self, to: &Words) {
        let words = self.encode();
        for (word, value) in to.as_ref().iter().zip(words).take(READY_AT) {
            word.store(value);
        }
        to.as_ref()[READY_AT].store(words[READY_AT]);
    }

    /// Makes memory that was a region, or anything else, none.
    pub(super) fn erase(all: &Words) {
        // First of all, so that nobody takes what is half erased for a region.
        all.as_ref()[READY_AT].store(0);
        all.as_ref().iter().for_each(|word| word.store(0));
    }

    /// Reads the header of memory that others may be writing.
    pub(super) fn of_words(from: &Words) -> Result<Header, SharedError> {
        // The last word first, for what is seen ready must be seen whole.
        let ready = from.as_ref()[READY_AT].load();
        let mut words = std::array::from_fn(|at| from.as_ref()[at].load());
        words[READY_AT] = ready;
        Header::decode(&words)
    }

    /// Reads the header of a file.
    pub(super) fn of_file(file: BorrowedFd<'_>) -> Result<Header, SharedError> {
        Header::decode(&Header::words_of_file(file)?)
    }

    /// Whether a file is, or was once, a region, of any version.
    pub(super) fn is_in_file(file: BorrowedFd<'_>) -> bool {
        Header::words_of_file(file).is_ok_and(|words| words[0] == MAGIC)
    }

    /// The words that a file begins with, read once.
    pub(super) fn words_of_file(file: BorrowedFd<'_>) -> Result<[u64; WORDS], SharedError> {
        let mut bytes = [0; WORDS * size_of::<u64>()];
        let mut read = 0;
        while read < bytes.len() {
            match rustix::io::pread(file, &mut bytes[read..], read as u64) {
                Ok(0) => {
                    let (found, expected) = (read as u64, bytes.len() as u64);
                    return Err(SharedError::Length { what: "file", found, expected });
                }
                Ok(more) => read += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(SharedError::os("pread")(error)),
            }
        }
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Ok(words)
    }
}

/// It finds what falls over, not who lies.
fn checksum(words: &[u64]) -> u64 {
    fnv1a(words.iter().flat_map(|word| word.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let geometry = Geometry::new(5, 1000, Some(16), Some(3)).unwrap();
        Header { geometry, place: Place::Behind { alignment: 1 << 16 }, id: u128::MAX / 3 }
    }

    #[test]
    fn what_is_written_is_read() {
        let together = header();
        for header in [together, Header { place: Place::Apart, ..together }] {
            assert_eq!(Header::decode(&header.encode()).unwrap(), header);
        }
        assert_eq!(NAMES.len(), READY_AT + 1);
    }

    /// The checksum is no secret: whoever lies can make it right, and is held to numbers that go together, and to the length
    /// that the memory is seen to have.
    #[test]
    fn lies_with_the_right_checksum_are_of_one_piece() {
        let good = header().encode();
        let mut accepted = std::collections::BTreeSet::new();
        let interesting = [
            0,
            1,
            2,
            7,
            63,
            127,
            4095,
            1 << 16,
            1 << 21,
            1 << 24,
            (1 << 24) + 1,
            1 << 31,
            1 << 32,
            1 << 63,
            u64::MAX,
        ];
        for at in 0..CHECKSUM_AT {
            let near = [good[at] ^ 1, good[at].wrapping_add(8), good[at].wrapping_mul(2)];
            for value in interesting.into_iter().chain(near).filter(|value| *value != good[at]) {
                let mut words = good;
                words[at] = value;
                words[CHECKSUM_AT] = checksum(&words[..CHECKSUM_AT]);
                if let Ok(header) = Header::decode(&words) {
                    assert_eq!(header.encode(), words, "word {at}");
                    accepted.insert(at);
                }
            }
        }
        // What a rounding hides, and what may be anything.
        assert!(accepted.iter().all(|at| [5, 6, 7, 18, 19, 20].contains(at)), "{accepted:?}");
    }
}
