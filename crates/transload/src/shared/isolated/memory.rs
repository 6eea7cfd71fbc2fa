//! The memory of one side: made and sealed by it, mapped for reading only by the other.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, SealFlags};
use rustix::io::Errno;
use transload_core::{SPSC_FUTEX_WORDS, SPSC_SIGNAL, SpscOwn, SpscPeer};

use super::super::header::{Header, WORDS};
use super::super::locks::{Byte, Locks, is_locked_by_another, reopen_as, reopen_or_take};
use super::super::storage::{SEALS, length, seals};
use super::super::words::{FutexWords, Memory, Words};
use super::error::LaneError;
use super::layout::{FUTEXES, LENGTHS, Owner, POSITION, Plan};
use crate::fork::ForkedChild;
use crate::memory::{self, Obtained, Placement, Recipe, Rights, Slab, SlabError, Store};

/// Each memory has these: nobody can cut it off, take pages out of it, or write it who had not mapped it before.
const SEALED: SealFlags = SEALS.union(SealFlags::FUTURE_WRITE);
/// What `st_blocks` counts, whatever the pages are (stat(2)).
const BLOCK_BYTES: u64 = 512;

pub(super) type Own = SpscOwn<Words, FutexWords>;
pub(super) type Peer = SpscPeer<Words, FutexWords>;

impl Owner {
    /// What a side has locked in its own memory's file for as long as it lives.
    fn byte(self) -> Byte {
        match self {
            Owner::Producer => Byte::Member(1),
            Owner::Consumer => Byte::Consumer,
        }
    }
}

/// This side's memory. The only one that can write it is this process.
pub(super) struct OwnMemory {
    pub(super) plan: Plan,
    memory: Memory,
    locks: Locks,
}

/// The other side's memory, which this process can only read.
pub(super) struct PeerMemory {
    pub(super) plan: Plan,
    memory: Memory,
    pub(super) placement: Placement,
    file: OwnedFd,
}

impl OwnMemory {
    /// Makes the memory: mapped here for writing, and then sealed so that nobody else ever can.
    pub(super) fn make(recipe: &Recipe, plan: Plan) -> Result<OwnMemory, LaneError> {
        // The unit of the attempt that succeeded is that of the last.
        let unit = std::cell::Cell::new(plan.alignment);
        let length_for = |unit_bytes| -> Result<usize, SlabError> {
            unit.set(unit_bytes);
            Ok(Plan { alignment: unit_bytes, ..plan }.total_bytes())
        };
        let Obtained { mapping, memfd, .. } = recipe.obtain(Store::Memfd, &length_for)?;
        let plan = Plan { alignment: unit.get(), ..plan };
        let memfd = memfd.ok_or(Errno::BADF).map_err(LaneError::os("memfd_create"))?;
        let memory = Memory::mapped(mapping);
        for (word, value) in memory.words(0, WORDS).as_ref().iter().zip(plan.encode()) {
            word.store(value);
        }
        // From here on there is no way to another writable mapping of it, nor to `pwrite`; the one that is there stays.
        rustix::fs::fcntl_add_seals(&memfd, SEALED).map_err(LaneError::os("fcntl(F_ADD_SEALS)"))?;
        let locks =
            Locks::attach(reopen_or_take(memfd)?)?.ok_or(Errno::AGAIN).map_err(LaneError::os("fcntl"))?;
        if !locks.try_lock(plan.owner.byte()).map_err(LaneError::os("fcntl(F_OFD_SETLK)"))? {
            return Err(LaneError::os("fcntl(F_OFD_SETLK)")(Errno::AGAIN));
        }
        Ok(OwnMemory { plan, memory, locks })
    }

    /// A descriptor for the peer: of a description of its own, open for reading.
    pub(super) fn file_for_peer(&self) -> Result<OwnedFd, LaneError> {
        open_again(self.locks.file())
    }

    pub(super) fn words(&self) -> Own {
        SpscOwn::new(self.memory.words(POSITION, 1), self.memory.futex_words(FUTEXES, SPSC_FUTEX_WORDS))
    }

    /// The lengths, in a producer's memory.
    pub(super) fn lengths(&self) -> Words {
        self.memory.words(LENGTHS, self.plan.slots)
    }

