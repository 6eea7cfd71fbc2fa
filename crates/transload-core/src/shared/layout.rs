//! Where the control words stand.

use super::slot::MAX_OWNER;

/// Words of a cache line, and of the one that a prefetcher fetches with it. Models have no caches, and are slow to make
/// words.
const LINE: usize = if cfg!(feature = "model") { 4 } else { 16 };

/// The most members: as many numbers as a slot word has room for, less the one that stands for nobody.
pub const MAX_MEMBERS: usize = MAX_OWNER as usize;
/// The most buffers: as many as a cell can name.
pub const MAX_SHARED_BUFFERS: usize = 1 << 24;
/// The most cells.
pub const MAX_RING_SLOTS: usize = 1 << 24;
/// Control words, in lines of their own for each writer.
pub const CONTROL_WORDS: usize = 8 * LINE;
/// Words of one member's entry: a line of its own.
pub const MEMBER_WORDS: usize = LINE;
/// 32-bit words that members sleep on, each on a line of its own.
pub const SLEEPER_WORDS: usize = 2 * 2 * LINE;

/// The position that the next message gets: a hint that anybody moves on.
pub(super) const TAIL: usize = 0;
/// The position before which all messages are done: a hint that the consumer moves on.
pub(super) const HEAD: usize = LINE;
/// The number of the consumer: for people to read.
pub(super) const CONSUMER: usize = 4 * LINE;
/// In a member's entry: how many buffers it has given back.
pub(super) const RELEASED: usize = 0;

/// A count that members share. It is kept by whoever counts, and never decides who may touch what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedCount {
    /// Messages that were taken once more, since the consumer that had taken them died.
    Redelivered,
    /// Cells that named no message: written by somebody who lies.
    Spoiled,
    /// Recoveries, so that whoever has found no buffer looks again.
    Recoveries,
    /// Buffers that were taken from dead members and are free again.
    Reclaimed,
    /// Buffers that are never used again.
    Quarantined,
    /// Members that have joined.
    Joined,
    /// Members that have left, by themselves or by dying.
    Left,
}

impl SharedCount {
    pub(super) fn place(self) -> usize {
        match self {
            Self::Redelivered => HEAD + 1,
            Self::Spoiled => HEAD + 2,
            Self::Recoveries => 2 * LINE,
            Self::Reclaimed => 2 * LINE + 1,
            Self::Quarantined => 2 * LINE + 2,
            Self::Joined => 3 * LINE,
            Self::Left => 3 * LINE + 1,
        }
    }
}

/// What members sleep for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeper {
    /// The consumer, for a message.
    Consumer,
    /// Producers, for a buffer or a cell.
    Room,
}

impl Sleeper {
    pub(super) fn place(self) -> usize {
        match self {
            Self::Consumer => 0,
            Self::Room => 2 * LINE,
        }
    }
}
