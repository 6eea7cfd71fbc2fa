//! How memory is obtained: what to try, in which order, and what a failure means.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::io::Errno;

use super::{
    error::SlabError,
    file,
    limits::{self, HugePagePool, MemlockLimit, TransparentMode},
    mapping::{MapError, Mapping, Pages, Rights},
    numa::{self, Topology},
    placement::{Lock, LockRefusal, Placement, Source},
    policy::Policy,
    prefault, smaps,
};

/// Base and length of all memory are multiples of this: the largest page that a base page can be (64 KiB on some
/// ARM systems), and more than any device asks of memory that it takes over.
const GRAIN_BYTES: usize = 64 << 10;

/// What base and length of memory of ordinary pages are multiples of.
pub(super) fn grain_bytes() -> usize {
    GRAIN_BYTES.max(rustix::param::page_size())
}

/// What memory is to be like.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) transparent: Policy,
    pub(crate) pages_2m: Policy,
    pub(crate) pages_1g: Policy,
    pub(crate) lock: Policy,
    pub(crate) numa_node: Option<u32>,
    pub(crate) prefault: bool,
}

/// What the bytes are kept in.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "memory is shared on Linux only"))]
pub(crate) enum Store<'a> {
    /// Nothing but the mapping: they are this process's own.
    Anonymous,
    /// A file without a name, made for them.
    Memfd,
    /// An empty file of a file system in memory: ordinary pages, whatever else is preferred.
    File(BorrowedFd<'a>),
}

/// Memory, as it was obtained.
#[derive(Debug)]
pub(crate) struct Obtained {
    pub(crate) mapping: Mapping,
    pub(crate) placement: Placement,
    /// The file that was made for it.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "memory is shared on Linux only"))]
    pub(crate) memfd: Option<OwnedFd>,
}

/// How many bytes are wanted, if what has to begin on a page begins at multiples of the unit that is given.
pub(crate) type LengthFor<'a> = &'a dyn Fn(usize) -> Result<usize, SlabError>;

/// One kind of pages to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pool { page_bytes: usize },
    Transparent,
    Base,
}

impl Default for Recipe {
    fn default() -> Recipe {
        Recipe {
            transparent: Policy::Never,
            pages_2m: Policy::Never,
            pages_1g: Policy::Never,
            lock: Policy::Prefer,
            numa_node: None,
            prefault: true,
        }
    }
}

impl Recipe {
    /// Makes the memory. A failure leaves nothing behind.
    pub(crate) fn obtain(&self, store: Store<'_>, length: LengthFor<'_>) -> Result<Obtained, SlabError> {
        length(grain_bytes())?;
        let kinds = if let Store::File(_) = store { vec![Kind::Base] } else { self.kinds()? };
        let topology = Topology::of_system().ok();
        self.check_node(topology.as_ref())?;
        let several_nodes = topology.is_some_and(|topology| topology.nodes.len() > 1);
        let spread = several_nodes && self.numa_node.is_none();

        let mut fallbacks = Vec::new();
        let mut kinds = kinds.into_iter().peekable();
        let attempt =
            |kind, fallbacks: &mut Vec<String>| self.attempt(kind, store, length, spread, fallbacks);
        let mut made = attempt(kinds.next().unwrap_or(Kind::Base), &mut fallbacks);
        while let Err(error) = &made {
            let Some(next) = kinds.next_if(|_| error.is_about_pages()) else { break };
            fallbacks.push(error.to_string());
            made = attempt(next, &mut fallbacks);
        }
        if let (Ok(made), false) = (&made, fallbacks.is_empty()) {
            let fallbacks = fallbacks.join("; ");
            let bytes = made.mapping.len_bytes();
            tracing::warn!(bytes, %fallbacks, "memory made with less than preferred");
        }
        made
    }

