//! Bytes that tell where they belong, and who checks that they arrive there.

/// An endless sequence of bytes: no eight of them come twice, so that what is lost, torn, doubled or out of order shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern(pub u64);

impl Pattern {
    /// The byte at a place.
    pub fn byte(self, at: u64) -> u8 {
        self.word(at / 8)[usize::try_from(at % 8).unwrap()]
    }

    /// Writes the bytes from a place on.
    pub fn fill(self, from: u64, bytes: &mut [u8]) {
        let mut at = from;
        let mut rest = bytes;
        while !rest.is_empty() {
            let skipped = usize::try_from(at % 8).unwrap();
            let count = rest.len().min(8 - skipped);
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&self.word(at / 8)[skipped..skipped + count]);
            (at, rest) = (at + count as u64, later);
        }
    }

    /// The bytes from a place on.
    pub fn bytes(self, from: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.fill(from, &mut bytes);
        bytes
    }

    /// Mixed as in splitmix64, which maps no two numbers to one.
    fn word(self, index: u64) -> [u8; 8] {
        let mut mixed = self.0.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    }
}

/// Takes a stream of bytes in pieces, and panics at the first byte that does not belong there.
#[derive(Clone, Copy, Debug)]
#[must_use = "only `finish` says whether all came"]
pub struct Checker {
    pattern: Pattern,
    seen: u64,
}

impl Checker {
    /// Expects the pattern from its start.
    pub fn new(pattern: Pattern) -> Self {
        Self::starting_at(pattern, 0)
    }

    /// Expects the pattern from a place on.
    pub fn starting_at(pattern: Pattern, seen: u64) -> Self {
        Self { pattern, seen }
    }

    /// The next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        let expected = self.pattern.bytes(self.seen, bytes.len());
        if let Some(wrong) = (0..bytes.len()).find(|&index| bytes[index] != expected[index]) {
            let end = bytes.len().min(wrong + 16);
            panic!(
                "byte {} is wrong, the {wrong}th of a piece of {}: {:02x?}, and should be {:02x?}",
                self.seen + wrong as u64,
                bytes.len(),
                &bytes[wrong..end],
                &expected[wrong..end],
            );
        }
        self.seen += bytes.len() as u64;
    }

    /// The next pieces.
    pub fn feed_all<B: AsRef<[u8]>>(&mut self, pieces: &[B]) {
        for piece in pieces {
            self.feed(piece.as_ref());
        }
    }

    /// How many bytes came so far, all of them right.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// So many should have come.
    pub fn finish(self, total: u64) {
        assert_eq!(self.seen, total, "bytes are missing, or too many");
    }
}

/// The numbers of those buffers that are not full of one byte: memory that somebody else has written.
pub fn foreign_bytes<B: AsRef<[u8]>>(buffers: &[B], byte: u8) -> Vec<usize> {
    let is_whole = |buffer: &B| buffer.as_ref().iter().all(|&found| found == byte);
    (0..buffers.len()).filter(|&index| !is_whole(&buffers[index])).collect()
}
