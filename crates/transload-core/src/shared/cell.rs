//! A cell of the ring: whether there is a message, in which lap, and which buffer it is in.

use super::slot::SlotWord;

const TAG_MASK: u64 = (1 << 15) - 1;
const INDEX: u32 = 15;
const INDEX_MASK: u64 = (1 << 24) - 1;
const FULL: u64 = 1 << 39;
const LAP: u32 = 40;

/// A cell.
///
/// ```text
///  63    40  39  38      15 14   0
///  |  lap | full | buffer  |  tag |
/// ```
///
/// A position is published and done within one lap: full, then empty in the next lap. The lap wraps after 2^24; it would
/// deceive a producer that stands still between its look and its swap for exactly so many laps, whose message would then
/// be out of order, and neither lost nor doubled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell(pub(super) u64);

/// How a cell stands to a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lap {
    /// Still a lap behind: the message before it in this cell is not done.
    Behind,
    /// At it.
    Here,
    /// Beyond it: the position is done.
    Done,
    /// Where no member of ours can have brought it.
    Astray,
}

impl Cell {
    /// An empty cell, so many laps on.
    pub(super) fn empty(lap: u64) -> Self {
        Self(lap << LAP)
    }

    /// A message in a buffer.
    pub(super) fn full(lap: u64, index: u32, word: SlotWord) -> Self {
        Self(lap << LAP | FULL | u64::from(index) << INDEX | u64::from(word.tag()) & TAG_MASK)
    }

    pub(super) fn is_full(self) -> bool {
        self.0 & FULL != 0
    }

    pub(super) fn index(self) -> u32 {
        (self.0 >> INDEX & INDEX_MASK) as u32
    }

    /// Whether it names this lease of the buffer.
    pub(super) fn names(self, index: u32, word: SlotWord) -> bool {
        self.is_full() && self.index() == index && self.0 & TAG_MASK == u64::from(word.tag()) & TAG_MASK
    }

    /// How it stands to a position of this lap.
    pub(super) fn lap(self, lap: u64) -> Lap {
        let (here, there) = (self.0 >> LAP, lap & ((1 << (64 - LAP)) - 1));
        // As a signed number of 24 bits: laps wrap.
        match (here.wrapping_sub(there) << LAP).cast_signed() >> LAP {
            0 => Lap::Here,
            -1 => Lap::Behind,
            1.. => Lap::Done,
            _ => Lap::Astray,
        }
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::super::slot::SlotState;
    use super::*;

    #[test]
    fn laps_wrap() {
        let last = (1 << 24) - 1;
        assert_eq!(Cell::empty(last).lap(last), Lap::Here);
        assert_eq!(Cell::empty(last + 1).lap(last), Lap::Done);
        assert_eq!(Cell::empty(last).lap(last + 1), Lap::Behind);
        assert_eq!(Cell::empty(0).lap(1 << 24), Lap::Here);
        assert_eq!(Cell::empty(0).lap(2), Lap::Astray);
    }

    #[test]
    fn a_cell_names_one_lease() {
        let word = SlotWord::new(3, SlotState::Sent, false, 0x2_8001, 9);
        let cell = Cell::full(u64::MAX, 0xff_ffff, word);
        assert!(cell.is_full() && cell.names(0xff_ffff, word) && !cell.names(1, word));
        assert!(!cell.names(0xff_ffff, SlotWord::new(3, SlotState::Sent, false, 2, 9)));
        assert!(!Cell::empty(u64::MAX).is_full());
    }
}