    /// Copies bytes into a slot of a producer's memory; the caller has checked that they lie within.
    pub(super) fn write(&self, slot: usize, offset: usize, bytes: &[u8]) {
        let to = self.address(slot).wrapping_add(offset);
        assert!(offset + bytes.len() <= self.plan.slot_bytes, "checked by the caller");
        // SAFETY: the range lies in a slot, which lies in the mapping that `memory` keeps (I2); `bytes` are private memory,
        // so the two do not overlap; nobody else writes there (I8).
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    pub(super) fn address(&self, slot: usize) -> *mut u8 {
        assert!(slot < self.plan.slots, "a slot that there is");
        self.memory.base().as_ptr().wrapping_add(self.plan.slots_offset() + slot * self.plan.slot_bytes)
    }

    #[inline]
    pub(super) fn check_process(&self) -> Result<(), ForkedChild> {
        self.locks.check_process()
    }
}

impl PeerMemory {
    /// Maps a file that the peer handed over, for reading, if it is what it must be.
    pub(super) fn open(file: OwnedFd, owner: Owner) -> Result<PeerMemory, LaneError> {
        let found = seals(file.as_fd())?;
        if !found.contains(SEALED) {
            return Err(LaneError::Unsealed { found: found.bits(), expected: SEALED.bits() });
        }
        let plan = Plan::decode(&Header::words_of_file(file.as_fd())?, owner)?;
        let len_bytes = plan.total_bytes();
        // Sealed: this cannot change any more.
        let (found, expected) = (length(file.as_fd())?, len_bytes as u64);
        if found != expected {
            return Err(LaneError::Length { found, expected });
        }
        // Pages that are not there would be this process's to pay for, or none would be left at the first touch. Those that
        // are there cannot be taken away: sealed.
        let status = rustix::fs::fstat(&file).map_err(LaneError::os("fstat"))?;
        let found = u64::try_from(status.st_blocks).unwrap_or(0).saturating_mul(BLOCK_BYTES);
        if found < expected {
            return Err(LaneError::Sparse { found, expected });
        }
        // The mapping keeps its description, and a peer that has its lock by that would seem to live as long as we do.
        let file = open_again(file.as_fd()).unwrap_or(file);
        let (mapping, placement) = memory::attach(file.as_fd(), len_bytes, Rights::Read)?;
        Ok(PeerMemory { plan, memory: Memory::mapped(mapping), placement, file })
    }

    pub(super) fn words(&self) -> Peer {
        SpscPeer::new(self.memory.words(POSITION, 1), self.memory.futex_words(FUTEXES, SPSC_FUTEX_WORDS))
    }

    pub(super) fn lengths(&self) -> Words {
        self.memory.words(LENGTHS, self.plan.slots)
    }

    /// The word that this side sleeps on.
    pub(super) fn signal(&self) -> FutexWords {
        self.memory.futex_words(FUTEXES + SPSC_SIGNAL * size_of::<u32>(), 1)
    }

    /// The slots, for devices to read.
    pub(super) fn slab(&self) -> Slab {
        let Plan { slots, slot_bytes, .. } = self.plan;
        let base = self.memory.base().map_addr(|address| address.saturating_add(self.plan.slots_offset()));
        // SAFETY: the plan puts that many bytes there, within the mapping. It is mapped for reading only (I8): the slab is
        // registered for reading only, and nobody gets a right to write to memory that processes share (I7).
        unsafe {
            Slab::of_shared(base, self.memory.mapping().cloned(), slots, slot_bytes, self.placement.clone())
        }
    }

    pub(super) fn address(&self, slot: usize) -> *const u8 {
        assert!(slot < self.plan.slots, "a slot that there is");
        self.memory.base().as_ptr().wrapping_add(self.plan.slots_offset() + slot * self.plan.slot_bytes)
    }

    /// Copies the beginning of a slot out; the caller has checked that it has so many bytes.
    pub(super) fn read(&self, slot: usize, bytes: &mut [u8]) {
        assert!(bytes.len() <= self.plan.slot_bytes, "checked by the caller");
        let from = self.address(slot);
        // SAFETY: the range lies in a slot, which lies in the mapping that `memory` keeps (I2), for reading; `bytes` are
        // private memory, so the two do not overlap. Bytes that the peer may write are copied only (I7).
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    }

    /// Whether the peer lives, as far as the kernel knows: a forked child may keep its lock.
    pub(super) fn is_alive(&self) -> bool {
        is_locked_by_another(self.file.as_fd(), self.plan.owner.byte()).unwrap_or(true)
    }
}

impl fmt::Debug for OwnMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnMemory").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl fmt::Debug for PeerMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerMemory").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// A description of its own, for reading.
fn open_again(file: BorrowedFd<'_>) -> Result<OwnedFd, LaneError> {
    reopen_as(file, OFlags::RDONLY).map_err(LaneError::os("open(/proc/self/fd)"))
}
