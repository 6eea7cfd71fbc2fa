//! Why there is no region.

use std::io;

use crate::{fork::ForkedChild, memory::SlabError};

/// Why a region could not be made or opened: the number wanted, the number there is, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharedError {
    /// A number that no region can have.
    #[error("{wanted} {what}: a region has 1 to {most}")]
    OutOfRange {
        /// What there would be so many of.
        what: &'static str,
        /// How many were asked for, or found in the header.
        wanted: usize,
        /// The most there can be.
        most: usize,
    },
    /// A ring that cannot be counted around.
    #[error("a ring of {ring_slots} slots: their number must be a power of two, the next is {next}")]
    NoPowerOfTwo {
        /// Slots asked for, or found in the header.
        ring_slots: usize,
        /// The next number that will do.
        next: usize,
    },
    /// More bytes than this system can address.
    #[error(
        "{buffer_count} buffers of {buffer_size} bytes are more than this system can address: ask for fewer or smaller ones"
    )]
    TooLarge {
        /// Buffers.
        buffer_count: usize,
        /// Bytes in each.
        buffer_size: usize,
    },
    /// The memory could not be had.
    #[error(transparent)]
    Memory(#[from] SlabError),
    /// The header is of a machine that orders bytes the other way.
    #[error(
        "the region was made on a machine of the other byte order (its mark is {found:#018x}, here it is {expected:#018x})"
    )]
    OtherByteOrder {
        /// The mark as it is read here.
        found: u64,
        /// The mark as it is written here.
        expected: u64,
    },
    /// There is no region yet, or whoever was making it has died.
    #[error(
        "no region is ready there (it begins with {magic:#018x}, a region with {expected:#018x}): \
         wait until it is made, or make it again"
    )]
    NotReady {
        /// What stands first.
        magic: u64,
        /// What should.
        expected: u64,
    },
    /// The layout is of another version.
    #[error("layout version {found}, this program knows {known}: use programs of the same version")]
    LayoutVersion {
        /// The region's.
        found: u64,
        /// The only one that this program knows.
        known: u64,
    },
    /// The region uses what this program does not know.
    #[error("features {found:#x}, this program knows {known:#x}: use programs of the same version")]
    Features {
        /// The region's, one bit each.
        found: u64,
        /// Those that this program knows.
        known: u64,
    },
    /// A field of the header is not what it must be.
    #[error("the header is damaged, or no header: {field} is {found:#x}, must be {expected:#x}")]
    Header {
        /// The field.
        field: &'static str,
        /// What it holds.
        found: u64,
        /// What it must hold, by the fields before it.
        expected: u64,
    },
    /// The memory is not as long as the header says.
    #[error("{found} bytes of memory, the header says {expected}")]
    Length {
        /// Bytes that there are.
        found: u64,
        /// Bytes that there must be.
        expected: u64,
    },
    /// The descriptor is not of a file.
    #[error("the descriptor is not of a regular file, but of type {kind:#o}")]
    NotAFile {
        /// Its type, the bits `S_IFMT` of `st_mode`.
        kind: u32,
    },
    /// The buffers are in a memory of their own.
    #[error("the buffers of this region are in a memory of their own: open it with both memories")]
    BuffersApart,
    /// The file could be cut off under those who use it.
    #[error(
        "the file has seals {found:#x}, and must have {expected:#x} (shrink, grow, seal) and be writable: \
         take a region's own descriptor"
    )]
    Unsealed {
        /// The seals that it has.
        found: u32,
        /// Those that it must have.
        expected: u32,
    },
    /// The handle was made by the parent of this process.
    #[error(transparent)]
    ForkedChild(#[from] ForkedChild),
    /// Any other refusal of the system.
    #[error("{call} failed: {source}")]
    Os {
        /// What was called.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl SharedError {
    /// For `map_err`.
    pub(super) fn os<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> SharedError {
        move |source| SharedError::Os { call, source: source.into() }
    }
}
