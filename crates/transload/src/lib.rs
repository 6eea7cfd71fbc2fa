//! Moves messages from many producers into device memory through page-locked, registered buffers.

pub mod memory;
