//! Kills and stops members of shared regions in the middle of what they do, and sees whether the others can go on.
//!
//! | module | holds |
//! |---|---|
//! | [`trace`], [`path`] | stepping a process; the way of an operation, and how to come to a place on it fast |
//! | [`operation`], [`twin`] | what a victim does; what it does wrong on purpose |
//! | [`scene`], [`view`] | what there is around it, and what must be true afterwards; the words of a region |
//! | [`kill`], [`stop`], [`interplay`] | killed at each point; stopped there, while another one acts |
//! | [`half_made`], [`handing`] | regions that are not made yet; regions that are handed over by a name |
//! | [`campaign`], [`random`] | many members, killed and stopped at random moments |
//! | [`holder`] | a member that has something and waits |
//! | [`victim`], [`inherit`] | the program that dies, and what it gets from who starts it |
//!
//! To add an operation: a variant of [`Operation`](operation::Operation) with its name, what it does between two marks, what
//! there is before it ([`Scene`](scene::Scene)), and a line in `tests/step_kill.rs` and `tests/step_stop.rs`.
//!
//! The tests print what they killed, and what came out: `cargo test -p transload-crash -- --nocapture`.
//!
//! It steps by the registers of x86-64; elsewhere there is nothing of it.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "these are tests, kept in a library: they panic where a test fails"
)]

pub mod campaign;
pub mod half_made;
pub mod handing;
pub mod holder;
pub mod inherit;
pub mod interplay;
pub mod kill;
pub mod operation;
pub mod path;
pub mod random;
pub mod scene;
pub mod stop;
pub mod trace;
pub mod twin;
pub mod victim;
pub mod view;
