//! What the tests of the pool share.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test file uses its part of this, and a test may panic"
)]

use transload::device::host::HostDevice;
use transload::memory::{Policy, Slab};
use transload::pool::BufferPool;
use transload::region::{Access, Region, Registrar};

/// A region of so many buffers, registered with the host.
pub fn region(buffers: usize, size: usize) -> Region {
    let slab = Slab::builder(buffers, size).lock(Policy::Never).build().unwrap();
    HostDevice::new().register(&slab, Access::READ_WRITE).unwrap()
}

/// A pool of so many buffers.
pub fn pool(buffers: usize, size: usize) -> BufferPool {
    BufferPool::new(&region(buffers, size)).unwrap()
}
