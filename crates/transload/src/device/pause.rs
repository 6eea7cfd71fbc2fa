//! Pauses between polls, and waits that are made of both.

use std::time::{Duration, Instant};

use super::{Completion, Stream};

/// How long a stream that is dropped waits for what is in flight.
pub(super) const DRAIN: Duration = Duration::from_secs(2);

/// Polls until a transfer has ended, or until then if there is an end. Gives up when nothing is in flight, or none of that
/// `can_end` any more.
pub(super) fn poll_until<S: Stream>(
    stream: &mut S,
    deadline: Option<Instant>,
    can_end: impl Fn(&S) -> bool,
) -> Option<Completion> {
    let mut pause = Pause::new();
    loop {
        if let Some(completion) = stream.poll() {
            return Some(completion);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if stream.in_flight() == 0 || left == Some(Duration::ZERO) || !can_end(stream) {
            return None;
        }
        pause.once(left);
    }
}

const SPINS: u32 = 64;
const YIELDS: u32 = 32;
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_micros(200);

/// Pauses that grow: at first none, then the processor is given away, then sleep.
#[derive(Debug)]
struct Pause {
    count: u32,
    sleep: Duration,
}

impl Pause {
    fn new() -> Self {
        Self { count: 0, sleep: SHORTEST }
    }

    /// Pauses, not for longer than is left.
    fn once(&mut self, left: Option<Duration>) {
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
