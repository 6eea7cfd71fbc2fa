//! `transload shm`: the regions that processes share, by their names.

mod args;
mod found;
mod list;
mod reclaim;
mod run;
mod show;
mod words;

pub(crate) use self::args::ShmArgs;
pub(crate) use self::run::main;
