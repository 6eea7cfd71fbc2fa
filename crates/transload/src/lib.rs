//! Moves messages from many producers into device memory through page-locked, registered buffers.

pub mod device;
pub mod memory;
pub mod pump;
pub mod region;
pub mod staging;
