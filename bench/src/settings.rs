//! How long and how often to measure.

use std::time::Duration;

use serde::Serialize;

use crate::pin::Cores;
use crate::trial::{Ending, Plan};

/// Thresholds are judged on no fewer rounds.
pub const ROUNDS_TO_JUDGE: usize = 9;

/// What all measurements have in common.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Settings {
    /// Rounds; each runs every adapter once.
    pub rounds: usize,
    /// Length of one timed run, in milliseconds.
    pub run_ms: u64,
    /// Bytes to send through each adapter in the verifying mode, for each cell.
    pub verified_bytes: u64,
    /// The cores in use.
    pub cores: Cores,
}

impl Settings {
    /// A few minutes in all.
    pub fn full(cores: Cores) -> Self {
        Self { rounds: ROUNDS_TO_JUDGE, run_ms: 100, verified_bytes: 32 << 20, cores }
    }

    /// Some seconds, to see that everything runs. Its figures are not for judging.
    pub fn quick(cores: Cores) -> Self {
        Self { rounds: 3, run_ms: 15, verified_bytes: 2 << 20, cores }
    }

    /// A timed run of a queue with room for `capacity` messages.
    pub fn timed(&self, capacity: usize) -> Plan {
        let span = Duration::from_millis(self.run_ms);
        Plan { cores: self.cores, warm_up: 2 * capacity as u64, ending: Ending::After(span) }
    }

    /// A run of so many messages in all.
    pub fn counted(&self, messages: u64, producers: usize) -> Plan {
        let each = (messages / producers as u64).max(1);
        Plan { cores: self.cores, warm_up: 0, ending: Ending::Messages(each) }
    }

    /// A verifying run of messages of this size.
    pub fn verified(&self, message_bytes: usize, producers: usize) -> Plan {
        self.counted(self.verified_bytes / message_bytes as u64, producers)
    }

    /// The adapters in the order of round `round`: each begins once in as many rounds as there are adapters.
    pub fn order(count: usize, round: usize) -> impl Iterator<Item = usize> {
        (0..count).map(move |position| (position + round) % count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_runs_each_adapter_once_and_begins_with_another() {
        for round in 0..5 {
            let mut order: Vec<_> = Settings::order(5, round).collect();
            assert_eq!(order[0], round);
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4]);
        }
    }
}
