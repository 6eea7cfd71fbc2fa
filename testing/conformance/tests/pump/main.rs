//! The pump over devices that stop, fail and vanish: whatever happens, each message is counted once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod each_device;
mod each_queue;
mod failures;
mod kernel;
mod kit;
mod opencl_kernel;
mod outbound;
mod policies;
mod puppet;
mod queues;
mod read_back;
mod running;
#[cfg(target_os = "linux")]
mod shared;
