//! Pools and rings that processes share, and that survive the death of any of them.

pub mod handover;
