//! What a pump does when it has nothing to do: spin, yield, sleep.

use std::time::Duration;

/// Rounds of each kind, in turn. A round of spinning is 8 hints, some 200 ns: who looks more often takes cache lines from
/// under the producers.
const SPINS: u32 = 32;
const YIELDS: u32 = 32;

/// No sleep on the device is longer while messages may come, as nothing wakes it for them.
pub(super) const SHORT: Duration = Duration::from_micros(200);
/// No sleep is longer, so that a request to stop is seen.
pub(super) const LONG: Duration = Duration::from_millis(50);

/// Counts the rounds in which nothing happened.
#[derive(Debug, Default)]
pub(super) struct Idle {
    rounds: u32,
}

impl Idle {
    /// Something happened.
    pub(super) fn reset(&mut self) {
        self.rounds = 0;
    }

    /// `shortest` doubled for each eight sleeps since something happened, up to 5 ms.
    pub(super) fn longer(&self, shortest: Duration) -> Duration {
        let sleeps = self.rounds.saturating_sub(SPINS + YIELDS);
        shortest.saturating_mul(1 << (sleeps / 8).min(16)).min(Duration::from_millis(5))
    }

    /// Passes the time for a moment and says so, or says that it is time to sleep.
    pub(super) fn pause(&mut self) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        match self.rounds {
            0..=SPINS => (0..8).for_each(|_| std::hint::spin_loop()),
            rounds if rounds <= SPINS + YIELDS => std::thread::yield_now(),
            _ => return false,
        }
        true
    }
}
