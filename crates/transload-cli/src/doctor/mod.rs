//! `transload doctor`: what this machine can do for transload, and the command that would let it do more.
//!
//! Every check runs as the effective user and changes nothing. A check that finds nothing is not a failure: `absent`
//! is for what the machine does not have, `warn` for what it has and could use better, `fail` for what makes transload
//! unusable.

mod check;
mod device;
mod devices;
mod io;
mod kernel;
mod memory;
mod rate;
mod run;

pub(crate) use run::{DoctorArgs, run};
