//! What is asked of a slab.

use super::{
    error::SlabError,
    policy::Policy,
    recipe::{Obtained, Recipe, Store},
    slab::{Slab, checked_len},
};

/// What a slab is to be made of. [`build`](SlabBuilder::build) makes it.
///
/// Defaults: no huge pages of any kind, page-lock preferred, no NUMA node, pre-faulted.
#[derive(Debug, Clone)]
#[must_use = "nothing is mapped before `build`"]
pub struct SlabBuilder {
    buffer_count: usize,
    buffer_size: usize,
    recipe: Recipe,
}

impl SlabBuilder {
    pub(super) fn new(buffer_count: usize, buffer_size: usize) -> SlabBuilder {
        SlabBuilder { buffer_count, buffer_size, recipe: Recipe::default() }
    }

    /// Transparent huge pages: ordinary memory that the kernel puts into huge pages where it can. Required ones are
    /// faulted in even without pre-fault, since only then is it known whether they are there.
    pub fn transparent_pages(mut self, policy: Policy) -> SlabBuilder {
        self.recipe.transparent = policy;
        self
    }

    /// Huge pages of 2 MiB out of the pool that root has reserved. Always faulted in.
    pub fn pages_2m(mut self, policy: Policy) -> SlabBuilder {
        self.recipe.pages_2m = policy;
        self
    }

    /// Huge pages of 1 GiB out of the pool that root has reserved. Always faulted in. A slab takes whole pages,
    /// however small it is.
    pub fn pages_1g(mut self, policy: Policy) -> SlabBuilder {
        self.recipe.pages_1g = policy;
        self
    }

    /// Page-locking (`mlock`), so that the memory is never swapped out. Without pre-fault, pages are locked as they
    /// are touched.
    pub fn lock(mut self, policy: Policy) -> SlabBuilder {
        self.recipe.lock = policy;
        self
    }

    /// The NUMA node that all pages must lie on.
    ///
    /// Without it, pages lie where the system's policy puts them: on the node of the thread that builds the slab. To
    /// that end a slab without a node is faulted in by one thread only on systems with several nodes.
    pub fn numa_node(mut self, node: u32) -> SlabBuilder {
        self.recipe.numa_node = Some(node);
        self
    }

    /// Whether all pages are faulted in before `build` returns, by several threads if there are at least 64 MiB.
    pub fn prefault(mut self, prefault: bool) -> SlabBuilder {
        self.recipe.prefault = prefault;
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
        let length = |unit_bytes| checked_len(self.buffer_count, self.buffer_size, unit_bytes);
        let Obtained { mapping, placement, .. } = self.recipe.obtain(Store::Anonymous, &length)?;
        Ok(Slab::of_mapping(mapping, self.buffer_count, self.buffer_size, placement))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;
    use crate::memory::fault::{self, Step};
    use rustix::io::Errno;

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
