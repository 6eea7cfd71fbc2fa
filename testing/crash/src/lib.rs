//! Kills members of shared regions at every instruction, and sees whether the others can go on.

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
