//! Comparisons of transload with other libraries. Not published; see the README of this folder for what is measured
//! and how it may mislead.

pub mod adapter;
pub mod adapters;
pub mod bare;
pub mod baseline;
pub mod cell;
pub mod check;
pub mod comparison;
pub mod contender;
pub mod device;
pub mod drive;
pub mod in_place;
pub mod io;
pub mod latency;
pub mod machine;
pub mod message;
pub mod patience;
pub mod pin;
pub mod pool;
pub mod report;
pub mod ring;
pub mod settings;
pub mod shm;
pub mod statistics;
pub mod trial;
pub mod verify;

/// Messages in a batch, on either side.
pub const BATCH: usize = 64;
