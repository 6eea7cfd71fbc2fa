//! Where messages come from: each source runs on threads of its own and offers to an intake.

mod direct;
mod generate;
#[cfg(target_os = "linux")]
mod members;
mod outlet;
mod read;
mod sockets;
mod stage;
mod thread;

pub(super) use direct::{Direct, DirectFile};
pub(super) use generate::Generate;
#[cfg(target_os = "linux")]
pub(super) use members::Members;
pub(super) use outlet::Outlet;
pub(super) use read::Read;
pub(super) use sockets::{Listener, SocketFile, Sockets};
pub(super) use stage::{Halt, Stage};
pub(super) use thread::{Ended, Why, start};
