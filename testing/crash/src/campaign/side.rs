//! A memory beside the region: what producers know to be sent, and what consumers have got.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use transload_core::SharedWord;

/// Producers at a time.
pub(super) const PRODUCERS: usize = 4;
/// How often each can be replaced.
pub(super) const LIVES: usize = 1 << 16;
/// All processes at a time.
pub(super) const ACTORS: usize = PRODUCERS + 3;

/// Words of each kind, in this order.
const PHASE: usize = 0;
const MEMBERS: usize = 1;
const ACKED: usize = MEMBERS + ACTORS;
const SEEN: usize = ACKED + PRODUCERS * LIVES;
const DONE: usize = SEEN + PRODUCERS * LIVES;
const WORDS: usize = DONE + PRODUCERS * LIVES;

/// How far the campaign is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum Phase {
    /// All act.
    Running,
    /// All but the consumer are to leave.
    Ending,
    /// The consumer is to take what there is, and to leave.
    Draining,
}

/// One of many producers: a place, and how many were there before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Life {
    pub(super) producer: usize,
    pub(super) life: usize,
}

/// The memory. Each word has one writer at a time.
#[derive(Debug)]
pub(super) struct Side {
    file: OwnedFd,
    base: NonNull<SharedWord>,
}

impl Side {
    pub(super) fn create() -> io::Result<Side> {
        let file = rustix::fs::memfd_create("transload-campaign", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, (WORDS * size_of::<SharedWord>()) as u64)?;
        Side::open(file)
    }

    pub(super) fn open(file: OwnedFd) -> io::Result<Side> {
        let (access, len_bytes) = (ProtFlags::READ | ProtFlags::WRITE, WORDS * size_of::<SharedWord>());
        #[expect(clippy::disallowed_methods, reason = "a memory of this module")]
        // SAFETY: no address is asked for, so the kernel chooses a range that nothing uses. It stays mapped for ever.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len_bytes, access, MapFlags::SHARED, &file, 0)? };
        Ok(Side { file, base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)? })
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn word(&self, nth: usize) -> &SharedWord {
        assert!(nth < WORDS, "a word of the memory");
        // SAFETY: within the mapping.
        let word = unsafe { self.base.add(nth) };
        // SAFETY: the mapping is never unmapped; all reach it by atomics only.
        unsafe { word.as_ref() }
    }

    pub(super) fn phase(&self) -> Phase {
        match self.word(PHASE).load() {
            0 => Phase::Running,
            1 => Phase::Ending,
            _ => Phase::Draining,
        }
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.word(PHASE).store(phase as u64);
    }

    /// The number of an actor, once it is a member.
    pub(super) fn member(&self, actor: usize) -> &SharedWord {
        assert!(actor < ACTORS, "an actor");
        self.word(MEMBERS + actor)
    }

    /// The last message of a producer whose send has returned.
    pub(super) fn acked(&self, life: Life) -> &SharedWord {
        self.of_life(ACKED, life)
    }

    /// The last message of a producer that a consumer got.
    pub(super) fn seen(&self, life: Life) -> &SharedWord {
        self.of_life(SEEN, life)
    }

    /// The last message of a producer that a consumer was done with, and all before it.
    pub(super) fn done(&self, life: Life) -> &SharedWord {
        self.of_life(DONE, life)
    }

    fn of_life(&self, first: usize, Life { producer, life }: Life) -> &SharedWord {
        assert!(producer < PRODUCERS && life < LIVES, "a life");
        self.word(first + producer * LIVES + life)
    }
}
