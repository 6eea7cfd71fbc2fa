//! Completion-based I/O on registered memory.
#![allow(dead_code, unused_imports, reason = "under construction")]

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
pub use pending::{Output, Pending, Returned, Returning, Send, Sent, Transferred};
pub use proactor::{Proactor, ShutDown};
pub use receive_pool::ReceivePool;
pub use sequence::Sequence;
pub use socket::Socket;
pub use statistics::Statistics;
pub use streams::{Accept, Receive, Received};
pub use thread::ProactorThread;
