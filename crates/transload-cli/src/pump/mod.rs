//! `transload pump`: from a source, through a ring, onto a device, and a report.

mod args;
mod back;
mod check;
mod digest;
mod kernel;
mod progress;
#[cfg(target_os = "linux")]
mod region;
mod report;
mod run;
mod setup;
mod sink;
mod source;
mod stop;
mod tally;

pub(crate) use args::PumpArgs;
pub(crate) use run::main;
