//! Memory of this process, and members on it.

use std::sync::Arc;
use transload_core::{
    CONTROL_WORDS, FullBarrier, FutexWord, MEMBER_WORDS, Recovered, SLEEPER_WORDS, SharedMember, SharedNotes,
    SharedParts, SharedWord,
};

pub(crate) type Words = Arc<[SharedWord]>;
pub(crate) type Parts = SharedParts<Words, Arc<[FutexWord]>>;
pub(crate) type Member = SharedMember<Words, Arc<[FutexWord]>, Box<[SharedWord]>, FullBarrier>;
pub(crate) type Notes = SharedNotes<Box<[SharedWord]>>;

/// The last lap and the last tag before they wrap, in a cell and in a slot word.
pub(crate) const LAST_LAP: u64 = (1 << 24) - 1;
pub(crate) const LAST_TAG: u32 = (1 << 18) - 1;

/// The words that processes would map.
pub(crate) struct Memory {
    pub(crate) control: Words,
    pub(crate) sleepers: Arc<[FutexWord]>,
    pub(crate) members: Words,
    pub(crate) slots: Words,
    pub(crate) cells: Words,
}

pub(crate) fn words<W: FromIterator<SharedWord>>(count: usize) -> W {
    (0..count).map(|_| SharedWord::new(0)).collect()
}

impl Memory {
    /// All zero.
    pub(crate) fn new(buffers: usize, cells: usize, members: usize) -> Self {
        Self {
            control: words(CONTROL_WORDS),
            sleepers: (0..SLEEPER_WORDS).map(|_| FutexWord::new(0)).collect(),
            members: words((members + 1) * MEMBER_WORDS),
            slots: words(buffers),
            cells: words(cells),
        }
    }

    /// Next to the wrap of laps and tags.
    pub(crate) fn next_to_wrap(buffers: usize, cells: usize, members: usize) -> Self {
        let memory = Self::new(buffers, cells, members);
        memory.parts().start_at(LAST_LAP, LAST_TAG - 1);
        memory
    }

    pub(crate) fn parts(&self) -> Parts {
        SharedParts::new(
            self.control.clone(),
            self.sleepers.clone(),
            self.members.clone(),
            self.slots.clone(),
            self.cells.clone(),
        )
        .unwrap()
    }

    /// The member of a number, new: nothing is in its hands.
    pub(crate) fn member(&self, number: u16) -> Member {
        SharedMember::new(self.parts(), number, words(self.slots.len()), FullBarrier)
    }

    pub(crate) fn notes(&self) -> Notes {
        SharedNotes::new(words(self.cells.len()))
    }

    pub(crate) fn recover(&self, dead: u16) -> Recovered {
        self.parts().recover(dead, &FullBarrier)
    }
}
