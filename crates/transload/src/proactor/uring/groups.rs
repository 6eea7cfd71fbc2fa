//! Pools to receive into.

use rustix::io::Errno;

use super::buffer_ring::BufferRing;
use super::errors::os_text;
use super::ring::Ring;
use crate::pool::{BufferPool, Lease};
use crate::proactor::backend::Group;

/// A pool, and how it is received into.
#[derive(Debug)]
pub(super) struct Receivers {
    pub(super) pool: BufferPool,
    /// Where the kernel chooses among buffers; `None` if each receive takes one when there is something to receive.
    pub(super) ring: Option<BufferRing>,
}

/// All pools of a ring, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_number: Vec<Option<Receivers>>,
}

impl Groups {
    /// Adds a pool. `choose`: let the kernel choose among its buffers, if it takes a ring of them.
    pub(super) fn add(
        &mut self,
        ring: &Ring,
        group: Group,
        pool: &BufferPool,
        choose: bool,
    ) -> Result<(), Errno> {
        let number = usize::from(group);
        if self.by_number.len() <= number {
            self.by_number.resize_with(number + 1, || None);
        }
        if self.by_number[number].is_some() {
            return Err(Errno::EXIST);
        }
        let buffers = choose.then(|| BufferRing::new(ring, group, pool));
        let buffers = match buffers {
            Some(Err(errno)) => {
                let reason = os_text(errno);
                tracing::warn!(group, %reason, "no ring of buffers: receives take a buffer when there is something to receive");
                None
            }
            Some(Ok(buffers)) => Some(buffers),
            None => None,
        };
        self.by_number[number] = Some(Receivers { pool: pool.clone(), ring: buffers });
        self.refill(group);
        Ok(())
    }

    pub(super) fn remove(&mut self, ring: &Ring, group: Group) {
        let receivers = self.by_number.get_mut(usize::from(group)).and_then(Option::take);
        if let Some(buffers) = receivers.and_then(|receivers| receivers.ring) {
            buffers.remove(ring);
        }
    }

    /// Ends all; leaves memory and leases to the kernel for ever if it may still use them.
    pub(super) fn remove_all(&mut self, ring: &Ring, in_use: bool) {
        for buffers in self.by_number.drain(..).flatten().filter_map(|receivers| receivers.ring) {
            if in_use {
                let _ = ring.remove_buffers(buffers.group());
                buffers.leak();
            } else {
                buffers.remove(ring);
            }
        }
    }

    /// Keeps all for ever.
    pub(super) fn leak_all(&mut self) {
        self.by_number.drain(..).flatten().filter_map(|receivers| receivers.ring).for_each(BufferRing::leak);
    }

    pub(super) fn of(&mut self, group: Group) -> Option<&mut Receivers> {
        self.by_number.get_mut(usize::from(group))?.as_mut()
    }

    /// Lends the kernel the buffers of this pool that have come back; says whether there are any.
    pub(super) fn refill(&mut self, group: Group) -> bool {
        match self.of(group) {
            Some(Receivers { pool, ring: Some(ring) }) => ring.refill(pool),
            _ => false,
        }
    }

    /// Whether the kernel has buffers of this pool to choose from.
    pub(super) fn lends(&self, group: Group) -> bool {
        let receivers = self.by_number.get(usize::from(group)).and_then(Option::as_ref);
        receivers.and_then(|receivers| receivers.ring.as_ref()).is_some_and(BufferRing::lends)
    }

    /// Lends the kernel the buffers of all pools that have come back.
    pub(super) fn refill_all(&mut self) {
        for receivers in self.by_number.iter_mut().flatten() {
            if let Some(ring) = &mut receivers.ring {
                ring.refill(&receivers.pool);
            }
        }
    }

    /// Takes the buffer that the kernel has chosen.
    pub(super) fn take(&mut self, group: Group, buffer: u16) -> Option<Lease> {
        self.of(group)?.ring.as_mut()?.take(buffer)
    }

    /// Takes a buffer of the pool, if there is one.
    pub(super) fn acquire(&mut self, group: Group) -> Option<Lease> {
        self.of(group)?.pool.try_acquire().ok()
    }
}
