//! The files that memory which processes share is kept in.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::{fs::FallocateFlags, io::Errno};

use super::mapping::MapError;
#[cfg(target_os = "linux")]
use super::{
    error::SlabError,
    limits,
    mapping::{Mapping, Pages, Rights},
    numa,
    placement::{Placement, Source},
    recipe::{self, Recipe},
};

/// A file without a name, empty, that can be sealed, for its owner only; of huge pages of this many bytes, if asked.
#[cfg(target_os = "linux")]
pub(super) fn memfd(huge_bytes: Option<usize>) -> Result<OwnedFd, MapError> {
    use rustix::fs::MemfdFlags;
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if let Some(huge_bytes) = huge_bytes {
        // MFD_HUGE_SHIFT is 26: the logarithm of the size stands in these bits (memfd_create(2)).
        flags |= MemfdFlags::HUGETLB | MemfdFlags::from_bits_retain(huge_bytes.trailing_zeros() << 26);
    }
    let create = |flags| rustix::fs::memfd_create("transload", flags);
    let created = match create(flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know this flag.
        Err(Errno::INVAL) => create(flags),
        other => other,
    };
    let file = created.map_err(|source| MapError { call: "memfd_create", source })?;
    // It is born with mode 0777, with which anybody who is lent a descriptor could open it again for writing.
    rustix::fs::fchmod(&file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
        .map_err(|source| MapError { call: "fchmod", source })?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn memfd(_huge_bytes: Option<usize>) -> Result<OwnedFd, MapError> {
    Err(MapError { call: "memfd_create", source: Errno::NOSYS })
}

pub(super) fn set_len(file: BorrowedFd<'_>, len_bytes: usize) -> Result<(), MapError> {
    rustix::fs::ftruncate(file, len_bytes as u64).map_err(|source| MapError { call: "ftruncate", source })
}

/// Gives the file all of its pages: without them, the first touch may find none left, and that is SIGBUS.
pub(super) fn allocate(file: BorrowedFd<'_>, len_bytes: usize) -> Result<(), MapError> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len_bytes as u64) {
            Err(Errno::INTR) => {}
            other => return other.map_err(|source| MapError { call: "fallocate", source }),
        }
    }
}

/// Maps memory that another process made: the whole file, which has `len_bytes`. Page-locked if that is allowed.
#[cfg(target_os = "linux")]
pub(crate) fn attach(
    file: BorrowedFd<'_>,
    len_bytes: usize,
    rights: Rights,
) -> Result<(Mapping, Placement), SlabError> {
    /// `HUGETLBFS_MAGIC` of include/uapi/linux/magic.h.
    const HUGE_PAGES: u64 = 0x9584_58f6;
    let failed =
        |error: MapError| SlabError::Os { call: error.call, bytes: len_bytes, source: error.into_io() };
    let system = rustix::fs::fstatfs(file).map_err(|source| failed(MapError { call: "fstatfs", source }))?;
    let is_of_pool = u64::try_from(system.f_type).is_ok_and(|kind| kind == HUGE_PAGES);
    let (pages, page_bytes) = if is_of_pool {
        // Of such a file system a block is a page.
        let page_bytes = usize::try_from(system.f_bsize).unwrap_or(rustix::param::page_size());
        (Pages::Pool { page_bytes }, page_bytes)
    } else {
        let huge_bytes = limits::transparent_page_bytes();
        let align_bytes = if len_bytes < huge_bytes { recipe::grain_bytes() } else { huge_bytes };
        (Pages::Base { align_bytes }, rustix::param::page_size())
    };
    let mapping = Mapping::of_file(file, len_bytes, pages, rights).map_err(failed)?;
    mapping.dont_fork().map_err(failed)?;
    mapping.look_up(rights).map_err(failed)?;
    let mut fallbacks = Vec::new();
    let lock = Recipe::default().lock_pages(is_of_pool, &mapping, true, &mut fallbacks)?;
    if let [refusal] = &fallbacks[..] {
        tracing::warn!(bytes = len_bytes, %refusal, "shared memory is not page-locked");
    }
    let numa_node = numa::node_of(mapping.base(), len_bytes, page_bytes);
    let placement = Placement { page_bytes, transparent: false, numa_node, lock, source: Source::Shared };
    Ok((mapping, placement))
}
