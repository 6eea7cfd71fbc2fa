//! What is asked of a region.

use super::{error::SharedError, geometry::Geometry, region::SharedRegion, storage};
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

    /// Makes the region in a file without a name, which nobody can make longer or shorter.
    ///
    /// # Errors
    ///
    /// [`SharedError`]
    pub fn create(self) -> Result<SharedRegion, SharedError> {
        storage::create(self.geometry()?, &self.recipe)
    }

    fn geometry(&self) -> Result<Geometry, SharedError> {
        let geometry = Geometry::new(self.buffer_count, self.buffer_size, self.ring_slots, self.members)?;
        Ok(Geometry { user_word: self.user_word, ..geometry })
    }
}
