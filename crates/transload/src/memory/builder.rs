//! How a slab is made: what to try, in which order, and what a failure means.

use std::io;

use rustix::io::Errno;

use super::{
    error::SlabError,
    limits::{self, HugePagePool, MemlockLimit, TransparentMode},
    mapping::{MapError, Mapping, Pages},
    numa::{self, Topology},
    placement::{Lock, LockRefusal, Placement, Source},
    policy::Policy,
    prefault,
    slab::{Slab, checked_len},
    smaps,
};

/// Base and length of every slab are multiples of this: the largest page that a base page can be (64 KiB on some
/// ARM systems), and more than any device asks of memory that it takes over.
const GRAIN_BYTES: usize = 64 << 10;

/// What a slab is to be made of. [`build`](SlabBuilder::build) makes it.
///
/// Defaults: no huge pages of any kind, page-lock preferred, no NUMA node, pre-faulted.
#[derive(Debug, Clone)]
#[must_use = "nothing is mapped before `build`"]
pub struct SlabBuilder {
    buffer_count: usize,
    buffer_size: usize,
    transparent: Policy,
    pages_2m: Policy,
    pages_1g: Policy,
    lock: Policy,
    numa_node: Option<u32>,
    prefault: bool,
}

/// One kind of pages to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pool { page_bytes: usize },
    Transparent,
    Base,
}

impl SlabBuilder {
    pub(super) fn new(buffer_count: usize, buffer_size: usize) -> SlabBuilder {
        SlabBuilder {
            buffer_count,
            buffer_size,
            transparent: Policy::Never,
            pages_2m: Policy::Never,
            pages_1g: Policy::Never,
            lock: Policy::Prefer,
            numa_node: None,
            prefault: true,
        }
    }

    /// Transparent huge pages: ordinary memory that the kernel puts into huge pages where it can. Required ones are
    /// faulted in even without pre-fault, since only then is it known whether they are there.
    pub fn transparent_pages(mut self, policy: Policy) -> SlabBuilder {
        self.transparent = policy;
        self
    }

    /// Huge pages of 2 MiB out of the pool that root has reserved. Always faulted in.
    pub fn pages_2m(mut self, policy: Policy) -> SlabBuilder {
        self.pages_2m = policy;
        self
    }

    /// Huge pages of 1 GiB out of the pool that root has reserved. Always faulted in. A slab takes whole pages,
    /// however small it is.
    pub fn pages_1g(mut self, policy: Policy) -> SlabBuilder {
        self.pages_1g = policy;
        self
    }

    /// Page-locking (`mlock`), so that the memory is never swapped out. Without pre-fault, pages are locked as they
    /// are touched.
    pub fn lock(mut self, policy: Policy) -> SlabBuilder {
        self.lock = policy;
        self
    }

    /// The NUMA node that all pages must lie on.
    ///
    /// Without it, pages lie where the system's policy puts them: on the node of the thread that builds the slab. To
    /// that end a slab without a node is faulted in by one thread only on systems with several nodes.
    pub fn numa_node(mut self, node: u32) -> SlabBuilder {
        self.numa_node = Some(node);
        self
    }

    /// Whether all pages are faulted in before `build` returns, by several threads if there are at least 64 MiB.
    pub fn prefault(mut self, prefault: bool) -> SlabBuilder {
        self.prefault = prefault;
        self
    }

