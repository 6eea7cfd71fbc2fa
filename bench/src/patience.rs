//! What a thread does while a queue is full or empty: the same for every adapter, and nobody sleeps.

use std::hint::spin_loop;
use std::thread::yield_now;

/// After this many doublings of the spin, a thread yields instead.
const SPIN_ROUNDS: u32 = 6;

/// Spins for 1, 2, 4, ... 32 pauses, then yields at each further call, until [`reset`](Self::reset).
#[derive(Debug, Default)]
pub struct Patience {
    round: u32,
}

impl Patience {
    /// A fresh start: the next wait is one pause.
    pub const fn new() -> Self {
        Self { round: 0 }
    }

    /// Waits a little, longer than the last time.
    #[inline]
    pub fn wait(&mut self) {
        if self.round < SPIN_ROUNDS {
            for _ in 0..1 << self.round {
                spin_loop();
            }
            self.round += 1;
        } else {
            yield_now();
        }
    }

    /// The queue moved: the next wait is short again.
    #[inline]
    pub fn reset(&mut self) {
        self.round = 0;
    }
}
