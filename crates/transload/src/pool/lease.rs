//! The right to one buffer. Placeholder internals.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::pool::Body;
use super::{FrozenLease, RawLease};
use crate::region::{Region, Span};

/// The right to one buffer of a pool: dereferences to its bytes.
pub struct Lease {
    body: Arc<Body>,
    index: u32,
    len: usize,
}

impl Lease {
    pub(super) fn new(body: Arc<Body>, index: u32) -> Self {
        let len = body.region.slab().buffer_size();
        Self { body, index, len }
    }

    /// Which buffer it is.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The region that it is a part of.
    pub fn region(&self) -> &Region {
        &self.body.region
    }

    /// Where its bytes are in the region: as many as it dereferences to.
    pub fn span(&self) -> Span {
        self.body.region.part(self.offset(), self.len)
    }

    /// Bytes of the whole buffer.
    pub fn capacity(&self) -> usize {
        self.body.region.slab().buffer_size()
    }

    /// Makes it dereference to the first `len_bytes` of the buffer, or to all if that is more. A fresh lease has all
    /// of them, a received one those that were received.
    pub fn resize(&mut self, len_bytes: usize) {
        self.len = len_bytes.min(self.capacity());
    }

    /// Its address.
    pub fn as_ptr(&self) -> *mut u8 {
        self.body.region.slab().as_ptr().wrapping_add(self.offset())
    }

    /// Gives the buffer back, as dropping does.
    pub fn release(self) {}

    /// Makes it read-only, to be shared.
    pub fn freeze(self) -> FrozenLease {
        FrozenLease::new(self)
    }

    /// Turns it into numbers. Until they are redeemed, the buffer stays leased.
    pub fn into_raw(self) -> RawLease {
        let raw = RawLease { pool: 0, generation: 0, index: self.index };
        let _kept = std::mem::ManuallyDrop::new(self);
        raw
    }

    fn offset(&self) -> usize {
        self.index as usize * self.capacity()
    }
}

impl Deref for Lease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the buffer is ours alone (I1, I3), initialised, and there while the lease is (I2).
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) }
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Lease {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.body.give_back(self.index);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("index", &self.index).field("len", &self.len).finish_non_exhaustive()
    }
}
