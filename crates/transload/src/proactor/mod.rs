//! Completion-based I/O on registered memory.
#![allow(dead_code, unused_imports, reason = "under construction")]

mod backend;
mod capability;
mod error;
mod file;
mod key;
mod socket;
#[cfg(all(target_os = "linux", feature = "uring"))]
mod uring;

pub use capability::{Capabilities, Capability};
pub use error::{IoError, ProactorError};
pub use file::{Alignment, File};
pub use socket::Socket;
