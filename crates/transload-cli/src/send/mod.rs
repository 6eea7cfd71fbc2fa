//! `transload send`: from a source into leases of a pool, over connections, and a report.
//!
//! A lease is filled once, by the generator, the kernel's read or the reading thread, and sent from where it lies. It
//! comes back to the pool when the kernel has let go of it; nobody waits for that but who needs it next.
//!
//! Into a region that processes share (`region`) goes each message by itself, as one of its buffers.

mod args;
mod cutter;
mod generator;
mod lane;
mod mailbox;
mod opened;
#[cfg(target_os = "linux")]
mod region;
mod report;
mod run;
mod setup;
mod source;
mod stop;

pub(crate) use args::SendArgs;
pub(crate) use run::main;
