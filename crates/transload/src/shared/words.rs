//! The words of a region: the one place where shared memory becomes references, to atomics (I7).

use std::{ptr::NonNull, sync::Arc};

use transload_core::{FutexWord, SharedWord};

use crate::memory::Mapping;

/// Memory that processes share, and what keeps it there.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    base: NonNull<u8>,
    len_bytes: usize,
    /// `None` for memory that the caller has promised to keep.
    mapping: Option<Arc<Mapping>>,
}

/// A run of 64-bit words in shared memory.
#[derive(Clone, Debug)]
pub(super) struct Words {
    start: NonNull<SharedWord>,
    count: usize,
    _memory: Memory,
}

/// A run of words that threads of several processes sleep on.
#[derive(Clone, Debug)]
pub(super) struct FutexWords {
    start: NonNull<FutexWord>,
    count: usize,
    _memory: Memory,
}

// SAFETY: an address and a length; the memory belongs to no thread, and is reached through atomics or copies only (I7).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}
// SAFETY: as above, and the words are atomics.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}
// SAFETY: as above.
unsafe impl Send for FutexWords {}
// SAFETY: as above.
unsafe impl Sync for FutexWords {}

impl Memory {
    pub(super) fn mapped(mapping: Mapping) -> Memory {
        let (base, len_bytes) = (mapping.base(), mapping.len_bytes());
        Memory { base, len_bytes, mapping: Some(Arc::new(mapping)) }
    }

    /// Memory of the caller's.
    ///
    /// # Safety
    ///
    /// It is valid for reads and writes until the last copy of this value, and of what was made of it, has ended; and the
    /// parts of it that are made words are reached by atomics of the same size only, by everybody.
    pub(super) unsafe fn lent(base: NonNull<u8>, len_bytes: usize) -> Memory {
        Memory { base, len_bytes, mapping: None }
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn mapping(&self) -> Option<&Arc<Mapping>> {
        self.mapping.as_ref()
    }

    pub(super) fn words(&self, offset: usize, count: usize) -> Words {
        let start = self.part(offset, count * size_of::<SharedWord>()).cast();
        Words { start, count, _memory: self.clone() }
    }

    pub(super) fn futex_words(&self, offset: usize, count: usize) -> FutexWords {
        let start = self.part(offset, count * size_of::<FutexWord>()).cast();
        FutexWords { start, count, _memory: self.clone() }
    }

    /// Where a part begins, which must lie within, and on a word.
    fn part(&self, offset: usize, len_bytes: usize) -> NonNull<u8> {
        let start = self.base.map_addr(|address| address.saturating_add(offset));
        let lies_within = offset.checked_add(len_bytes).is_some_and(|end| end <= self.len_bytes);
        assert!(lies_within && start.cast::<SharedWord>().is_aligned(), "a part of the layout");
        start
    }
}

impl AsRef<[SharedWord]> for Words {
    #[inline]
    fn as_ref(&self) -> &[SharedWord] {
        // SAFETY: `count` words from `start` on lie within memory that `_memory` keeps, aligned, and any bytes make a word;
        // processes reach them as these atomics only (I7).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl AsRef<[FutexWord]> for FutexWords {
    #[inline]
    fn as_ref(&self) -> &[FutexWord] {
        // SAFETY: as for `Words`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}