    /// Makes the slab.
    ///
    /// Preferred pages are tried in the order 1 GiB, 2 MiB, transparent, ordinary; if one kind is required, only
    /// that one is tried. What was preferred and not obtained shows in [`Slab::placement`] and as one warning in
    /// the log. A failure leaves nothing behind.
    ///
    /// # Errors
    ///
    /// - [`SlabError::ZeroSize`], [`SlabError::TooLarge`]: the sizes make no slab.
    /// - [`SlabError::ConflictingPages`]: two kinds of pages are required.
    /// - [`SlabError::NoHugePages`], [`SlabError::NoTransparentPages`], [`SlabError::TooSmallForTransparent`]: the
    ///   required pages are not to be had.
    /// - [`SlabError::UnknownNode`], [`SlabError::BindDenied`]: the node.
    /// - [`SlabError::LockRefused`]: the required page-lock.
    /// - [`SlabError::OutOfMemory`]: less memory is available than would be faulted in. (The kernel would grant the
    ///   mapping, and end some process when it is touched.)
    /// - [`SlabError::Os`]: any other refusal.
    ///
    /// # Examples
    ///
    /// ```
    /// use transload::memory::{Policy, Slab, SlabError};
    ///
    /// match Slab::builder(512, 4096).pages_2m(Policy::Require).build() {
    ///     Ok(slab) => assert_eq!(slab.placement().page_bytes, 2 << 20),
    ///     Err(error @ SlabError::NoHugePages { .. }) => println!("{error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok::<(), SlabError>(())
    /// ```
    pub fn build(self) -> Result<Slab, SlabError> {
        checked_len(self.buffer_count, self.buffer_size, GRAIN_BYTES.max(rustix::param::page_size()))?;
        let kinds = self.kinds()?;
        let topology = Topology::of_system().ok();
        self.check_node(topology.as_ref())?;
        let several_nodes = topology.is_some_and(|topology| topology.nodes.len() > 1);
        let spread = several_nodes && self.numa_node.is_none();

        let mut fallbacks = Vec::new();
        let mut kinds = kinds.into_iter().peekable();
        let mut made = self.attempt(kinds.next().unwrap_or(Kind::Base), spread, &mut fallbacks);
        while let Err(error) = &made {
            let Some(next) = kinds.next_if(|_| error.is_about_pages()) else { break };
            fallbacks.push(error.to_string());
            made = self.attempt(next, spread, &mut fallbacks);
        }
        if let (Ok(slab), false) = (&made, fallbacks.is_empty()) {
            let fallbacks = fallbacks.join("; ");
            tracing::warn!(slab_bytes = slab.len_bytes(), %fallbacks, "slab made with less than preferred");
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

    /// Makes the slab of one kind of pages. Whatever fails, the mapping goes with it.
    fn attempt(&self, kind: Kind, spread: bool, fallbacks: &mut Vec<String>) -> Result<Slab, SlabError> {
        let base_page = rustix::param::page_size();
        let grain = GRAIN_BYTES.max(base_page);
        let (unit_bytes, page_bytes) = match kind {
            Kind::Pool { page_bytes } => (page_bytes, page_bytes),
            Kind::Transparent | Kind::Base => (grain, base_page),
        };
        let len_bytes = checked_len(self.buffer_count, self.buffer_size, unit_bytes)?;
        let mapped_bytes = len_bytes.next_multiple_of(unit_bytes);
        let faulted_in = match kind {
            Kind::Pool { .. } => true,
            Kind::Transparent => self.prefault || self.transparent == Policy::Require,
            Kind::Base => self.prefault,
        };

        let mapping = self.map(kind, mapped_bytes, grain, faulted_in)?;
        if let Some(node) = self.numa_node {
            // SAFETY: the range is the mapping's, which starts on a page and which no one else knows yet (I1).
            unsafe { numa::bind(mapping.base(), mapped_bytes, node) }
                .map_err(|source| bind_error(node, mapped_bytes, source))?;
        }
        mapping.dont_fork().map_err(|error| self.map_error(kind, mapped_bytes, error))?;
        if faulted_in {
            let threads = prefault::thread_count(mapped_bytes, spread);
            mapping
                .populate(page_bytes, threads)
                .map_err(|error| self.map_error(kind, mapped_bytes, error))?;
        }
        let lock = self.lock_pages(kind, &mapping, faulted_in, fallbacks)?;
        let transparent =
            kind == Kind::Transparent && faulted_in && self.look_for_huge(&mapping, fallbacks)?;
        let numa_node =
            if faulted_in { numa::node_of(mapping.base(), mapped_bytes, page_bytes) } else { None };

        let placement = Placement { page_bytes, transparent, numa_node, lock, source: Source::Allocated };
        Ok(Slab::of_mapping(mapping, self.buffer_count, self.buffer_size, placement))
    }

    fn map(
        &self,
        kind: Kind,
        mapped_bytes: usize,
        grain: usize,
        faulted_in: bool,
    ) -> Result<Mapping, SlabError> {
        let failed = |error| self.map_error(kind, mapped_bytes, error);
        if let Kind::Pool { page_bytes } = kind {
            // The kernel sets pages aside without regard to the node and would find its part of the pool empty only
            // when they are touched.
            let wanted = (mapped_bytes / page_bytes) as u64;
            let part = self.numa_node.and_then(|node| HugePagePool::of(page_bytes, Some(node)));
            if part.is_some_and(|part| part.usable_pages() < wanted) {
                return Err(self.no_huge_pages(page_bytes, mapped_bytes));
            }
            return Mapping::new(mapped_bytes, Pages::Pool { page_bytes }).map_err(failed);
        }
        let available_bytes = limits::available_memory_bytes();
        if faulted_in && available_bytes.is_some_and(|available| available < mapped_bytes as u64) {
            return Err(SlabError::OutOfMemory { wanted_bytes: mapped_bytes, available_bytes });
        }
        if kind == Kind::Base {
            let mapping = Mapping::new(mapped_bytes, Pages::Base { align_bytes: grain }).map_err(failed)?;
            mapping.transparent(false).map_err(failed)?;
            return Ok(mapping);
        }
        let huge_bytes = limits::transparent_page_bytes();
        if mapped_bytes < huge_bytes {
            return Err(SlabError::TooSmallForTransparent { len_bytes: mapped_bytes, huge_bytes });
        }
        let mapping =
            Mapping::new(mapped_bytes, Pages::Base { align_bytes: huge_bytes.max(grain) }).map_err(failed)?;
        mapping.transparent(true).map_err(|error| match error.source {
            Errno::INVAL | Errno::NOTSUP | Errno::NOSYS => no_transparent_pages(mapped_bytes, 0),
            _ => failed(error),
        })?;
        Ok(mapping)
    }

    /// Locks the pages if that is asked for. A refusal is an error only if the lock is required.
    fn lock_pages(
        &self,
        kind: Kind,
        mapping: &Mapping,
        faulted_in: bool,
        fallbacks: &mut Vec<String>,
    ) -> Result<Lock, SlabError> {
        if !self.lock.is_wanted() {
            return Ok(Lock::NotAsked);
        }
        // Pages of a pool are never swapped (Documentation/admin-guide/mm/hugetlbpage.rst). `mlock` would change
        // nothing about them, and would still refuse when the limit is lower than their size.
        if matches!(kind, Kind::Pool { .. }) || mapping.lock(faulted_in).is_ok() {
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

    /// Whether all of the slab that fits into whole huge pages is in such pages now.
    fn look_for_huge(&self, mapping: &Mapping, fallbacks: &mut Vec<String>) -> Result<bool, SlabError> {
        let huge_bytes = limits::transparent_page_bytes();
        let start = mapping.base().addr().get();
        let wanted_bytes = mapping.len_bytes() / huge_bytes * huge_bytes;
        let obtained_bytes = smaps::transparent_bytes(start..start + mapping.len_bytes());
        if obtained_bytes >= wanted_bytes {
            return Ok(true);
        }
        let error = no_transparent_pages(wanted_bytes, obtained_bytes);
        if self.transparent == Policy::Require {
            return Err(error);
        }
        fallbacks.push(error.to_string());
        Ok(false)
    }

    fn map_error(&self, kind: Kind, bytes: usize, error: MapError) -> SlabError {
        match (kind, error.source) {
            // EINVAL: no such size. EFAULT: the fault found no page after all (the control group's limit, a race).
            (Kind::Pool { page_bytes }, Errno::NOMEM | Errno::INVAL | Errno::FAULT) => {
                self.no_huge_pages(page_bytes, bytes)
            }
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

fn no_transparent_pages(wanted_bytes: usize, obtained_bytes: usize) -> SlabError {
    let reason = match TransparentMode::current() {
        TransparentMode::Always => "the mode is always, so memory is fragmented or the process opted out",
        TransparentMode::Madvise => "the mode is madvise, so memory is fragmented or the process opted out",
        TransparentMode::Never => "the mode is never",
        TransparentMode::Absent => "the kernel has none",
    };
    SlabError::NoTransparentPages { wanted_bytes, obtained_bytes, reason }
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
    use std::{fs, process::Command};

    use super::*;
    use crate::memory::fault::{self, Step};

    #[test]
    fn required_pages_are_the_only_ones_tried() {
        let kinds = |b: SlabBuilder| b.kinds().unwrap();
        let two = Kind::Pool { page_bytes: 2 << 20 };
        let one = Kind::Pool { page_bytes: 1 << 30 };
        let new = || Slab::builder(1, 1);
        assert_eq!(kinds(new()), [Kind::Base]);
        assert_eq!(kinds(new().pages_2m(Policy::Require).pages_1g(Policy::Prefer)), [two]);
        let all = new().transparent_pages(Policy::Prefer).pages_2m(Policy::Prefer).pages_1g(Policy::Prefer);
        assert_eq!(kinds(all), [one, two, Kind::Transparent, Kind::Base]);
    }

    #[test]
    fn node_is_checked_against_the_list_or_left_to_the_kernel() {
        let builder = Slab::builder(1, 1).numa_node(5);
        builder.check_node(None).unwrap();
        Slab::builder(1, 1).numa_node(u32::MAX).check_node(None).unwrap_err();
        let node = |id, memory_bytes| crate::memory::Node { id, cpus: vec![], memory_bytes };
        let topology = Topology { nodes: vec![node(0, 1), node(5, 0), node(6, 1)] };
        let error = builder.check_node(Some(&topology)).unwrap_err();
        assert!(matches!(error, SlabError::UnknownNode { node: 5, known } if known == [0, 6]));
        Slab::builder(1, 1).numa_node(6).check_node(Some(&topology)).unwrap();
    }

    #[test]
    fn each_refused_step_is_the_right_error() {
        let build = || Slab::builder(3, 70_000).numa_node(0).lock(Policy::Require).build();
        for step in Step::ALL {
            let result = fault::with(step, Errno::PERM, build);
            match step {
                // Not knowing where the pages lie is no failure.
                Step::Look => assert_eq!(result.unwrap().placement().numa_node, None),
                Step::Lock => assert!(matches!(result, Err(SlabError::LockRefused(_)))),
                Step::Bind => assert!(matches!(result, Err(SlabError::BindDenied { node: 0, .. }))),
                _ => assert!(
                    matches!(result, Err(SlabError::Os { bytes: 262_144, .. })),
                    "{step:?}: {result:?}"
                ),
            }
        }
        let result = fault::with(Step::Map, Errno::NOMEM, build);
        assert!(matches!(result, Err(SlabError::OutOfMemory { wanted_bytes: 262_144, .. })));
        let result = fault::with(Step::Bind, Errno::INVAL, build);
        assert!(matches!(result, Err(SlabError::UnknownNode { node: 0, .. })));
    }

    #[test]
    fn preferred_huge_pages_fall_back() {
        let prefer = || Slab::builder(1, 3 << 20).transparent_pages(Policy::Prefer).build().unwrap();
        let slab = fault::with(Step::Pages, Errno::INVAL, prefer);
        assert!(!slab.placement().transparent);
        assert_eq!(slab.len_bytes(), 3 << 20);
        let error = fault::with(Step::Pages, Errno::INVAL, || {
            Slab::builder(1, 3 << 20).transparent_pages(Policy::Require).build().unwrap_err()
        });
        assert!(matches!(error, SlabError::NoTransparentPages { obtained_bytes: 0, .. }), "{error}");
    }

    /// Mappings, and kB of address space and of locked memory, of this process.
    fn footprint() -> (usize, [String; 2]) {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let field = |name| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        (fs::read_to_string("/proc/self/maps").unwrap().lines().count(), [field("VmSize:"), field("VmLck:")])
    }

    /// Runs in a process of its own: other tests would map memory in between.
    #[test]
    fn ten_thousand_builds_leave_nothing_behind() {
        const CHILD: &str = "TRANSLOAD_TEST_FOOTPRINT";
        if std::env::var_os(CHILD).is_none() {
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "memory::builder::tests::ten_thousand_builds_leave_nothing_behind"])
                .args(["--nocapture", "--test-threads=1"])
                .env(CHILD, "1")
                .status();
            assert!(status.unwrap().success());
            return;
        }
        let round = |n: usize| {
            let builder = Slab::builder(1 + n % 3, 40_000).numa_node(0).lock(Policy::Require);
            let step = Step::ALL[n % Step::ALL.len()];
            if step == Step::Look {
                drop(builder.build());
            } else {
                drop(fault::with(step, Errno::PERM, || builder.build().unwrap_err()));
            }
            drop(Slab::builder(1, 1).pages_1g(Policy::Require).numa_node(0).build());
            drop(Slab::builder(2, 1 << 20).transparent_pages(Policy::Prefer).build());
        };
        for n in 0..200 {
            round(n);
        }
        let before = footprint();
        for n in 0..10_000 {
            round(n);
        }
        assert_eq!(footprint(), before);
    }
}
