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
    #[error(
        "the {what} has {found} bytes, a region has {expected}: take a region's own file, as it was made"
    )]
    Length {
        /// The piece.
        what: &'static str,
        /// Bytes that there are.
        found: u64,
        /// Bytes that there must be.
        expected: u64,
    },
    /// A piece of the caller's memory is too small.
    #[error("{found} bytes of memory for the {what}, {wanted} are needed, within the address space")]
    TooSmall {
        /// What it is for.
        what: &'static str,
        /// Bytes that there are.
        found: usize,
        /// Bytes that there must be at least.
        wanted: usize,
    },
    /// A piece of the caller's memory begins in the midst of a line.
    #[error("the memory for the {what} begins at {address:#x}, which must be a multiple of {alignment}")]
    Misaligned {
        /// What it is for.
        what: &'static str,
        /// Where it begins.
        address: usize,
        /// What that must be a multiple of.
        alignment: usize,
    },
    /// The buffers are in a memory of their own.
    #[error("the buffers of this region are in a memory of their own: open it with both")]
    BuffersApart,
    /// The buffers are in the same memory as the rest.
    #[error("the buffers of this region are behind its metadata: open it with one memory")]
    BuffersBehind,
    /// Somebody who lives has a region in this memory.
    #[error(
        "there is a region in this memory, and a process that lives has it open: open it too, or end that one first"
    )]
    InUse,
    /// At this moment somebody makes the region, or takes a dead one's place.
    #[error("another process is making this region at this moment: try again")]
    BeingMade,
    /// What cannot be the name of an object.
    #[error("`{name}` cannot be a name: it must have 1 to {longest} bytes, and no `/`")]
    Name {
        /// The name.
        name: String,
        /// The most bytes in one.
        longest: usize,
    },
    /// Permissions that an object cannot have.
    #[error("permissions {mode:04o}: a named region has 0600, and 0660 at most")]
    Permissions {
        /// The permissions that were asked for.
        mode: u32,
    },
    /// Huge pages are required of a named object.
    #[error("a named region has ordinary pages: do not require others, or make one without a name")]
    OrdinaryPagesOnly,
    /// What has the name is not what may be trusted.
    #[error("`{name}` in /dev/shm is not a region to be used: {reason}")]
    Foreign {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Somebody who lives has the region of that name.
    #[error(
        "a process that lives has the region `{name}` open: open it too, choose another name, or end that one first"
    )]
    NameInUse {
        /// The name.
        name: String,
    },
    /// The file system of named objects is full.
    #[error(
        "{wanted_bytes} bytes wanted in /dev/shm, {free_bytes} free: ask for less, free some, or enlarge it as root \
         (mount -o remount,size=... /dev/shm)"
    )]
    NoRoom {
        /// Bytes wanted.
        wanted_bytes: u64,
        /// Bytes free, right after the failure.
        free_bytes: u64,
    },
    /// The descriptor is not of a file.
    #[error("the descriptor is not of a regular file, but of type {kind:#o}")]
    NotAFile {
        /// Its type, the bits `S_IFMT` of `st_mode`.
        kind: u32,
    },
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
