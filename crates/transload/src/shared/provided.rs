//! Regions in memory that the caller provides.

use std::{os::fd::OwnedFd, ptr::NonNull};

use super::{
    error::SharedError,
    geometry::{ALIGNMENTS, Geometry, HEADER_BYTES, LINE_BYTES, Place},
    header::{Header, WORDS},
    locks::{Locks, reopen_or_take},
    region::{Parts, SharedRegion},
    storage::new_id,
    words::Memory,
};
use crate::memory::{Placement, Source};

/// Memory for a region, which the caller has mapped for all processes that use it, and the file of its locks.
///
/// In one piece it holds the metadata and then the buffers; in two pieces the buffers are in the second, which may be
/// of another kind: huge pages, or memory that a device has made.
#[derive(Debug)]
pub struct SharedStorage {
    pieces: Pieces,
    lock_file: OwnedFd,
}

#[derive(Debug)]
struct Pieces {
    metadata: NonNull<[u8]>,
    buffers: Option<NonNull<[u8]>>,
}

// SAFETY: addresses and lengths, which are used by unsafe functions only.
unsafe impl Send for Pieces {}
// SAFETY: as above.
unsafe impl Sync for Pieces {}

impl SharedStorage {
    /// One piece of memory, that begins on a multiple of 128 bytes and has at least
    /// [`SharedRegionBuilder::total_bytes`](super::SharedRegionBuilder::total_bytes).
    ///
    /// `lock_file` is any file that is open for writing, the same for all processes and for no other region: the one
    /// behind the memory, for instance. Locks are put far beyond its end; nothing is read or written. It is opened anew
    /// through `/proc/self/fd`; where that is not possible, it must have been opened by this process, and be used for
    /// nothing else.
    pub fn new(memory: NonNull<[u8]>, lock_file: OwnedFd) -> SharedStorage {
        SharedStorage { pieces: Pieces { metadata: memory, buffers: None }, lock_file }
    }

    /// Another piece, for the buffers. The first then needs
    /// [`SharedRegionBuilder::metadata_bytes`](super::SharedRegionBuilder::metadata_bytes) only, and this one
    /// [`SharedRegionBuilder::buffers_bytes`](super::SharedRegionBuilder::buffers_bytes); it begins on a multiple of 128
    /// bytes too.
    #[must_use]
    pub fn with_buffers(mut self, buffers: NonNull<[u8]>) -> SharedStorage {
        self.pieces.buffers = Some(buffers);
        self
    }
}

impl Pieces {
    fn place(&self) -> Place {
        match self.buffers {
            Some(_) => Place::Apart,
            None => Place::Behind { alignment: *ALIGNMENTS.start() },
        }
    }

    /// That the memory is as long as the header says, and aligned.
    fn check(&self, header: &Header) -> Result<(), SharedError> {
        check_piece("metadata", self.metadata, header.layout().total_bytes)?;
        match self.buffers {
            Some(buffers) => check_piece("buffers", buffers, header.geometry.buffers_bytes()),
            None => Ok(()),
        }
    }

    /// # Safety
    ///
    /// As [`SharedRegion::open_in`].
    unsafe fn parts(&self, header: Header) -> Parts {
        // SAFETY: this function's contract.
        let lend = |piece: NonNull<[u8]>| unsafe { Memory::lent(piece.cast(), piece.len()) };
        let (memory, buffers) = (lend(self.metadata), self.buffers.map(lend));
        let (base, offset) = match &buffers {
            Some(buffers) => (buffers.base(), 0),
            None => (memory.base(), header.layout().buffers.unwrap_or(0)),
        };
        let start = base.map_addr(|address| address.saturating_add(offset));
        let placement = Placement::of_foreign(start, header.geometry.buffers_bytes(), Source::Shared);
        Parts { header, memory, buffers, placement }
    }
}

/// Makes a region of the caller's memory, if nobody who lives has one there.
///
/// # Safety
///
/// As [`SharedRegionBuilder::create_in`](super::SharedRegionBuilder::create_in).
pub(super) unsafe fn create(geometry: Geometry, storage: SharedStorage) -> Result<SharedRegion, SharedError> {
    let SharedStorage { pieces, lock_file } = storage;
    let header = Header { geometry, place: pieces.place(), id: new_id()? };
    pieces.check(&header)?;
    // SAFETY: this function's contract; the length was checked.
    let parts = unsafe { pieces.parts(header) };
    let locks = Locks::make(reopen_or_take(lock_file)?)?.ok_or(SharedError::InUse)?;
    // Whatever was there, nobody is attached to it, and until `settle` nobody will be.
    let all = parts.memory.words(0, header.layout().metadata_bytes / size_of::<u64>());
    Header::erase(&all);
    header.write(&all);
    locks.settle()?;
    Ok(SharedRegion::new(parts, locks, false))
}

/// Opens the region that is in the caller's memory.
///
/// # Safety
///
/// As [`SharedRegion::open_in`].
pub(super) unsafe fn open(storage: SharedStorage) -> Result<SharedRegion, SharedError> {
    let SharedStorage { pieces, lock_file } = storage;
    check_piece("metadata", pieces.metadata, HEADER_BYTES)?;
    // First of all: from now on nobody makes another region of this memory.
    let locks = Locks::attach(reopen_or_take(lock_file)?)?.ok_or(SharedError::BeingMade)?;
    // SAFETY: this function's contract.
    let memory = unsafe { Memory::lent(pieces.metadata.cast(), pieces.metadata.len()) };
    let header = Header::of_words(&memory.words(0, WORDS))?;
    match (header.place, &pieces.buffers) {
        (Place::Apart, None) => return Err(SharedError::BuffersApart),
        (Place::Behind { .. }, Some(_)) => return Err(SharedError::BuffersBehind),
        _ => {}
    }
    pieces.check(&header)?;
    // SAFETY: this function's contract; the length was checked.
    let parts = unsafe { pieces.parts(header) };
    Ok(SharedRegion::new(parts, locks, false))
}

fn check_piece(what: &'static str, piece: NonNull<[u8]>, wanted: usize) -> Result<(), SharedError> {
    let (address, found) = (piece.cast::<u8>().addr().get(), piece.len());
    if !address.is_multiple_of(LINE_BYTES) {
        return Err(SharedError::Misaligned { what, address, alignment: LINE_BYTES });
    }
    if found < wanted || address.checked_add(found).is_none() {
        return Err(SharedError::TooSmall { what, found, wanted });
    }
    Ok(())
}
