//! A pool with one loom cell a buffer, so that two owners are a data race.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each model uses its part of this, and a test may panic"
)]

use super::common::Fences;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use transload_core::{Grant, HintWord, NoGrant, Notice, Pool, Seat, Slot};

/// Generations start here: the next lease of a slot is the last before the 38 bits wrap.
pub const NEXT_TO_WRAP: u64 = (1 << 38) - 2;

pub struct Modelled {
    pub pool: Pool<Box<[Slot]>, Box<[HintWord]>, Fences>,
    buffers: Box<[UnsafeCell<u64>]>,
}

impl Modelled {
    pub fn new(buffers: usize, fences: Fences) -> Arc<Self> {
        let slots = (0..buffers).map(|_| Slot::starting_at(NEXT_TO_WRAP)).collect();
        let pool = Pool::new(slots, Box::new([HintWord::new()]) as Box<[_]>, fences).unwrap();
        let buffers = (0..buffers).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Self { pool, buffers })
    }

    /// Uses a buffer as only its owner may.
    pub fn stamp(&self, grant: &Grant) {
        self.stamp_index(grant.index());
    }

    pub fn stamp_index(&self, index: u32) {
        // SAFETY: the pool lent the buffer to this thread alone; loom reports it if that is false.
        self.buffers[index as usize].with_mut(|buffer| unsafe { *buffer += 1 });
    }

    /// Claims, uses and gives back, if there is a buffer.
    pub fn turn(&self, seat: &Seat) -> Result<(), NoGrant> {
        let grant = self.pool.claim(seat)?;
        self.stamp(&grant);
        let _ = self.pool.release(seat, grant);
        Ok(())
    }

    /// Releases where nobody needs to be told.
    pub fn give(&self, seat: &Seat, grant: Grant) -> Notice {
        self.stamp(&grant);
        self.pool.release(seat, grant)
    }
}
