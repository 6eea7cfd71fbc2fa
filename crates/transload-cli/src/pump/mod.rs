//! `transload pump`: from a source, through a ring, onto a device, and a report.

mod args;
mod check;
mod digest;
mod framing;
mod pattern;
mod progress;
mod report;
mod run;
mod setup;
mod signals;
mod sink;
mod source;

pub(crate) use args::PumpArgs;
pub(crate) use run::main;
