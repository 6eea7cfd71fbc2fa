//! Pools and rings that processes share, and that survive the death of any of them.

mod builder;
mod error;
mod geometry;
mod header;
mod locks;
mod named;
mod provided;
mod region;
mod storage;
mod words;

pub use builder::SharedRegionBuilder;
pub use error::SharedError;
pub use geometry::shared_storage_size;
pub use named::{NamedObject, named_objects, unlink_named};
pub use provided::SharedStorage;
pub use region::SharedRegion;

pub use crate::fork::ForkedChild;
