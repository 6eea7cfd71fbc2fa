//! The two memories of a lane: what stands where in them, and how each says what it is.

use super::super::geometry::{ALIGNMENTS, HEADER_BYTES, LINE_BYTES};
use super::super::header::WORDS;
use super::error::LaneError;

const BYTE_ORDER: u64 = 0x0102_0304_0506_0708;
const VERSION: u64 = 1;
/// The most slots of a lane.
pub(super) const MOST_SLOTS: usize = 1 << 24;

/// Where a side's position is.
pub(super) const POSITION: usize = HEADER_BYTES;
/// Where the words are that the sides sleep on.
pub(super) const FUTEXES: usize = POSITION + LINE_BYTES;
/// Where the lengths are, in the producer's memory.
pub(super) const LENGTHS: usize = FUTEXES + 2 * LINE_BYTES;

/// Whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Producer,
    Consumer,
}

/// What a memory says of itself: checked, so that it can be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) owner: Owner,
    pub(super) slots: usize,
    pub(super) slot_bytes: usize,
    /// What the slots begin at a multiple of, and what all is a multiple of.
    pub(super) alignment: usize,
    /// The number that the producer gave the lane at random.
    pub(super) id: u128,
}

/// What a word is called, in their order.
const NAMES: [&str; 10] = [
    "magic number",
    "byte order",
    "version",
    "slots",
    "bytes of a slot",
    "alignment",
    "first half of the id",
    "second half of the id",
    "offset of the slots",
    "bytes in all",
];

impl Plan {
    /// Checks the numbers.
    pub(super) fn new(
        owner: Owner,
        slots: usize,
        slot_bytes: usize,
        alignment: usize,
        id: u128,
    ) -> Result<Plan, LaneError> {
        in_range("slots", slots, MOST_SLOTS)?;
        in_range("bytes in a slot", slot_bytes, u32::MAX as usize)?;
        if !slots.is_power_of_two() {
            return Err(LaneError::NoPowerOfTwo { slots, next: slots.next_power_of_two() });
        }
        // 2^56 bytes at most, and the rest: more than some systems can address.
        let bytes = slots
            .checked_mul(slot_bytes)
            .and_then(|bytes| bytes.checked_add(slots * 8 + LENGTHS + 2 * ALIGNMENTS.end()));
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(LaneError::TooLarge { slots, slot_bytes });
        }
        Ok(Plan { owner, slots, slot_bytes, alignment, id })
    }

    /// Where the slots begin; where all ends that is not slots.
    pub(super) fn slots_offset(&self) -> usize {
        let end = match self.owner {
            Owner::Producer => LENGTHS + self.slots * size_of::<u64>(),
            Owner::Consumer => LENGTHS,
        };
        end.next_multiple_of(self.alignment)
    }

    pub(super) fn total_bytes(&self) -> usize {
        let slots = match self.owner {
            Owner::Producer => self.slots * self.slot_bytes,
            Owner::Consumer => 0,
        };
        (self.slots_offset() + slots).next_multiple_of(self.alignment)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the halves of a number")]
    pub(super) fn encode(&self) -> [u64; WORDS] {
        let magic = match self.owner {
            Owner::Producer => u64::from_le_bytes(*b"tl-lane\x01"),
            Owner::Consumer => u64::from_le_bytes(*b"tl-lane\x02"),
        };
        let numbers = [self.slots, self.slot_bytes, self.alignment].map(|number| number as u64);
        let mut words = [0; WORDS];
        words[..3].copy_from_slice(&[magic, BYTE_ORDER, VERSION]);
        words[3..6].copy_from_slice(&numbers);
        words[6..8].copy_from_slice(&[self.id as u64, (self.id >> 64) as u64]);
        words[8..10].copy_from_slice(&[self.slots_offset() as u64, self.total_bytes() as u64]);
        words
    }

    /// Reads words that nobody else can change, of a memory of this owner's.
    pub(super) fn decode(words: &[u64; WORDS], owner: Owner) -> Result<Plan, LaneError> {
        let number = |at: usize| usize::try_from(words[at]).unwrap_or(usize::MAX);
        let alignment = number(5);
        if !alignment.is_power_of_two() || !ALIGNMENTS.contains(&alignment) {
            return Err(LaneError::Header {
                field: NAMES[5],
                found: words[5],
                expected: *ALIGNMENTS.start() as u64,
            });
        }
        let id = u128::from(words[6]) | u128::from(words[7]) << 64;
        let plan = Plan::new(owner, number(3), number(4), alignment, id)?;
        let expected = plan.encode();
        match (0..WORDS).find(|&at| words[at] != expected[at]) {
            None => Ok(plan),
            Some(at) => {
                let field = NAMES.get(at).unwrap_or(&"reserved word");
                Err(LaneError::Header { field, found: words[at], expected: expected[at] })
            }
        }
    }
}

fn in_range(what: &'static str, wanted: usize, most: usize) -> Result<(), LaneError> {
    if (1..=most).contains(&wanted) { Ok(()) } else { Err(LaneError::OutOfRange { what, wanted, most }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_each_other_word_is_noticed() {
        for owner in [Owner::Producer, Owner::Consumer] {
            let plan = Plan::new(owner, 8, 100, 65536, 7 << 64 | 9).unwrap();
            let words = plan.encode();
            assert_eq!(Plan::decode(&words, owner).unwrap(), plan);
            for at in 0..WORDS {
                for bit in [0, 5, 33, 63] {
                    let mut other = words;
                    other[at] ^= 1 << bit;
                    // Another id is another lane; another slot size may be as good.
                    if let Ok(other) = Plan::decode(&other, owner) {
                        assert!((4..8).contains(&at), "word {at}");
                        assert!(other.total_bytes() >= LENGTHS);
                    }
                }
            }
        }
        let words = Plan::new(Owner::Producer, 8, 100, 65536, 1).unwrap().encode();
        assert!(matches!(
            Plan::decode(&words, Owner::Consumer),
            Err(LaneError::Header { field: "magic number", .. })
        ));
    }

    #[test]
    fn parts_do_not_overlap() {
        let plan = Plan::new(Owner::Producer, 1 << 13, 4096, 65536, 0).unwrap();
        assert!(plan.slots_offset() >= LENGTHS + (8 << 13));
        assert_eq!(plan.total_bytes(), plan.slots_offset() + (4096 << 13));
        for (slots, slot_bytes) in [(0, 1), (1, 0), (3, 1), (1 << 25, 1), (1, 1 << 32), (1 << 24, 1 << 50)] {
            Plan::new(Owner::Producer, slots, slot_bytes, 65536, 0).unwrap_err();
        }
    }
}
