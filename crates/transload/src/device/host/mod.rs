//! The host as a device: a queue in main memory and a thread that copies into it.
//!
//! It is the default where there is no GPU, and the reference that the other back ends are held against. A [`Gate`]
//! stops its copies, so that tests of anything built on devices can tell what happens before a copy has been made.

mod device;
mod gate;
mod kernel;
mod queues;
mod stream;

pub use device::{Host, HostDevice};
pub use gate::Gate;
pub use kernel::HostKernel;
pub use queues::{HostQueues, Place};
pub use stream::HostStream;
