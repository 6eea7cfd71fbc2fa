//! Messages that were taken, and what the consumer notes of them.

use super::word::SharedWord;
use crate::sync::{AtomicU64, Ordering};

/// In a note: there is one.
const NOTED: u64 = 1 << 33;
/// In a note: the message had been taken before.
const AGAIN: u64 = 1 << 32;

/// Messages that follow each other, taken and not done.
///
/// Not `Clone`. If it is dropped instead of being given back, its messages stay where they are until the member dies.
#[derive(Debug)]
#[must_use = "messages that are dropped are never done"]
pub struct SharedTaken {
    pub(super) first: u64,
    pub(super) count: usize,
}

impl SharedTaken {
    /// The position of the first.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMessage {
    /// The buffer that it is in.
    pub index: u32,
    /// How long its sender says that it is.
    pub len_bytes: u32,
    /// Whether an earlier consumer had taken it, and died.
    pub redelivered: bool,
}

/// What a consumer has noted of the messages that it has taken, in private memory: for each position, which buffer it is
/// in.
#[derive(Debug)]
pub struct SharedNotes<P>(P);

impl<P: AsRef<[SharedWord]>> SharedNotes<P> {
    /// Notes for a ring with as many cells as there are words: a power of two.
    pub fn new(words: P) -> Self {
        Self(words)
    }

    #[expect(clippy::cast_possible_truncation, reason = "masked to the words there are")]
    fn at(&self, position: u64) -> &AtomicU64 {
        let words = self.0.as_ref();
        &words[(position & (words.len() as u64 - 1)) as usize].0
    }

    pub(super) fn note(&self, position: u64, message: &SharedMessage) {
        let again = if message.redelivered { AGAIN } else { 0 };
        self.at(position).store(NOTED | again | u64::from(message.index), Ordering::Relaxed);
    }

    /// Whether a message of a lap before is not done: then there can be none at this position.
    pub(super) fn is_noted(&self, position: u64) -> bool {
        self.at(position).load(Ordering::Relaxed) & NOTED != 0
    }

    /// Forgets a message. Before its cell is empty: the note is the next message's then.
    pub(super) fn forget(&self, position: u64) -> u32 {
        let index = self.index(position);
        self.at(position).store(0, Ordering::Relaxed);
        index
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower half is the buffer")]
    pub(super) fn index(&self, position: u64) -> u32 {
        self.at(position).load(Ordering::Relaxed) as u32
    }

    /// Whether the message had been taken before, by a consumer that died.
    pub(super) fn is_again(&self, position: u64) -> bool {
        self.at(position).load(Ordering::Relaxed) & AGAIN != 0
    }
}
