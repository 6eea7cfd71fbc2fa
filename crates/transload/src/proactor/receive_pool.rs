//! Buffers that only receives hand out.

use std::fmt;
use std::sync::Arc;

use super::backend::Group;
use super::shared::{Command, Shared};
use crate::pool::{BufferPool, PoolStatistics};
use crate::region::Region;

/// A pool whose buffers the kernel fills: it has no `acquire`, since a buffer that the kernel may choose at any moment
/// must be nobody else's. Each [`receive`](super::Handle::receive) delivers [`Lease`](crate::pool::Lease)s of it, and a
/// lease that is dropped, on whatever thread, comes back to it.
///
/// A clone is another handle. The pool belongs to the proactor that made it.
#[derive(Clone)]
pub struct ReceivePool {
    inner: Arc<Inner>,
}

struct Inner {
    pool: BufferPool,
    group: Group,
    shared: Arc<Shared>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.command(Command::RemovePool { group: self.group, pool: self.pool.clone() });
    }
}

impl ReceivePool {
    pub(super) fn new(pool: BufferPool, group: Group, shared: Arc<Shared>) -> Self {
        Self { inner: Arc::new(Inner { pool, group, shared }) }
    }

    /// How many buffers there are.
    pub fn capacity(&self) -> u32 {
        self.inner.pool.capacity()
    }

    /// Bytes of a buffer: the most that one delivery has.
    pub fn buffer_size(&self) -> usize {
        self.inner.pool.buffer_size()
    }

    /// The region.
    pub fn region(&self) -> &Region {
        self.inner.pool.region()
    }

    /// What the pool beneath has done: buffers that the kernel has to choose from count as leased.
    pub fn statistics(&self) -> PoolStatistics {
        self.inner.pool.statistics()
    }

    pub(super) fn pool(&self) -> &BufferPool {
        &self.inner.pool
    }

    pub(super) fn group(&self) -> Group {
        self.inner.group
    }

    /// Whether it is of this proactor.
    pub(super) fn is_of(&self, proactor: u64) -> bool {
        self.inner.shared.id == proactor
    }
}

impl fmt::Debug for ReceivePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceivePool")
            .field("group", &self.inner.group)
            .field("pool", &self.inner.pool)
            .finish_non_exhaustive()
    }
}
