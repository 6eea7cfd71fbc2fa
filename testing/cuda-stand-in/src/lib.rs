//! A stand-in for the driver of CUDA: a library with the functions of `libcuda.so.1` that transload calls, over host memory.
//!
//! It is no emulator of a GPU. It lets the back end's own code run on a machine without one, and it checks the rules by which
//! the driver must be called, which a driver itself does not:
//!
//! - a context is current on the thread that calls;
//! - host memory that is given to an asynchronous copy lies in one registered range, the whole of it;
//! - device memory is the device's, the whole of it;
//! - nothing is unregistered, freed or unloaded while something in flight uses it;
//! - only what is there is unregistered or freed, at the address where it begins.
//!
//! A breach is a *violation*: the process ends with a message, unless a test has asked to collect violations
//! (`stand_in_collect`), which is how the checks themselves are tested.
//!
//! # What it proves, and what not
//!
//! It proves the order of calls, what becomes of errors, and lifetimes. It says nothing about the behaviour of NVIDIA's
//! driver: what that accepts, how fast it is, what it does to a stream when a copy fails, whether a kernel that it is given
//! compiles. Kernels do not run here: those that the tests know by name have a twin in Rust ([`twins`]).
//!
//! # How tests reach it
//!
//! A test loads this library by its path before it asks for a driver: its soname is `libcuda.so`, so whoever then looks for
//! the driver is given this one. Functions called `stand_in_*` ([`control`]) tell it what to do: to delay copies, to fail the
//! next call of a function, to lose the device, to have other attributes.
//!
//! Where it is loaded by a process that knows nothing of it, under the name `libcuda.so.1`, two variables of the environment
//! are heeded: `TRANSLOAD_CUDA_STAND_IN_DEVICES`, how many devices there are, and `TRANSLOAD_CUDA_STAND_IN_INIT`, what `cuInit`
//! answers.
//!
//! Each stream has a thread, which does what is in the stream in order.

pub mod control;
mod exports;
pub mod twins;
mod work;
mod world;
