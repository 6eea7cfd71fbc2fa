//! What is asked of a region.

use super::{
    error::SharedError,
    geometry::{ALIGNMENTS, Geometry, Place},
    named,
    provided::{self, SharedStorage},
    region::SharedRegion,
    storage,
};
use crate::memory::{Policy, Recipe};

/// What a region is to be like. [`create`](SharedRegionBuilder::create) makes it.
///
/// Defaults: a ring of as many slots as there are buffers, rounded up to a power of two; 64 members; no huge pages of any
/// kind, page-lock preferred, no NUMA node.
#[derive(Debug, Clone)]
#[must_use = "nothing is made before `create`"]
pub struct SharedRegionBuilder {
    buffer_count: usize,
    buffer_size: usize,
    ring_slots: Option<usize>,
    members: Option<usize>,
    user_word: u64,
    recipe: Recipe,
}

impl SharedRegionBuilder {
    pub(super) fn new(buffer_count: usize, buffer_size: usize) -> SharedRegionBuilder {
        SharedRegionBuilder {
            buffer_count,
            buffer_size,
            ring_slots: None,
            members: None,
            user_word: 0,
            recipe: Recipe::default(),
        }
    }

    /// How many messages the ring holds: a power of two, at most 2^24.
    pub fn ring_slots(mut self, ring_slots: usize) -> SharedRegionBuilder {
        self.ring_slots = Some(ring_slots);
        self
    }

    /// How many processes may take part at a time, at most 1023.
    pub fn members(mut self, members: usize) -> SharedRegionBuilder {
        self.members = Some(members);
        self
    }

    /// A word of the application's own, for all who open the region to read, as how messages lie in buffers; else 0.
    pub fn user_word(mut self, user_word: u64) -> SharedRegionBuilder {
        self.user_word = user_word;
        self
    }

    /// Transparent huge pages, as [`SlabBuilder::transparent_pages`](crate::memory::SlabBuilder::transparent_pages).
    pub fn transparent_pages(mut self, policy: Policy) -> SharedRegionBuilder {
        self.recipe.transparent = policy;
        self
    }

    /// Huge pages of 2 MiB, as [`SlabBuilder::pages_2m`](crate::memory::SlabBuilder::pages_2m).
    pub fn pages_2m(mut self, policy: Policy) -> SharedRegionBuilder {
        self.recipe.pages_2m = policy;
        self
    }

    /// Huge pages of 1 GiB, as [`SlabBuilder::pages_1g`](crate::memory::SlabBuilder::pages_1g).
    pub fn pages_1g(mut self, policy: Policy) -> SharedRegionBuilder {
        self.recipe.pages_1g = policy;
        self
    }

    /// Page-locking, as [`SlabBuilder::lock`](crate::memory::SlabBuilder::lock).
    pub fn lock(mut self, policy: Policy) -> SharedRegionBuilder {
        self.recipe.lock = policy;
        self
    }

    /// The NUMA node that all pages must lie on, for every process.
    pub fn numa_node(mut self, node: u32) -> SharedRegionBuilder {
        self.recipe.numa_node = Some(node);
        self
    }

    /// Bytes that the region needs beside the buffers.
    ///
    /// # Errors
    ///
    /// [`SharedError::OutOfRange`], [`SharedError::NoPowerOfTwo`], [`SharedError::TooLarge`].
    pub fn metadata_bytes(&self) -> Result<usize, SharedError> {
        Ok(self.geometry()?.metadata_bytes())
    }

    /// Bytes in all buffers.
    ///
    /// # Errors
    ///
    /// As [`metadata_bytes`](SharedRegionBuilder::metadata_bytes).
    pub fn buffers_bytes(&self) -> Result<usize, SharedError> {
        Ok(self.geometry()?.buffers_bytes())
    }

    /// Bytes of the whole region in one piece of memory of the caller's: the metadata, and the buffers from the next
    /// multiple of 64 KiB on.
    ///
    /// # Errors
    ///
    /// As [`metadata_bytes`](SharedRegionBuilder::metadata_bytes).
    pub fn total_bytes(&self) -> Result<usize, SharedError> {
        let place = Place::Behind { alignment: *ALIGNMENTS.start() };
        Ok(self.geometry()?.layout(place).total_bytes)
    }