    /// The kinds of pages to try, in order; never empty.
    fn kinds(&self) -> Result<Vec<Kind>, SlabError> {
        let wishes = [
            ("1 GiB", self.pages_1g, Kind::Pool { page_bytes: 1 << 30 }),
            ("2 MiB", self.pages_2m, Kind::Pool { page_bytes: 2 << 20 }),
            ("transparent huge", self.transparent, Kind::Transparent),
        ];
        let mut required = wishes.iter().filter(|(_, policy, _)| *policy == Policy::Require);
        match (required.next(), required.next()) {
            (Some((first, ..)), Some((second, ..))) => Err(SlabError::ConflictingPages { first, second }),
            (Some((.., kind)), None) => Ok(vec![*kind]),
            (None, _) => {
                let preferred =
                    wishes.iter().filter(|(_, policy, _)| policy.is_wanted()).map(|(.., kind)| *kind);
                Ok(preferred.chain([Kind::Base]).collect())
            }
        }
    }

    fn check_node(&self, topology: Option<&Topology>) -> Result<(), SlabError> {
        // Where the nodes are not listed, the kernel answers when it is asked to bind; up to the most nodes that any
        // kernel is built for (CONFIG_NODES_SHIFT is at most 10), so that the number is no reason to allocate.
        const MOST_NODES: u32 = 1 << 10;
        let Some(node) = self.numa_node else { return Ok(()) };
        let known = topology.map(Topology::nodes_with_memory).unwrap_or_default();
        let possible = if topology.is_some() { known.contains(&node) } else { node < MOST_NODES };
        if possible { Ok(()) } else { Err(SlabError::UnknownNode { node, known }) }
    }

    /// Makes memory of one kind of pages. Whatever fails, the mapping goes with it, and a file that was made.
    fn attempt(
        &self,
        kind: Kind,
        store: Store<'_>,
        length: LengthFor<'_>,
        spread: bool,
        fallbacks: &mut Vec<String>,
    ) -> Result<Obtained, SlabError> {
        let base_page = rustix::param::page_size();
        let grain = grain_bytes();
        let (unit_bytes, page_bytes) = match kind {
            Kind::Pool { page_bytes } => (page_bytes, page_bytes),
            Kind::Transparent | Kind::Base => (grain, base_page),
        };
        let mapped_bytes = length(unit_bytes)?.next_multiple_of(unit_bytes);
        let faulted_in = match kind {
            Kind::Pool { .. } => true,
            Kind::Transparent => self.prefault || self.transparent == Policy::Require,
            Kind::Base => self.prefault,
        };
        let failed = |error| self.map_error(kind, mapped_bytes, error);

        let memfd = match store {
            Store::Memfd => {
                let huge_bytes = if let Kind::Pool { page_bytes } = kind { Some(page_bytes) } else { None };
                Some(file::memfd(huge_bytes).map_err(failed)?)
            }
            Store::Anonymous | Store::File(_) => None,
        };
        let file = match store {
            Store::File(file) => Some(file),
            Store::Memfd | Store::Anonymous => memfd.as_ref().map(AsFd::as_fd),
        };
        if let Some(file) = file {
            file::set_len(file, mapped_bytes).map_err(failed)?;
        }
        let mapping = self.map(kind, file, mapped_bytes, grain, faulted_in)?;
        if let Some(node) = self.numa_node {
            // SAFETY: the range is the mapping's, which starts on a page and which no one else knows yet (I1).
            unsafe { numa::bind(mapping.base(), mapped_bytes, node) }
                .map_err(|source| bind_error(node, mapped_bytes, source))?;
        }
        mapping.dont_fork().map_err(failed)?;
        // Pages that the file is given before they are touched are ordinary ones, and are there: touching them cannot
        // end the process.
        if let (Some(file), Kind::Pool { .. } | Kind::Base) = (file, kind) {
            file::allocate(file, mapped_bytes).map_err(failed)?;
        }
        if faulted_in {
            let threads = prefault::thread_count(mapped_bytes, spread);
            mapping.populate(page_bytes, threads).map_err(failed)?;
        }
        if let (Some(file), Kind::Transparent) = (file, kind) {
            file::allocate(file, mapped_bytes).map_err(failed)?;
        }
        let lock = self.lock_pages(matches!(kind, Kind::Pool { .. }), &mapping, faulted_in, fallbacks)?;
        let transparent = kind == Kind::Transparent
            && faulted_in
            && self.look_for_huge(file.is_some(), &mapping, fallbacks)?;
        let numa_node =
            if faulted_in { numa::node_of(mapping.base(), mapped_bytes, page_bytes) } else { None };

        let source = if file.is_some() { Source::Shared } else { Source::Allocated };
        let placement = Placement { page_bytes, transparent, numa_node, lock, source };
        Ok(Obtained { mapping, placement, memfd })
    }

