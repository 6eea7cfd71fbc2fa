//! One file a queue.

mod array_queue;
mod early_claim;
mod flume;
mod kanal;
mod staging;
mod sync_channel;
mod thingbuf;

pub use array_queue::Crossbeam;
pub use early_claim::EarlyClaim;
pub use flume::{FlumeDrain, FlumeEach};
pub use kanal::{KanalDrain, KanalEach};
pub use staging::Staging;
pub use sync_channel::SyncChannel;
pub use thingbuf::Thingbuf;
