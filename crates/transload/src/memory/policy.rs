//! How much a property of the memory is wanted.

/// How much a property of a slab is wanted: huge pages of one kind, or page-locking.
///
/// ```
/// use transload::memory::{Policy, Slab};
///
/// // Huge pages where there are some; ordinary pages, and a line in the log, where there are none.
/// let slab = Slab::builder(1024, 4096).pages_2m(Policy::Prefer).build()?;
/// assert!(slab.placement().page_bytes >= 4096);
/// # Ok::<(), transload::memory::SlabError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The slab has it, or there is no slab.
    Require,
    /// Tried; without it the slab is made all the same. The fallback shows in [`Placement`](super::Placement) and as
    /// one warning in the log.
    Prefer,
    /// Not asked for. Transparent huge pages are kept away even where the system gives them to everybody.
    Never,
}

impl Policy {
    /// Whether it is asked for at all.
    pub(super) fn is_wanted(self) -> bool {
        self != Policy::Never
    }
}