    fn map(
        &self,
        kind: Kind,
        file: Option<BorrowedFd<'_>>,
        mapped_bytes: usize,
        grain: usize,
        faulted_in: bool,
    ) -> Result<Mapping, SlabError> {
        let failed = |error| self.map_error(kind, mapped_bytes, error);
        let map = |pages| match file {
            Some(file) => Mapping::of_file(file, mapped_bytes, pages, Rights::ReadWrite).map_err(failed),
            None => Mapping::new(mapped_bytes, pages).map_err(failed),
        };
        if let Kind::Pool { page_bytes } = kind {
            // The kernel sets pages aside without regard to the node and would find its part of the pool empty only
            // when they are touched.
            let wanted = (mapped_bytes / page_bytes) as u64;
            let part = self.numa_node.and_then(|node| HugePagePool::of(page_bytes, Some(node)));
            if part.is_some_and(|part| part.usable_pages() < wanted) {
                return Err(self.no_huge_pages(page_bytes, mapped_bytes));
            }
            return map(Pages::Pool { page_bytes });
        }
        let available_bytes = limits::available_memory_bytes();
        if faulted_in && available_bytes.is_some_and(|available| available < mapped_bytes as u64) {
            return Err(SlabError::OutOfMemory { wanted_bytes: mapped_bytes, available_bytes });
        }
        if kind == Kind::Base {
            let mapping = map(Pages::Base { align_bytes: grain })?;
            mapping.transparent(false).map_err(failed)?;
            return Ok(mapping);
        }
        let huge_bytes = limits::transparent_page_bytes();
        if mapped_bytes < huge_bytes {
            return Err(SlabError::TooSmallForTransparent { len_bytes: mapped_bytes, huge_bytes });
        }
        let mapping = map(Pages::Base { align_bytes: huge_bytes.max(grain) })?;
        mapping.transparent(true).map_err(|error| match error.source {
            Errno::INVAL | Errno::NOTSUP | Errno::NOSYS => {
                no_transparent_pages(file.is_some(), mapped_bytes, 0)
            }
            _ => failed(error),
        })?;
        Ok(mapping)
    }

    /// Locks the pages if that is asked for. A refusal is an error only if the lock is required.
    pub(super) fn lock_pages(
        &self,
        of_a_pool: bool,
        mapping: &Mapping,
        faulted_in: bool,
        fallbacks: &mut Vec<String>,
    ) -> Result<Lock, SlabError> {
        if !self.lock.is_wanted() {
            return Ok(Lock::NotAsked);
        }
        // Pages of a pool are never swapped (Documentation/admin-guide/mm/hugetlbpage.rst). `mlock` would change
        // nothing about them, and would still refuse when the limit is lower than their size.
        if of_a_pool || mapping.lock(faulted_in).is_ok() {
            return Ok(Lock::Locked);
        }
        let limit = MemlockLimit::current();
        let need = limit.locked_bytes.saturating_add(mapping.len_bytes() as u64);
        let (soft, hard) = if limit.exempt { (None, None) } else { (limit.soft, limit.hard) };
        let refusal = LockRefusal { need, soft, hard };
        if self.lock == Policy::Require {
            return Err(SlabError::LockRefused(refusal));
        }
        fallbacks.push(refusal.to_string());
        Ok(Lock::Refused(refusal))
    }

