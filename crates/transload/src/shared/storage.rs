//! What the bytes of a region are kept in: a file without a name, sealed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{FileType, SealFlags},
    io::Errno,
};

use super::{
    error::SharedError,
    geometry::{Geometry, Place},
    header::{Header, WORDS},
    locks::{Locks, reopen, reopen_or_take},
    region::{Parts, SharedRegion},
    words::Memory,
};
use crate::memory::{self, Obtained, Recipe, Rights, SlabError, Store};

/// Without these, whoever has the file can cut it off, and the next touch of what was there ends the process.
pub(super) const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Makes a region in a file without a name.
pub(super) fn create(geometry: Geometry, recipe: &Recipe) -> Result<SharedRegion, SharedError> {
    let (parts, memfd) = fill(geometry, recipe, Store::Memfd)?;
    let memfd = memfd.ok_or(Errno::BADF).map_err(SharedError::os("memfd_create"))?;
    rustix::fs::fcntl_add_seals(&memfd, SEALS).map_err(SharedError::os("fcntl(F_ADD_SEALS)"))?;
    // The mapping keeps the description that it was made with, and a lock of that would outlive the region.
    let locks = Locks::attach(reopen_or_take(memfd)?)?.ok_or(SharedError::BeingMade)?;
    Ok(SharedRegion::new(parts, locks, true))
}

/// Obtains the memory of a region, and makes it one.
pub(super) fn fill(
    geometry: Geometry,
    recipe: &Recipe,
    store: Store<'_>,
) -> Result<(Parts, Option<OwnedFd>), SharedError> {
    // The unit of the attempt that succeeded is that of the last.
    let unit = std::cell::Cell::new(0);
    let length = |unit_bytes| -> Result<usize, SlabError> {
        unit.set(unit_bytes);
        Ok(geometry.layout(Place::Behind { alignment: unit_bytes }).total_bytes)
    };
    let Obtained { mapping, placement, memfd } = recipe.obtain(store, &length)?;
    let header = Header { geometry, place: Place::Behind { alignment: unit.get() }, id: new_id()? };
    let memory = Memory::mapped(mapping);
    header.write(&memory.words(0, WORDS));
    Ok((Parts { header, memory, buffers: None, placement }, memfd))
}

/// Opens a region in a file that somebody handed over.
pub(super) fn open(file: OwnedFd) -> Result<SharedRegion, SharedError> {
    check_sealed(file.as_fd())?;
    // The mapping keeps its description: that must not be one with locks, of this process or of who sent it.
    let parts = match reopen(file.as_fd()) {
        Ok(again) => map(again.as_fd())?,
        Err(_) => map(file.as_fd())?,
    };
    let locks = Locks::attach(reopen_or_take(file)?)?.ok_or(SharedError::BeingMade)?;
    Ok(SharedRegion::new(parts, locks, true))
}

/// Maps a file, if its header says that it is a region, and one as long as the file.
pub(super) fn map(file: BorrowedFd<'_>) -> Result<Parts, SharedError> {
    let header = Header::of_file(file)?;
    if header.place == Place::Apart {
        return Err(SharedError::BuffersApart);
    }
    let len_bytes = header.layout().total_bytes;
    let (found, expected) = (length(file)?, len_bytes as u64);
    if found != expected {
        return Err(SharedError::Length { what: "file", found, expected });
    }
    let (mapping, placement) = memory::attach(file, len_bytes, Rights::ReadWrite)?;
    Ok(Parts { header, memory: Memory::mapped(mapping), buffers: None, placement })
}

fn check_sealed(file: BorrowedFd<'_>) -> Result<(), SharedError> {
    let seals = seals(file)?;
    let is_writable = !seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE);
    if seals.contains(SEALS) && is_writable {
        Ok(())
    } else {
        Err(SharedError::Unsealed { found: seals.bits(), expected: SEALS.bits() })
    }
}

/// The seals of a regular file.
pub(super) fn seals(file: BorrowedFd<'_>) -> Result<SealFlags, SharedError> {
    let status = rustix::fs::fstat(file).map_err(SharedError::os("fstat"))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(SharedError::NotAFile { kind: status.st_mode & libc::S_IFMT });
    }
    match rustix::fs::fcntl_get_seals(file) {
        // A file that cannot have any.
        Err(Errno::INVAL) => Ok(SealFlags::empty()),
        other => other.map_err(SharedError::os("fcntl(F_GET_SEALS)")),
    }
}

pub(super) fn length(file: BorrowedFd<'_>) -> Result<u64, SharedError> {
    let status = rustix::fs::fstat(file).map_err(SharedError::os("fstat"))?;
    Ok(u64::try_from(status.st_size).unwrap_or(0))
}

/// A number that no other region has.
pub(super) fn new_id() -> Result<u128, SharedError> {
    let mut bytes = [0; size_of::<u128>()];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(SharedError::os("getrandom"))?;
    // So few bytes are never delivered in part (getrandom(2)).
    debug_assert_eq!(filled, size_of::<u128>());
    Ok(u128::from_ne_bytes(bytes))
}
