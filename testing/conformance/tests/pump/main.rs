//! The pump over devices that stop, fail and vanish: whatever happens, each message is counted once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod each_device;
mod failures;
mod kit;
mod policies;
mod read_back;
mod running;
#[cfg(target_os = "linux")]
mod shared;
