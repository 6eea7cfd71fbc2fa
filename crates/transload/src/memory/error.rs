//! Why a slab could not be made.

use std::{fmt, io};

use super::{
    limits::HugePagePool,
    placement::{Limit, LockRefusal},
};

/// Why a slab could not be made: the number wanted, the number there is, and what to do about it.
///
/// ```
/// use transload::memory::{Slab, SlabError};
///
/// let error = Slab::new(usize::MAX, 2).unwrap_err();
/// assert!(matches!(error, SlabError::TooLarge { .. }));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlabError {
    /// No buffers, or buffers of no bytes.
    #[error("{buffer_count} buffers of {buffer_size} bytes make no slab: both numbers must be at least 1")]
    ZeroSize {
        /// Buffers wanted.
        buffer_count: usize,
        /// Bytes wanted in each.
        buffer_size: usize,
    },
    /// More bytes than an address can count.
    #[error(
        "{buffer_count} buffers of {buffer_size} bytes are more than the {max_bytes} bytes that one slab can have: \
         ask for fewer or smaller buffers"
    )]
    TooLarge {
        /// Buffers wanted.
        buffer_count: usize,
        /// Bytes wanted in each.
        buffer_size: usize,
        /// The most bytes that a slab with these pages can have.
        max_bytes: usize,
    },
    /// Foreign memory that would reach past the end of the address space.
    #[error(
        "{len_bytes} bytes at address {address:#x} reach past the end of the address space: check the pointer"
    )]
    BeyondAddressSpace {
        /// Where the memory starts.
        address: usize,
        /// How long it is.
        len_bytes: usize,
    },
    /// Two kinds of pages are both required.
    #[error(
        "{first} and {second} pages are both required, and memory has one kind: require one, prefer the others"
    )]
    ConflictingPages {
        /// One kind.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// The pool of huge pages has too few left.
    #[error("{}", NoHugePagesText { page_bytes: *page_bytes, wanted: *wanted_pages, pool: pool.as_ref(), node: *numa_node })]
    NoHugePages {
        /// Bytes in one such page.
        page_bytes: usize,
        /// Pages wanted.
        wanted_pages: usize,
        /// What the pool held when asked right after the failure; `None` if the kernel has no pool of this size.
        pool: Option<HugePagePool>,
        /// The node that the pages had to lie on.
        numa_node: Option<u32>,
    },
    /// The kernel did not give transparent huge pages for all of the slab.
    #[error(
        "{wanted_bytes} bytes of transparent huge pages wanted, {obtained_bytes} obtained ({reason}): \
         {remedy} as root, free or compact memory \
         (echo 1 > /proc/sys/vm/compact_memory), or ask with `Prefer`"
    )]
    NoTransparentPages {
        /// Bytes that should have been in huge pages.
        wanted_bytes: usize,
        /// Bytes that are.
        obtained_bytes: usize,
        /// What the system says about them.
        reason: &'static str,
        /// The command that allows them.
        remedy: &'static str,
    },
    /// A slab too small to hold one transparent huge page.
    #[error(
        "a slab of {len_bytes} bytes holds no transparent huge page, which has {huge_bytes} bytes: \
         ask for a larger slab or do not require them"
    )]
    TooSmallForTransparent {
        /// Bytes in the slab.
        len_bytes: usize,
        /// Bytes in one transparent huge page.
        huge_bytes: usize,
    },
    /// Another ring or pool hands out the parts of this slab.
    #[error(
        "these {len_bytes} bytes are in use by another ring or pool, and a slab has one at a time: \
         drop that one first, or make a second slab"
    )]
    Occupied {
        /// Bytes in the slab.
        len_bytes: usize,
    },
    /// Page-locking is required and was refused.
    #[error("{0}")]
    LockRefused(LockRefusal),
    /// There is no such NUMA node, or it has no memory.
    #[error("no NUMA node {node} with memory; there is {}: choose one of these, or name none", Nodes(known))]
    UnknownNode {
        /// The node asked for.
        node: u32,
        /// The nodes that have memory.
        known: Vec<u32>,
    },
    /// The system does not allow placing memory on a node.
    #[error(
        "binding {bytes} bytes to NUMA node {node} was denied ({source}): in a container add --cap-add SYS_NICE, \
         or name no node"
    )]
    BindDenied {
        /// The node asked for.
        node: u32,
        /// Bytes to bind.
        bytes: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is not that much memory.
    #[error("{wanted_bytes} bytes wanted, {} available: free some memory or ask for fewer or smaller buffers", Limit(*available_bytes))]
    OutOfMemory {
        /// Bytes wanted.
        wanted_bytes: usize,
        /// Bytes that the system estimates it can give without swapping, and free swap; `None` if it does not say.
        available_bytes: Option<u64>,
    },
    /// Any other refusal of the kernel.
    #[error("{call} of {bytes} bytes failed: {source}; `transload doctor` shows what this system allows")]
    Os {
        /// The system call.
        call: &'static str,
        /// The bytes that it was about.
        bytes: usize,
        /// What the kernel said.
        source: io::Error,
    },
}

