//! The comparison of the buffer pool with the classical free list.

mod compare;
mod flat;
mod ours;
mod rates;
mod report;
mod subject;
mod tagged;
mod verify;

pub use compare::compare;
pub use flat::{Filling, Flat};
pub use ours::{AnyThread, Handle};
pub use rates::Rate;
pub use report::{PoolDocument, Threads};
pub use subject::{Subject, Worker};
pub use tagged::Tagged;
pub use verify::verify;
