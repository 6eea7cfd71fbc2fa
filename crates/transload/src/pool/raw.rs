//! A lease as plain numbers.

/// A lease as plain numbers, to be carried through a C interface or a completion's user data.
///
/// It owns nothing by itself: redeem it with [`BufferPool::lease_from_raw`](super::BufferPool::lease_from_raw), once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawLease {
    /// The number of the pool, different for each pool of a process.
    pub pool: u64,
    /// Which lease of the buffer: no other has this number.
    pub generation: u64,
    /// The buffer.
    pub index: u32,
}
