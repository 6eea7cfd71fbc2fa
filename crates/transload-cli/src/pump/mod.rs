//! `transload pump`: from a source, through a ring, onto a device, and a report.

mod args;
mod assembler;
mod check;
mod digest;
pub(crate) mod framing;
pub(crate) mod io;
pub(crate) mod pattern;
mod progress;
mod report;
mod run;
mod setup;
pub(crate) mod signals;
mod sink;
mod source;
mod stop;
mod tally;

pub(crate) use args::PumpArgs;
pub(crate) use run::main;
