//! The memory that a proactor knows: regions and receive pools, and who waits for a buffer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::backend::{Backend, Group};
use super::capability::Capability;
use super::error::ProactorError;
use super::key::Key;
use super::operation::Pinning;
use super::pending::Extra;
use super::receive_pool::ReceivePool;
use super::registration::{Registered, piece_bytes};
use super::shared::Shared;
use crate::memory::Slab;
use crate::pool::{AcquireError, BufferPool, Lease};
use crate::region::{Access, Region, RegisterError, Registration};

/// What is to be registered.
pub(super) enum Asked {
    Slab(Slab, Access, Pinning),
    Pool(Region),
}

type NextBuffer = Pin<Box<dyn Future<Output = Result<Lease, AcquireError>>>>;

#[derive(Default)]
pub(super) struct Pools {
    /// Numbers of receive pools: `true` where in use.
    groups: Vec<bool>,
    starving: Vec<Starving>,
    to_register: Vec<Key>,
}

/// Receives that wait for a buffer of one pool.
struct Starving {
    group: Group,
    next_buffer: NextBuffer,
    keys: Vec<Key>,
}

impl Pools {
    pub(super) fn register_later(&mut self, key: Key) {
        self.to_register.push(key);
    }

    pub(super) fn next_to_register(&mut self) -> Option<Key> {
        self.to_register.pop()
    }

    pub(super) fn answer(&mut self, backend: &mut dyn Backend, shared: &Arc<Shared>, asked: Asked) -> Extra {
        match asked {
            Asked::Slab(slab, access, pinning) => {
                Extra::Region(register(backend, shared, &slab, access, pinning))
            }
            Asked::Pool(region) => Extra::Pool(self.make(backend, shared, &region)),
        }
    }

    /// A pool to receive into, over a region.
    pub(super) fn make(
        &mut self,
        backend: &mut dyn Backend,
        shared: &Arc<Shared>,
        region: &Region,
    ) -> Result<ReceivePool, ProactorError> {
        if !region.access().writes() {
            return Err(ProactorError::NotWritable { access: region.access() });
        }
        let pool =
            BufferPool::new(region).map_err(|error| ProactorError::Pool { reason: error.to_string() })?;
        let free = self.groups.iter().position(|in_use| !in_use).unwrap_or(self.groups.len());
        // The highest number is the back ends' own, for what no pool has.
        let group = Group::try_from(free).ok().filter(|&group| group < Group::MAX);
        let group = group.ok_or_else(|| ProactorError::Pool {
            reason: format!(
                "this proactor has {} receive pools, which is the most; drop some",
                self.groups.len()
            ),
        })?;
        backend
            .add_pool(group, &pool)
            .map_err(|errno| ProactorError::Os { call: "add a receive pool", code: errno.raw_os_error() })?;
        if free == self.groups.len() {
            self.groups.push(true);
        } else {
            self.groups[free] = true;
        }
        Ok(ReceivePool::new(pool, group, shared.clone()))
    }

    /// Ends a receive pool of which no handle is left.
    pub(super) fn remove(&mut self, backend: &mut dyn Backend, group: Group) {
        backend.remove_pool(group);
        self.starving.retain(|starving| starving.group != group);
        if let Some(in_use) = self.groups.get_mut(usize::from(group)) {
            *in_use = false;
        }
    }

    /// Notes a receive that found no buffer. Those that do not wait any more are left out now and then.
    pub(super) fn starve(&mut self, pool: &ReceivePool, key: Key, mut waits: impl FnMut(Key) -> bool) {
        let group = pool.group();
        if let Some(starving) = self.starving.iter_mut().find(|starving| starving.group == group) {
            if starving.keys.len() == starving.keys.capacity() {
                starving.keys.retain(|&key| waits(key));
            }
            starving.keys.push(key);
        } else {
            let next_buffer = Box::pin(pool.pool().acquire());
            self.starving.push(Starving { group, next_buffer, keys: vec![key] });
        }
    }

    /// The receives of a pool to which a buffer has come back. Wakes when that happens to another.
    pub(super) fn next_fed(&mut self, backend: &dyn Backend, waker: &Waker) -> Option<Vec<Key>> {
        let mut context = Context::from_waker(waker);
        for index in 0..self.starving.len() {
            let Starving { group, next_buffer, .. } = &mut self.starving[index];
            let polled = next_buffer.as_mut().poll(&mut context);
            // The back end may have taken it first, for others that want nothing now.
            if polled.is_ready() || backend.lends(*group) {
                // It goes back at once, and the back end takes it from the pool.
                drop(polled);
                return Some(self.starving.swap_remove(index).keys);
            }
        }
        None
    }
}

/// Registers a slab for I/O: pinned, or else not, if that will do.
pub(super) fn register(
    backend: &mut dyn Backend,
    shared: &Arc<Shared>,
    slab: &Slab,
    access: Access,
    pinning: Pinning,
) -> Result<Region, RegisterError> {
    let access = access.local_only("the proactor")?;
    let (registration, slots, piece) = match pin(backend, slab) {
        Ok((slots, piece)) => (Registration::Pinned, slots, piece),
        Err(reason) if pinning == Pinning::Required => {
            let registrar = format!("the proactor ({})", shared.choice.backend);
            return Err(RegisterError::Refused { registrar, len_bytes: slab.len_bytes(), reason });
        }
        Err(reason) => (Registration::Copy { reason }, Vec::new(), slab.len_bytes()),
    };
    let guard = Registered::new(shared.clone(), slab.clone(), piece, slots);
    Ok(Region::new(slab.clone(), access, registration, Box::new(guard)))
}

fn pin(backend: &mut dyn Backend, slab: &Slab) -> Result<(Vec<u16>, usize), String> {
    if !backend.capabilities().has(Capability::FixedBuffers) {
        return Err("this back end registers no memory, or may not: each operation pins or copies".to_owned());
    }
    let piece = piece_bytes(slab).ok_or_else(|| {
        format!(
            "a buffer of {} bytes is larger than the 1 GiB that can be pinned at once",
            slab.buffer_size()
        )
    })?;
    backend.register(slab, piece).map(|slots| (slots, piece))
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let starving: usize = self.starving.iter().map(|starving| starving.keys.len()).sum();
        f.debug_struct("Pools")
            .field("groups", &self.groups)
            .field("starving", &starving)
            .finish_non_exhaustive()
    }
}