    /// Makes the region in a file without a name, which nobody can make longer or shorter. All of its memory is there when
    /// this returns, and zero.
    ///
    /// Preferred pages are tried in the order 1 GiB, 2 MiB, transparent, ordinary, as
    /// [`SlabBuilder::build`](crate::memory::SlabBuilder::build) does. A failure leaves nothing behind.
    ///
    /// # Errors
    ///
    /// - [`SharedError::OutOfRange`], [`SharedError::NoPowerOfTwo`], [`SharedError::TooLarge`]: numbers that make no
    ///   region.
    /// - [`SharedError::Memory`]: the memory, as for a slab.
    /// - [`SharedError::Os`]: any other refusal.
    ///
    /// # Examples
    ///
    /// ```
    /// use transload::memory::Policy;
    /// use transload::shared::{SharedError, SharedRegion};
    ///
    /// let region = SharedRegion::builder(1024, 4096).pages_2m(Policy::Prefer).members(8).create()?;
    /// assert_eq!(region.ring_slots(), 1024);
    /// assert!(region.is_sealed());
    ///
    /// let error = SharedRegion::builder(1 << 25, 64).create().unwrap_err();
    /// assert_eq!(error.to_string(), "33554432 buffers: a region has 1 to 16777216");
    /// # Ok::<(), SharedError>(())
    /// ```
    pub fn create(self) -> Result<SharedRegion, SharedError> {
        storage::create(self.geometry()?, &self.recipe)
    }

    /// Makes the region with a name in `/dev/shm`, which [`SharedRegion::open_named`] opens: a second way, where no
    /// descriptor can be handed over.
    ///
    /// **It cannot be sealed**: whoever may write it may cut it off, and then the next touch ends every process that uses
    /// it (SIGBUS). It has ordinary pages, and it stays when everybody is dead; who makes the next region of that name
    /// replaces it. `mode` is its permissions, 0600, or up to 0660 for its group, whatever the umask.
    ///
    /// # Errors
    ///
    /// - [`SharedError::Name`], [`SharedError::Permissions`], [`SharedError::OrdinaryPagesOnly`], and the errors of the
    ///   numbers.
    /// - [`SharedError::NameInUse`]: somebody who lives has a region of that name.
    /// - [`SharedError::Foreign`]: something else is there, which is left alone.
    /// - [`SharedError::NoRoom`]: `/dev/shm` is full.
    ///
    /// # Examples
    ///
    /// ```
    /// use transload::shared::{SharedRegion, unlink_named};
    ///
    /// # let name = format!("doc-{}", std::process::id());
    /// let made = SharedRegion::builder(16, 4096).create_named(&name, 0o600)?;
    /// let opened = SharedRegion::open_named(&name)?;
    /// assert_eq!(made.id(), opened.id());
    /// unlink_named(&name)?;
    /// # Ok::<(), transload::shared::SharedError>(())
    /// ```
    pub fn create_named(self, name: &str, mode: u32) -> Result<SharedRegion, SharedError> {
        named::create(name, mode, self.geometry()?, &self.recipe)
    }

    /// Makes the region in memory of the caller's. What is in it is lost, unless it is a region that somebody who lives
    /// has open.
    ///
    /// Pages, locks and nodes are the caller's business: what was asked of this builder about them is not looked at. The
    /// bytes of the buffers stay as they are.
    ///
    /// # Errors
    ///
    /// - [`SharedError::OutOfRange`], [`SharedError::NoPowerOfTwo`], [`SharedError::TooLarge`]: the numbers.
    /// - [`SharedError::Misaligned`], [`SharedError::TooSmall`]: the memory.
    /// - [`SharedError::InUse`]: a region is there already, and alive.
    ///
    /// # Safety
    ///
    /// Until the last handle on the region, and whatever was registered with it, has ended:
    ///
    /// - the memory is valid for reads and writes, initialised, and not unmapped, remapped or cut off;
    /// - nobody in this process refers to it otherwise, and everybody else reaches it as a region, with the same lock file.
    pub unsafe fn create_in(self, storage: SharedStorage) -> Result<SharedRegion, SharedError> {
        // SAFETY: this function's contract.
        unsafe { provided::create(self.geometry()?, storage) }
    }

    fn geometry(&self) -> Result<Geometry, SharedError> {
        let geometry = Geometry::new(self.buffer_count, self.buffer_size, self.ring_slots, self.members)?;
        Ok(Geometry { user_word: self.user_word, ..geometry })
    }
}
