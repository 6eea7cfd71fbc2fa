//! Suites that every back end of transload must pass, and devices that break on purpose.
//!
//! | module | holds |
//! |---|---|
//! | [`device`] | the suite for [`Device`](transload::device::Device) and [`Stream`](transload::device::Stream), and [`device_suite!`], which makes tests of it |
//! | [`host`], [`opencl`], [`vulkan`], [`cuda`] | the back ends as subjects of the suite, each with a gate that holds its copies |
//! | [`proactor`] | the suite for [`Proactor`](transload::proactor::Proactor), its subjects, and [`proactor_suite!`] |
//! | [`queues`] | the suite for queues in device memory, kept going by a pump, and [`queue_suite!`] |
//! | [`confinement`] | processes that may do less: no `io_uring`, no rights, little locked memory |
//! | [`faulty`] | a wrapper around any device that fails where it is told to |
//! | [`skip`], [`watchdog`] | tests that cannot run here, and tests that would never end |
//!
//! To add a back end: write its [`Subject`](device::Subject), and a file in `tests/` that says
//! `transload_conformance::device_suite!(...)`. The same with [`proactor::Subject`] and `proactor_suite!`, and, for a back end that runs kernels, with [`queues::Subject`] and
//! `queue_suite!`.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "these are tests, kept in a library: they panic where a test fails"
)]

pub mod confinement;
#[cfg(target_os = "linux")]
pub mod cuda;
pub mod device;
pub mod faulty;
pub mod host;
pub mod opencl;
pub mod proactor;
pub mod queues;
pub mod skip;
pub mod vulkan;
pub mod watchdog;
