//! Memory that is pinned once and named by a number: the ring's table of registered buffers.

use rustix::io::Errno;

use super::errors::{not_pinned, os_text, patiently};
use super::ring::Ring;
use crate::memory::Slab;

/// The kernel takes no larger table (`IORING_MAX_REG_BUFFERS`).
const MOST_SLOTS: u16 = 1 << 14;
const FEWEST_SLOTS: u16 = 16;

/// Which slots are free.
#[derive(Debug, Default)]
pub(super) struct Slots {
    free: Vec<u16>,
    total: u16,
    /// Slots that the kernel did not clear. They stay out of use.
    quarantined: u16,
}

impl Slots {
    /// Makes the table in the ring: as large as the kernel takes it.
    pub(super) fn create(ring: &Ring) -> Result<Self, Errno> {
        let mut total = MOST_SLOTS;
        loop {
            match ring.create_slots(total) {
                Ok(()) => return Ok(Self { free: (0..total).rev().collect(), total, quarantined: 0 }),
                Err(errno) if total == FEWEST_SLOTS => return Err(errno),
                Err(_) => total /= 2,
            }
        }
    }

    /// Pins a slab, a piece a slot. All or none.
    pub(super) fn register(
        &mut self,
        ring: &Ring,
        slab: &Slab,
        piece_bytes: usize,
    ) -> Result<Vec<u16>, String> {
        if self.total == 0 {
            return Err("this proactor has no table of registered buffers: the kernel is older than Linux 5.19, refuses \
                 it, or the capability fixed-buffers is masked"
                .to_owned());
        }
        let (len_bytes, piece_bytes) = (slab.len_bytes(), piece_bytes.max(1));
        let pieces = len_bytes.div_ceil(piece_bytes);
        if pieces > self.free.len() {
            return Err(format!(
                "the table of registered buffers is full: {pieces} slots needed, {} of {} free; end other regions of \
                 this proactor, or use another proactor",
                self.free.len(),
                self.total
            ));
        }
        let mut slots = Vec::with_capacity(pieces);
        for start in (0..len_bytes).step_by(piece_bytes) {
            let Some(slot) = self.free.pop() else { break };
            let piece = libc::iovec {
                iov_base: slab.as_ptr().wrapping_add(start).cast(),
                iov_len: piece_bytes.min(len_bytes - start),
            };
            // One slot a call: a call for several may succeed in part, and where the table is full of holes they are not
            // neighbours.
            let pinned = patiently(len_bytes as u64, || {
                // SAFETY: the piece lies within the slab, which the region that this becomes keeps until it is
                // unregistered (I2).
                unsafe { ring.set_slot(slot, piece) }
            });
            if let Err(errno) = pinned {
                self.free.push(slot);
                self.unregister(ring, &slots);
                return Err(not_pinned(errno, len_bytes as u64));
            }
            slots.push(slot);
        }
        Ok(slots)
    }

    /// Unpins. What the kernel does not clear is never used again.
    pub(super) fn unregister(&mut self, ring: &Ring, slots: &[u16]) {
        for &slot in slots {
            match ring.clear_slot(slot) {
                Ok(()) => self.free.push(slot),
                Err(errno) => {
                    self.quarantined += 1;
                    let reason = os_text(errno);
                    tracing::warn!(slot, self.quarantined, %reason, "a slot of registered memory was not cleared");
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// As if so many were in use.
    #[cfg(test)]
    pub(super) fn keep_only(&mut self, count: usize) -> Vec<u16> {
        self.free.split_off(count)
    }
}
