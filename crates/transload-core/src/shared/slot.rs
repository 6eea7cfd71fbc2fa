//! The word of a slot: whose the buffer is, how long its message, which lease of it this is.

const LEN: u64 = u32::MAX as u64;
const TAG: u32 = 32;
const TAG_MASK: u64 = (1 << 18) - 1;
const STATE: u32 = 50;
const STATE_MASK: u64 = 7;
const TAINT: u64 = 1 << 53;
const OWNER: u32 = 54;
/// The largest number that an owner can have.
pub(super) const MAX_OWNER: u16 = (1 << (64 - OWNER)) - 1;

/// What a buffer is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotState {
    /// Anybody's who claims it.
    Free,
    /// A member's.
    Owned,
    /// A member's, and a kernel or a device may access it: also after the member has died.
    Lent,
    /// A message, on its way or in the ring.
    Sent,
    /// Nobody's, for ever.
    Quarantined,
}

/// A slot's word.
///
/// ```text
///  63      54   53    52  50 49      32 31       0
///  |  owner | taint | state |   tag    |  length  |
/// ```
///
/// A claim counts the tag. Neither claims nor recoveries rest on it: a free word is as free as any, and the words of a
/// dead owner change no more. What rests on it is that a cell names this very message: with 2^15 in a cell, a cell that
/// somebody made up names the right one by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotWord(pub(super) u64);

impl SlotWord {
    pub(super) fn new(owner: u16, state: SlotState, tainted: bool, tag: u32, len: u32) -> Self {
        let state = match state {
            SlotState::Free => 0,
            SlotState::Owned => 1,
            SlotState::Lent => 2,
            SlotState::Sent => 3,
            SlotState::Quarantined => 4,
        };
        let taint = if tainted { TAINT } else { 0 };
        Self(
            u64::from(owner) << OWNER
                | taint
                | state << STATE
                | (u64::from(tag) & TAG_MASK) << TAG
                | u64::from(len),
        )
    }

    pub(super) fn owner(self) -> u16 {
        // What is left are ten bits.
        (self.0 >> OWNER) as u16
    }

    /// What it says, or nothing that anybody of ours has written.
    pub(super) fn state(self) -> Option<SlotState> {
        Some(match self.0 >> STATE & STATE_MASK {
            0 => SlotState::Free,
            1 => SlotState::Owned,
            2 => SlotState::Lent,
            3 => SlotState::Sent,
            4 => SlotState::Quarantined,
            _ => return None,
        })
    }

    pub(super) fn is(self, state: SlotState) -> bool {
        self.state() == Some(state)
    }

    /// Whether it was lent by an owner that died: whatever had it then may have it still.
    pub(super) fn is_tainted(self) -> bool {
        self.0 & TAINT != 0
    }

    pub(super) fn tag(self) -> u32 {
        (self.0 >> TAG & TAG_MASK) as u32
    }

    pub(super) fn len(self) -> u32 {
        (self.0 & LEN) as u32
    }

    /// The next lease of a free slot.
    pub(super) fn claimed_by(self, owner: u16) -> Self {
        Self::new(owner, SlotState::Owned, false, self.tag().wrapping_add(1), 0)
    }

    /// The same lease in another state or hand.
    pub(super) fn with(self, owner: u16, state: SlotState) -> Self {
        Self::new(owner, state, self.is_tainted(), self.tag(), self.len())
    }

    pub(super) fn with_len(self, len: u32) -> Self {
        Self(self.0 & !LEN | u64::from(len))
    }

    pub(super) fn tainted(self) -> Self {
        Self(self.0 | TAINT)
    }

    /// A message that was taken, to be delivered once more.
    pub(super) fn put_back(self) -> Self {
        let sent = self.with(0, SlotState::Sent);
        if self.is(SlotState::Lent) { sent.tainted() } else { sent }
    }

    /// What it is when its owner has let go: free, unless somebody may still access it who was never seen to be done.
    pub(super) fn let_go(self) -> Self {
        if self.is_tainted() {
            Self::new(0, SlotState::Quarantined, false, self.tag(), 0)
        } else {
            Self::new(0, SlotState::Free, false, self.tag(), 0)
        }
    }
}

/// Who has a buffer, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The member; 0 for a message that a recovery has put back.
    pub member: u16,
    /// How.
    pub state: SlotState,
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let states =
            [SlotState::Free, SlotState::Owned, SlotState::Lent, SlotState::Sent, SlotState::Quarantined];
        for state in states {
            for (owner, tainted, tag, len) in
                [(MAX_OWNER, true, (1 << 18) - 1, u32::MAX), (0, false, 0, 0), (1, false, 1 << 17, 1)]
            {
                let word = SlotWord::new(owner, state, tainted, tag, len);
                assert_eq!((word.owner(), word.state(), word.is_tainted()), (owner, Some(state), tainted));
                assert_eq!((word.tag(), word.len()), (tag, len));
                assert_eq!(word.with_len(7).tag(), tag);
                assert_eq!(word.with(3, SlotState::Lent).len(), len);
            }
        }
        assert_eq!(SlotWord(0), SlotWord::new(0, SlotState::Free, false, 0, 0), "zeroed memory is free");
        assert_eq!(SlotWord(5 << STATE).state(), None);
    }

    #[test]
    fn a_tag_wraps_and_a_taint_ends_in_quarantine() {
        let last = SlotWord::new(0, SlotState::Free, false, (1 << 18) - 1, 0);
        let claimed = last.claimed_by(2);
        assert_eq!((claimed.tag(), claimed.owner(), claimed.let_go()), (0, 2, SlotWord(0)));
        assert!(claimed.tainted().let_go().is(SlotState::Quarantined));
    }
}