    /// Whether all of the memory that fits into whole huge pages is in such pages now.
    fn look_for_huge(
        &self,
        is_shared: bool,
        mapping: &Mapping,
        fallbacks: &mut Vec<String>,
    ) -> Result<bool, SlabError> {
        let huge_bytes = limits::transparent_page_bytes();
        let start = mapping.base().addr().get();
        let wanted_bytes = mapping.len_bytes() / huge_bytes * huge_bytes;
        let obtained_bytes = smaps::transparent_bytes(start..start + mapping.len_bytes());
        if obtained_bytes >= wanted_bytes {
            return Ok(true);
        }
        let error = no_transparent_pages(is_shared, wanted_bytes, obtained_bytes);
        if self.transparent == Policy::Require {
            return Err(error);
        }
        fallbacks.push(error.to_string());
        Ok(false)
    }

    fn map_error(&self, kind: Kind, bytes: usize, error: MapError) -> SlabError {
        match (kind, error.source) {
            // EINVAL, ENODEV: no such size. EFAULT: the fault found no page after all (the control group's limit, a race).
            (
                Kind::Pool { page_bytes },
                Errno::NOMEM | Errno::NOSPC | Errno::INVAL | Errno::NODEV | Errno::FAULT,
            ) => self.no_huge_pages(page_bytes, bytes),
            (_, Errno::NOMEM) => SlabError::OutOfMemory {
                wanted_bytes: bytes,
                available_bytes: limits::available_memory_bytes(),
            },
            _ => SlabError::Os { call: error.call, bytes, source: error.into_io() },
        }
    }

    fn no_huge_pages(&self, page_bytes: usize, bytes: usize) -> SlabError {
        SlabError::NoHugePages {
            page_bytes,
            wanted_pages: bytes / page_bytes,
            pool: HugePagePool::of(page_bytes, self.numa_node),
            numa_node: self.numa_node,
        }
    }
}

fn no_transparent_pages(is_shared: bool, wanted_bytes: usize, obtained_bytes: usize) -> SlabError {
    let mode = if is_shared { TransparentMode::of_shared() } else { TransparentMode::current() };
    let reason = match mode {
        TransparentMode::Always => "the mode is always, so memory is fragmented or the process opted out",
        TransparentMode::Madvise => "the mode is madvise, so memory is fragmented or the process opted out",
        TransparentMode::Never => "the mode is never",
        TransparentMode::Absent => "the kernel has none",
    };
    let remedy = if is_shared {
        "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"
    } else {
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    };
    SlabError::NoTransparentPages { wanted_bytes, obtained_bytes, reason, remedy }
}

fn bind_error(node: u32, bytes: usize, source: io::Error) -> SlabError {
    // EINVAL for a range and mode that are right: no node of the mask is one that this process may use.
    if source.raw_os_error() == Some(Errno::INVAL.raw_os_error()) {
        let known = Topology::of_system().map(|topology| topology.nodes_with_memory()).unwrap_or_default();
        return SlabError::UnknownNode { node, known };
    }
    SlabError::BindDenied { node, bytes, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_pages_are_the_only_ones_tried() {
        let kinds = |recipe: Recipe| recipe.kinds().unwrap();
        let two = Kind::Pool { page_bytes: 2 << 20 };
        let one = Kind::Pool { page_bytes: 1 << 30 };
        let new = Recipe::default;
        assert_eq!(kinds(new()), [Kind::Base]);
        assert_eq!(kinds(Recipe { pages_2m: Policy::Require, pages_1g: Policy::Prefer, ..new() }), [two]);
        let wanted = Policy::Prefer;
        let all = Recipe { transparent: wanted, pages_2m: wanted, pages_1g: wanted, ..new() };
        assert_eq!(kinds(all), [one, two, Kind::Transparent, Kind::Base]);
    }

    #[test]
    fn node_is_checked_against_the_list_or_left_to_the_kernel() {
        let on = |node| Recipe { numa_node: Some(node), ..Recipe::default() };
        on(5).check_node(None).unwrap();
        on(u32::MAX).check_node(None).unwrap_err();
        let node = |id, memory_bytes| crate::memory::Node { id, cpus: vec![], memory_bytes };
        let topology = Topology { nodes: vec![node(0, 1), node(5, 0), node(6, 1)] };
        let error = on(5).check_node(Some(&topology)).unwrap_err();
        assert!(matches!(error, SlabError::UnknownNode { node: 5, known } if known == [0, 6]));
        on(6).check_node(Some(&topology)).unwrap();
    }
}
