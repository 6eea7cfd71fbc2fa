//! Buffers of a region, lent one at a time to any thread and given back by any other.
//!
//! ```text
//!  slab: memory  ->  region: the slab registered with something that does I/O  ->  pool: who may touch which buffer
//!
//!        try_acquire                 write, resize                  send, or drop
//!  free ------------> Lease: yours -----------------> an operation --------------> free
//! ```
//!
//! A [`Lease`] is the right to one buffer: it dereferences to its bytes, cannot be copied, and gives the buffer back when
//! it is dropped. Three ways to get one:
//!
//! * [`try_acquire`](BufferPool::try_acquire) never waits: a lease, or the proof that all are out.
//! * [`acquire_timeout`](BufferPool::acquire_timeout) sleeps, [`acquire`](BufferPool::acquire) is a future.
//! * [`handle`](BufferPool::handle) is one thread's own way, for hot loops.
//!
//! # The contract
//!
//! * A buffer has one owner at a time. What one owner wrote is visible to the next, unless the pool is
//!   [zeroed](PoolBuilder::zeroed).
//! * [`AcquireError::Exhausted`] is never said while a buffer was free during the whole call.
//! * `try_acquire` and giving back cost the same for 16 buffers as for a million, empty or full; they take no lock,
//!   allocate nothing after a thread's first use and make no system call unless somebody sleeps.
//! * A thread that ends, or stands still, takes nothing with it but the leases that it holds.
//! * A raw lease that is old, foreign or made up is an error that changes nothing.
//!
//! # Example
//!
//! ```
//! use std::io::Read;
//! use std::os::unix::net::UnixStream;
//! use transload::memory::{Policy, Slab};
//! use transload::pool::BufferPool;
//! use transload::proactor::{Proactor, Socket};
//! use transload::region::Access;
//!
//! let pages = Slab::builder(256, 4096).transparent_pages(Policy::Prefer);
//! // On the first node, or anywhere if that is not permitted here.
//! let slab = pages.clone().numa_node(0).build().or_else(|_| pages.build())?;
//! let proactor = Proactor::new()?;
//! let region = proactor.register_slab(&slab, Access::READ)?; // for sending: I/O reads it
//! drop(slab); // the region keeps it
//! let pool = BufferPool::new(&region)?;
//!
//! let mut lease = pool.try_acquire()?;
//! lease[..5].copy_from_slice(b"hello");
//! lease.resize(5);
//! let span = lease.span(); // what an operation is told: the region, where, how long
//! assert_eq!((span.offset(), span.len_bytes()), (lease.index() as usize * 4096, 5));
//! drop(span); // it keeps the region, and gives no right to the bytes
//!
//! let (near, mut far) = UnixStream::pair()?;
//! let io = proactor.handle();
//! let lease = proactor.block_on(async {
//!     let sent = io.send(&Socket::from(near), lease).await; // the operation owns the lease
//!     assert_eq!(sent.result?, 5);
//!     Ok::<_, transload::proactor::IoError>(sent.returned().await.buffers.into_lease())
//! })??;
//! assert!(lease.is_some()); // and gives it back with its completion
//! drop(lease);
//! let mut heard = [0; 5];
//! far.read_exact(&mut heard)?;
//! assert_eq!(&heard, b"hello");
//!
//! assert_eq!(pool.available(), 256);
//! drop((pool, region));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Trade-offs
//!
//! * No order and no fairness: which buffer comes is not said (mostly one that the thread gave back, whose lines are in
//!   its cache), and `try_acquire` may take what somebody sleeps for. Who sleeps is called in turn, and calls again.
//! * 63 threads or handles at a time have a seat of their own in a pool. Others share one, with several locked
//!   operations a call, on lines that all of them write.
//! * A thread that has used a pool keeps its control words (8 bytes a buffer, never the buffers) until it ends or next
//!   comes to a pool that is new to it.
//! * All buffers of a pool have one size. For two sizes make two pools.
//! * Ages of leases are lower bounds, so that no claim reads a clock: see [`OldestLease::held`].

mod body;
mod clock;
mod error;
mod frozen;
mod handle;
mod lease;
mod local;
mod raw;
mod statistics;
mod wait;

#[expect(clippy::module_inception, reason = "the folder is about pools, this file is the pool")]
mod pool;

pub use error::{AcquireError, PoolError, RawLeaseError};
pub use frozen::FrozenLease;
pub use handle::PoolHandle;
pub use lease::Lease;
pub use pool::{BufferPool, PoolBuilder};
pub use raw::RawLease;
pub use statistics::{Holder, OldestLease, PoolStatistics};
