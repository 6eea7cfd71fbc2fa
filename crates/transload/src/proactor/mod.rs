//! Completion-based I/O on registered memory: sockets and files, sent, received, read and written by the kernel while
//! the memory belongs to the operation.
//!
//! ```text
//!   any thread                      the proactor's thread                     kernel
//!   Handle --operation, memory-->   table  --attempt-->  back end  --------->
//!   future <--outcome, memory---    engine <--completion--        <---------
//! ```
//!
//! # The contract
//!
//! * An operation owns its memory from the call to its outcome. While the kernel may touch the memory, nobody else can:
//!   not by dropping the future (that asks for cancellation), nor by dropping the proactor. Memory of which it cannot be
//!   proved that the kernel has let go is quarantined and counted.
//! * The same operations give the same results on every back end, and with every [`Capability`] masked.
//! * Progress is made only while somebody polls the [`Proactor`]: [`poll`](Proactor::poll),
//!   [`block_on`](Proactor::block_on), or a thread of its own ([`ProactorBuilder::spawn`]). Futures are plain, any
//!   executor may await them.
//! * Sends of one [`Socket`] go out in the order in which they were submitted, each whole before the next. A peer that
//!   is gone is an error, never a signal.
//! * A receive that finds no buffer waits for one to come back. A receiver that nobody empties is held, and its peer
//!   with it. Neither is an error; both are counted.
//!
//! # Example
//!
//! One process, both ends: a buffer is leased, filled, sent from where it is, and received into another.
//!
//! ```
//! use std::os::unix::net::UnixStream;
//! use transload::memory::Slab;
//! use transload::pool::BufferPool;
//! use transload::proactor::{Proactor, Received, Socket};
//! use transload::region::Access;
//!
//! let proactor = Proactor::new()?;
//! println!("{}", proactor.choice()); // which back end, and why
//! let outgoing = BufferPool::new(&proactor.register_slab(&Slab::new(4, 4096)?, Access::READ)?)?;
//! let incoming = proactor.receive_pool(&proactor.register_slab(&Slab::new(4, 4096)?, Access::WRITE)?)?;
//! let (near, far) = UnixStream::pair()?;
//! let (near, far) = (Socket::from(near), Socket::from(far));
//!
//! let io = proactor.handle();
//! proactor.block_on(async {
//!     let mut lease = outgoing.try_acquire()?;
//!     lease[..5].copy_from_slice(b"hello");
//!     lease.resize(5);
//!     let sent = io.send(&near, lease).await;
//!     assert_eq!(sent.result?, 5);
//!     let lease = sent.returned().await.buffers.into_lease(); // back when the kernel has let go
//!     assert!(lease.is_some());
//!
//!     let mut receive = io.receive(&far, &incoming);
//!     match receive.delivery().await {
//!         Some(Ok(Received::Data(bytes))) => assert_eq!(&*bytes, b"hello"),
//!         other => panic!("{other:?}"),
//!     }
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Trade-offs
//!
//! Each operation takes an uncontended lock a few times; a proactor with many submitting threads is better split into
//! several. Zero-copy sends pay off for large payloads on a real network only: on the loop-back device the kernel copies
//! all the same. The readiness back end pins nothing and copies everything once, as sockets do.

mod backend;
mod buffers;
mod builder;
mod capability;
mod choice;
mod engine;
#[cfg(test)]
mod engine_tests;
mod error;
mod file;
mod handle;
mod key;
mod lines;
mod operation;
mod outcomes;
mod pending;
mod pools;
#[expect(clippy::module_inception, reason = "the module's main noun")]
mod proactor;
mod readiness;
mod receive_pool;
mod registration;
#[cfg(test)]
mod scripted;
mod sequence;
mod shared;
mod socket;
mod statistics;
mod streams;
mod table;
mod thread;
#[cfg(all(feature = "uring", target_os = "linux"))]
mod uring;

pub use buffers::{Incoming, Outgoing, Part};
pub use builder::ProactorBuilder;
pub use capability::{Capabilities, Capability};
pub use choice::{Backend, Choice};
pub use error::{IoError, ProactorError};
pub use file::{Alignment, File};
pub use handle::{Handle, Shutdown};
pub use operation::ZeroCopy;
pub use pending::{Output, Pending, PendingSend, Returned, Returning, Sent, Transferred};
pub use proactor::{Proactor, ShutDown};
pub use receive_pool::ReceivePool;
pub use sequence::Sequence;
pub use socket::Socket;
pub use statistics::Statistics;
pub use streams::{Accept, Receive, Received};
pub use thread::ProactorThread;