impl SlabError {
    /// Whether other pages may do where this failed: everything but what holds for any kind of pages.
    pub(super) fn is_about_pages(&self) -> bool {
        !matches!(
            self,
            SlabError::ZeroSize { .. }
                | SlabError::UnknownNode { .. }
                | SlabError::BindDenied { .. }
                | SlabError::LockRefused(_)
        )
    }
}

struct NoHugePagesText<'a> {
    page_bytes: usize,
    wanted: usize,
    pool: Option<&'a HugePagePool>,
    node: Option<u32>,
}

impl fmt::Display for NoHugePagesText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = self.page_bytes / 1024;
        let wanted = self.wanted;
        let Some(pool) = self.pool else {
            return write!(
                f,
                "{wanted} huge pages of {kib} KiB wanted, and this kernel has no such size: \
                 see ls /sys/kernel/mm/hugepages for those it has"
            );
        };
        let usable = pool.usable_pages();
        write!(f, "{wanted} huge pages of {kib} KiB wanted, {usable} of {} free", pool.total_pages)?;
        if let Some(node) = self.node {
            write!(f, " on node {node}")?;
        }
        if usable >= wanted as u64 {
            return f.write_str(
                ", and the kernel gave none: check the hugetlb limit of the control group (hugetlb.*.max), \
                 or try again if others took them",
            );
        }
        write!(f, "; reserve them as root: {}", pool.reserve_command(wanted as u64))
    }
}

struct Nodes<'a>(&'a [u32]);

impl fmt::Display for Nodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("none that the kernel lists"),
            [only] => write!(f, "only node {only}"),
            many => write!(f, "nodes {many:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_node_lists_those_that_exist() {
        let text = |known: &[u32]| SlabError::UnknownNode { node: 7, known: known.to_vec() }.to_string();
        assert!(text(&[]).contains("node 7 with memory; there is none"), "{}", text(&[]));
        assert!(text(&[0]).contains("only node 0"), "{}", text(&[0]));
        assert!(text(&[0, 2]).contains("nodes [0, 2]"), "{}", text(&[0, 2]));
    }

    #[test]
    fn missing_huge_pages_tell_wanted_free_and_command() {
        let error = SlabError::NoHugePages {
            page_bytes: 2 << 20,
            wanted_pages: 8,
            pool: Some(HugePagePool {
                page_bytes: 2 << 20,
                total_pages: 5,
                free_pages: 4,
                reserved_pages: 1,
                is_default: true,
                numa_node: None,
            }),
            numa_node: None,
        };
        let text = error.to_string();
        assert!(text.contains("8 huge pages of 2048 KiB wanted, 3 of 5 free"), "{text}");
        assert!(text.ends_with("echo 10 > /proc/sys/vm/nr_hugepages"), "{text}");
    }

    #[test]
    fn unknown_huge_page_size_says_so() {
        let error =
            SlabError::NoHugePages { page_bytes: 1 << 30, wanted_pages: 1, pool: None, numa_node: None };
        assert!(error.to_string().contains("no such size"), "{error}");
    }
}
