//! Pauses between polls.

use std::time::Duration;

const SPINS: u32 = 64;
const YIELDS: u32 = 32;
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_micros(200);

/// Pauses that grow: at first none, then the processor is given away, then sleep.
#[derive(Debug)]
pub(super) struct Pause {
    count: u32,
    sleep: Duration,
}

impl Pause {
    pub(super) fn new() -> Self {
        Self { count: 0, sleep: SHORTEST }
    }

    /// Pauses, not for longer than is left.
    pub(super) fn once(&mut self, left: Option<Duration>) {
        self.count = self.count.saturating_add(1);
        if self.count <= SPINS {
            std::hint::spin_loop();
        } else if self.count <= SPINS + YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(left.map_or(self.sleep, |left| left.min(self.sleep)));
            self.sleep = (self.sleep * 2).min(LONGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_grow_to_their_longest() {
        let mut pause = Pause::new();
        for _ in 0..SPINS + YIELDS {
            pause.once(Some(Duration::ZERO));
        }
        assert_eq!(pause.sleep, SHORTEST);
        for _ in 0..8 {
            pause.once(None);
        }
        assert_eq!(pause.sleep, LONGEST);
    }
}
