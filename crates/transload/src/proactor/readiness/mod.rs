//! The back end for kernels and containers without `io_uring`: waits until a descriptor is ready, then makes the system
//! call. Files, which are always ready and block all the same, go to threads.
//!
//! A call is tried first and waits only if it would block. Nothing changes how a socket blocks, with one exception that
//! `nonblocking` explains.

mod backend;
mod bell;
mod call;
mod descriptor;
mod files;
mod nonblocking;
mod slots;
mod sockets;
#[cfg(test)]
mod tests;
mod vectors;
mod waiting;

pub(super) use backend::ReadinessBackend;
