//! Pools and rings that processes share, and that survive the death of any of them.
//!
//! A [`SharedRegion`] is one sealed memory with equal buffers, mapped by several processes, each of which registers it with
//! its own devices and proactors. Through a [`SharedPool`] a process takes part: it leases buffers, and sends them as
//! messages through the [`SharedRing`]. One process takes them, as [`SharedConsumer`], in place.
//!
//! ```text
//!  process A --try_acquire, write, send--> [ buffers | ring ] --take--> process C --> device
//!  process B --try_acquire, write, send-->    one memfd         <--drop-- (done)
//! ```
//!
//! # The contract
//!
//! * `kill -9` of any process at any instruction loses at most the message that it had not finished sending. A message
//!   whose send has returned arrives, as long as any member is alive.
//! * What a consumer had taken and was not done with when it died comes to the next one once more, counted `redelivered`.
//!   Exactly once is promised only while the consumer lives.
//! * A buffer has one owner at a time. Buffers of the dead are given back by whoever notices; those that a kernel or a
//!   device may still access are quarantined. Nobody is taken for dead who is not: a stopped process keeps what it has.
//! * Nobody waits for anybody's half-done step: there is no lock on the way, and no place in the ring that is taken and
//!   not full.
//! * If all members are dead, what was in the region is lost with it.
//!
//! # Trust
//!
//! Members are processes of one user that may crash at any moment. One that lies can waste or spoil messages. It cannot
//! make another read out of bounds, hang, or hold a buffer twice: what makes no sense poisons the region for the process
//! that sees it, which then touches nothing of it any more.
//!
//! # Forks
//!
//! A forked child does not have the memory, and every handle in it answers [`ForkedChild`]; let it join by itself. As long
//! as it lives it keeps its parent's lock, so that a parent that dies first is not known to be dead until then.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//! use transload::shared::{SharedPool, SharedRegion};
//!
//! let region = SharedRegion::builder(64, 4096).create()?;
//! // Another process opens it by a descriptor: `SharedRegion::open(descriptor)`.
//! let other = SharedRegion::open(region.file_for_peer()?)?;
//!
//! let sender = SharedPool::join(&other, "sender")?;
//! let mut lease = sender.try_acquire()?;
//! lease.write_at(0, b"hello")?;
//! sender.ring().try_send(lease, 5)?;
//!
//! let receiver = SharedPool::join(&region, "receiver")?;
//! let mut consumer = receiver.ring().consumer()?;
//! assert!(consumer.wait_timeout(Duration::from_secs(1))?);
//! let batch = consumer.take(64)?;
//! let message = batch.message(0).expect("a batch is not empty");
//! let mut bytes = vec![0; message.len_bytes as usize];
//! batch.read(&message, &mut bytes)?;
//! assert_eq!(bytes, b"hello");
//! drop(batch); // done: its buffers are free, and it never comes again
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod builder;
mod consumer;
mod entry;
mod error;
mod fnv;
mod geometry;
pub mod handover;
mod header;
mod held;
pub mod isolated;
mod lease;
mod lent;
mod locks;
mod member;
mod member_error;
mod named;
mod ofd;
mod pool;
mod provided;
mod region;
mod ring;
mod statistics;
mod storage;
mod wait;
mod words;

pub use batch::SharedBatch;
pub use builder::SharedRegionBuilder;
pub use consumer::SharedConsumer;
pub use error::SharedError;
pub use geometry::shared_storage_size;
pub use lease::SharedLease;
pub use lent::SharedLent;
pub use member_error::{
    ConsumerError, JoinError, OutOfBuffer, SendError, SendRefused, SharedAcquireError, TakeError,
};
pub use named::{NamedObject, named_objects, unlink_dead_named, unlink_named};
pub use pool::SharedPool;
pub use provided::SharedStorage;
pub use region::SharedRegion;
pub use ring::SharedRing;
pub use statistics::{Holder, SharedStatistics, Taker};
pub use transload_core::{Poisoned, Recovered, SharedMessage};

pub use crate::fork::ForkedChild;
