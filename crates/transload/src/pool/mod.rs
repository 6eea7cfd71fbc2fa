//! Buffers of a region, lent one at a time.
//!
//! PLACEHOLDER internals.

mod error;
mod frozen;
mod handle;
mod lease;
mod pool;
mod raw;

pub use error::{AcquireError, PoolError, RawLeaseError};
pub use frozen::FrozenLease;
pub use handle::PoolHandle;
pub use lease::Lease;
pub use pool::{BufferPool, OldestLease, PoolBuilder, PoolStatistics};
pub use raw::RawLease;
