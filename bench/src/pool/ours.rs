//! Transload's pool, both ways to it.
#![expect(clippy::inline_always, reason = "the adapter must not cost a call")]

use transload::device::host::HostDevice;
use transload::memory::{Policy, Slab};
use transload::pool::{BufferPool, Lease, PoolHandle};
use transload::region::{Access, Registrar};

use super::subject::{Subject, Worker};

/// No byte of a buffer is touched, so small ones do.
const BUFFER_BYTES: usize = 64;

fn open(buffers: usize) -> BufferPool {
    let slab = Slab::builder(buffers, BUFFER_BYTES).lock(Policy::Never).build().expect("a slab");
    let region = HostDevice::new().register(&slab, Access::READ).expect("the host takes any slab");
    BufferPool::new(&region).expect("a slab of our own")
}

/// By a handle of each thread's own.
#[derive(Clone, Debug)]
pub struct Handle(BufferPool);

impl Subject for Handle {
    const NAME: &'static str = "transload, handle";
    type Worker = PoolHandle;

    fn open(buffers: usize) -> Self {
        Self(open(buffers))
    }

    fn worker(&self) -> PoolHandle {
        self.0.handle()
    }
}

impl Worker for PoolHandle {
    type Lease = Lease;

    #[inline(always)]
    fn acquire(&mut self) -> Option<Lease> {
        self.try_acquire().ok()
    }

    #[inline(always)]
    fn release(&mut self, lease: Lease) {
        PoolHandle::release(self, lease);
    }

    fn index(lease: &Lease) -> u32 {
        lease.index()
    }
}

/// By calls that look for the calling thread's seat.
#[derive(Clone, Debug)]
pub struct AnyThread(BufferPool);

impl Subject for AnyThread {
    const NAME: &'static str = "transload, any thread";
    type Worker = Self;

    fn open(buffers: usize) -> Self {
        Self(open(buffers))
    }

    fn worker(&self) -> Self {
        self.clone()
    }
}

impl Worker for AnyThread {
    type Lease = Lease;

    #[inline(always)]
    fn acquire(&mut self) -> Option<Lease> {
        self.0.try_acquire().ok()
    }

    #[inline(always)]
    fn release(&mut self, lease: Lease) {
        drop(lease);
    }

    fn index(lease: &Lease) -> u32 {
        lease.index()
    }
}
