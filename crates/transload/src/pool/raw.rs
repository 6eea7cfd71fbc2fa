//! A lease as plain numbers.

/// A lease as plain numbers, to be carried through a C interface or a completion's user data.
///
/// It owns nothing by itself: until it is redeemed with
/// [`BufferPool::lease_from_raw`](super::BufferPool::lease_from_raw), once, the buffer stays out. A copy that is redeemed a
/// second time is an error and changes nothing. If the pool's last handle goes first, nobody can redeem it any more, and
/// its memory stays as for a forgotten lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawLease {
    /// The number of the pool, different for each pool of a process.
    pub pool: u64,
    /// Which lease of the buffer. A later lease has the same number only if a multiple of 2^38 leases of this buffer lie
    /// between, and then only by chance.
    pub generation: u64,
    /// The buffer.
    pub index: u32,
}
