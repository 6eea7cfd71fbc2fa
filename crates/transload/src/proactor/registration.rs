//! Memory registered with a proactor.

use std::any::Any;
use std::sync::Arc;

use super::shared::{Command, Shared};
use crate::memory::Slab;
use crate::region::Region;

/// No piece is larger: the kernel refuses more than 1 GiB for one buffer (Linux, `io_uring/rsrc.c`).
const LARGEST_PIECE: usize = 1 << 30;

/// How long pieces of a slab are, so that no buffer is cut; `None` if a buffer is larger than a piece can be.
pub(super) fn piece_bytes(slab: &Slab) -> Option<usize> {
    let buffers = LARGEST_PIECE / slab.buffer_size();
    (buffers > 0).then(|| buffers * slab.buffer_size())
}

/// What ends a registration when the last handle on its region goes, on whatever thread.
pub(super) struct Registered {
    shared: Arc<Shared>,
    piece_bytes: usize,
    /// Empty if nothing is pinned.
    slots: Vec<u16>,
    /// Kept until the kernel has let go.
    slab: Slab,
}

impl Registered {
    pub(super) fn new(shared: Arc<Shared>, slab: Slab, piece_bytes: usize, slots: Vec<u16>) -> Self {
        Self { shared, piece_bytes, slots, slab }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if !self.slots.is_empty() {
            let slots = std::mem::take(&mut self.slots);
            self.shared.command(Command::Unregister { slots, slab: self.slab.clone() });
        }
    }
}

/// The slot under which a part of a region is registered with this proactor, if it lies within one.
pub(super) fn slot_of(region: &Region, proactor: u64, address: *const u8, len_bytes: usize) -> Option<u16> {
    let guard: &dyn Any = region.guard();
    let registered =
        guard.downcast_ref::<Registered>().filter(|registered| registered.shared.id == proactor)?;
    let offset = address.addr() - region.slab().as_ptr().addr();
    let piece = offset / registered.piece_bytes;
    let within = offset + len_bytes <= (piece + 1) * registered.piece_bytes;
    registered.slots.get(piece).copied().filter(|_| within)
}
