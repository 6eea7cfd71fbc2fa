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
    region::SharedRegion,
    words::Memory,
};
use crate::memory::{self, Obtained, Recipe, Store};

/// Without these, whoever has the file can cut it off, and the next touch of what was there ends the process.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Makes a region in a file without a name.
pub(super) fn create(geometry: Geometry, recipe: &Recipe) -> Result<SharedRegion, SharedError> {
    let unit_of = std::cell::Cell::new(0);
    let length = |unit_bytes| {
        unit_of.set(unit_bytes);
        Ok(geometry.layout(Place::Behind { alignment: unit_bytes }).total_bytes)
    };
    let Obtained { mapping, placement, memfd } = recipe.obtain(Store::Memfd, &length)?;
    let memfd = memfd.ok_or(Errno::BADF).map_err(SharedError::os("memfd_create"))?;
    let header = Header { geometry, place: Place::Behind { alignment: unit_of.get() }, id: new_id()? };
    let memory = Memory::mapped(mapping);
    header.write(&memory.words(0, WORDS));
    rustix::fs::fcntl_add_seals(&memfd, SEALS).map_err(SharedError::os("fcntl(F_ADD_SEALS)"))?;
    // The mapping keeps the description that it was made with, and a lock of that would outlive the region.
    let file = reopen_or_take(memfd).map_err(SharedError::os("open(/proc/self/fd)"))?;
    let locks = Locks::new(file).map_err(SharedError::os("madvise(MADV_WIPEONFORK)"))?;
    SharedRegion::assemble(header, memory, None, placement, locks, true)
}

/// Opens a region in a file that somebody handed over.
pub(super) fn open(file: OwnedFd) -> Result<SharedRegion, SharedError> {
    check_sealed(file.as_fd())?;
    let header = read_header(file.as_fd())?;
    let expected = header.layout().total_bytes;
    // Sealed: this cannot change any more.
    let found = rustix::fs::fstat(&file).map_err(SharedError::os("fstat"))?.st_size as u64;
    if found != expected as u64 {
        return Err(SharedError::Length { found, expected: expected as u64 });
    }
    if header.place == Place::Apart {
        return Err(SharedError::BuffersApart);
    }
    // The mapping keeps its description: that must not be one with locks, of this process or of who sent it.
    let (mapping, placement) = match reopen(file.as_fd()) {
        Ok(again) => memory::attach(again.as_fd(), expected)?,
        Err(_) => memory::attach(file.as_fd(), expected)?,
    };
    let file = reopen_or_take(file).map_err(SharedError::os("open(/proc/self/fd)"))?;
    let locks = Locks::new(file).map_err(SharedError::os("madvise(MADV_WIPEONFORK)"))?;
    SharedRegion::assemble(header, Memory::mapped(mapping), None, placement, locks, true)
}

fn check_sealed(file: BorrowedFd<'_>) -> Result<(), SharedError> {
    let status = rustix::fs::fstat(file).map_err(SharedError::os("fstat"))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(SharedError::NotAFile { kind: status.st_mode & libc::S_IFMT });
    }
    let seals = match rustix::fs::fcntl_get_seals(file) {
        // A file that cannot have any.
        Err(Errno::INVAL) => SealFlags::empty(),
        other => other.map_err(SharedError::os("fcntl(F_GET_SEALS)"))?,
    };
    let is_writable = !seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE);
    if seals.contains(SEALS) && is_writable {
        Ok(())
    } else {
        Err(SharedError::Unsealed { found: seals.bits(), expected: SEALS.bits() })
    }
}

/// Reads the header once. No file that is a region is shorter.
fn read_header(file: BorrowedFd<'_>) -> Result<Header, SharedError> {
    let mut bytes = [0; WORDS * size_of::<u64>()];
    let mut read = 0;
    while read < bytes.len() {
        match rustix::io::pread(file, &mut bytes[read..], read as u64) {
            Ok(0) => {
                return Err(SharedError::Length { found: read as u64, expected: bytes.len() as u64 });
            }
            Ok(more) => read += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(SharedError::os("pread")(error)),
        }
    }
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Header::decode(&words)
}

fn new_id() -> Result<u128, SharedError> {
    let mut bytes = [0; size_of::<u128>()];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(SharedError::os("getrandom"))?;
    // So few bytes are never delivered in part (getrandom(2)).
    debug_assert_eq!(filled, size_of::<u128>());
    Ok(u128::from_ne_bytes(bytes))
}
