//! Where messages come from: each source runs on threads of its own and offers to an intake.

mod generate;
mod outlet;
mod read;
mod thread;

pub(super) use generate::Generate;
pub(super) use outlet::Outlet;
pub(super) use read::Read;
pub(super) use thread::{Ended, Why, start};
