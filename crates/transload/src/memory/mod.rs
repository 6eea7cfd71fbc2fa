//! Memory for messages: one mapping, made once, placed as asked, and honest about what was obtained.
//!
//! A [`Slab`] is `buffer_count` buffers of `buffer_size` bytes in one anonymous mapping. It is made whole by its
//! constructor (mapped, bound to a NUMA node, faulted in, page-locked), and after that nothing about it changes
//! until its last handle ends: it is never remapped, never punched, never given back in part. So a kernel or a device
//! that was told its address may keep it for as long as a handle exists.
//!
//! ```text
//!              64 KiB aligned                                          mapped_bytes (multiple of 64 KiB)
//!              v                                                                     v
//!   [ guard ]  [ buffer 0 | buffer 1 | ... | buffer n-1 | rest of the last 64 KiB ]  [ guard ]
//!              ^ as_ptr()                               ^ as_ptr() + len_bytes()
//! ```
//!
//! What cannot always be had (huge pages, page-locking) is asked for by a [`Policy`]; what was really obtained is in
//! the slab's [`Placement`]. [`MemlockLimit`], [`HugePagePool`], [`TransparentMode`] and [`Topology`] say what the
//! system has to give before one asks.
//!
//! | file | holds |
//! |---|---|
//! | `slab` | [`Slab`]: the handle and what it keeps alive |
//! | `builder` | [`SlabBuilder`]: what is asked for |
//! | `recipe` | what is tried, in which order, and what a failure means |
//! | `file` | the files that memory which processes share is kept in |
//! | `mapping` | the only place that maps and unmaps |
//! | `prefault` | the first touch, in parallel |
//! | `policy`, `placement`, `error` | what is asked, what was obtained, what went wrong |
//! | `fault` | lets unit tests fail any step |
//! | `numa`, `limits`, `smaps` | what the kernel says: nodes, limits and pools, pages really there |
//!
//! # Fork
//!
//! The mapping is marked `MADV_DONTFORK`: a child process does not have it, and touching it there ends the child with
//! SIGSEGV. Dropping a handle in the child unmaps nothing there and does not drop the owner of foreign memory.

mod builder;
mod error;
mod fault;
mod file;
mod limits;
mod mapping;
mod numa;
mod placement;
mod policy;
mod prefault;
mod recipe;
mod slab;
mod smaps;

pub use builder::SlabBuilder;
pub use error::SlabError;
pub use limits::{HugePagePool, MemlockLimit, TransparentMode, available_memory_bytes};
pub use numa::{Node, Topology};
pub use placement::{Lock, LockRefusal, Placement, Source};
pub use policy::Policy;
pub use slab::Slab;
pub(crate) use slab::Tenancy;
#[cfg_attr(
    not(any(feature = "cuda", feature = "opencl", feature = "vulkan")),
    expect(unused_imports, reason = "for devices that allocate slabs")
)]
pub(crate) use slab::checked_len;
#[cfg(target_os = "linux")]
pub(crate) use {
    file::attach,
    mapping::{Mapping, Rights},
    recipe::{Obtained, Recipe, Store},
};
