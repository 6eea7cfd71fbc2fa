//! What a pump does when it has nothing to do: spin, yield, sleep.

use std::time::Duration;

/// How a pump passes the time before it sleeps. A hint to the processor takes some 25 ns.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Rounds of spinning, of so many hints each.
    spins: u32,
    hints: u32,
    /// Rounds after these in which the processor is given away.
    yields: u32,
}

/// While only producers can bring something. Who looks more often takes cache lines from under them.
const FOR_PRODUCERS: Pace = Pace { spins: 32, hints: 8, yields: 32 };

/// While transfers are in flight: some 40 us, as most end sooner, and no yields. Drivers may copy on threads of this machine.
/// These need the lock that answering takes too, so they are asked seldom, and would move to a core that was given away.
/// Measured with PoCL on two cores, batches of 256 KiB: 49 GB/s; asked four times as often 38; paced as for producers 25.
const FOR_DEVICE: Pace = Pace { spins: 50, hints: 32, yields: 0 };

/// Spinning that has brought nothing is halved the next time, as the device is slow, or its thread waits for this very core.
/// Each so many times it is tried in full.
const IN_FULL_AGAIN: u32 = 16;

/// No sleep on the device is longer while messages may come, as nothing wakes it for them.
pub(super) const SHORT: Duration = Duration::from_micros(200);
/// No sleep is longer, so that a request to stop is seen.
pub(super) const LONG: Duration = Duration::from_millis(50);

/// Counts the rounds in which nothing happened.
#[derive(Debug, Default)]
pub(super) struct Idle {
    rounds: u32,
    for_device: ForDevice,
    /// How often in a row spinning for the device has brought nothing.
    in_vain: u32,
}

/// Whether these rounds have been spent for the device.
#[derive(Clone, Copy, Debug, Default)]
enum ForDevice {
    #[default]
    No,
    Spinning,
    SpunInVain,
}

impl Idle {
    /// Something happened.
    pub(super) fn reset(&mut self) {
        self.rounds = 0;
        self.in_vain = match std::mem::take(&mut self.for_device) {
            ForDevice::No => self.in_vain,
            ForDevice::Spinning => 0,
            ForDevice::SpunInVain => self.in_vain.wrapping_add(1),
        };
    }

    /// `shortest` doubled for each eight sleeps since something happened, up to 5 ms.
    pub(super) fn longer(&self, shortest: Duration) -> Duration {
        let sleeps = self.rounds.saturating_sub(FOR_PRODUCERS.spins + FOR_PRODUCERS.yields);
        shortest.saturating_mul(1 << (sleeps / 8).min(16)).min(Duration::from_millis(5))
    }

    /// Passes the time for a moment and says so, or says that it is time to sleep.
    pub(super) fn pause(&mut self, is_in_flight: bool) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        let pace = if is_in_flight { self.for_device() } else { FOR_PRODUCERS };
        if self.rounds <= pace.spins {
            (0..pace.hints).for_each(|_| std::hint::spin_loop());
            if is_in_flight {
                self.for_device = ForDevice::Spinning;
            }
        } else if self.rounds <= pace.spins + pace.yields {
            std::thread::yield_now();
        } else {
            if is_in_flight {
                self.for_device = ForDevice::SpunInVain;
            }
            return false;
        }
        true
    }

    fn for_device(&self) -> Pace {
        let halved = if self.in_vain.is_multiple_of(IN_FULL_AGAIN) { 0 } else { self.in_vain.min(8) };
        Pace { spins: FOR_DEVICE.spins >> halved, ..FOR_DEVICE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds before the next sleep.
    fn rounds(idle: &mut Idle, is_in_flight: bool) -> u32 {
        (0..1000).find(|_| !idle.pause(is_in_flight)).unwrap()
    }

    fn spins(idle: &mut Idle) -> u32 {
        rounds(idle, true)
    }

    #[test]
    fn spinning_in_vain_is_halved_and_tried_again() {
        let mut idle = Idle::default();
        let mut seen = Vec::new();
        for _ in 0..2 * IN_FULL_AGAIN {
            seen.push(spins(&mut idle));
            assert!(!idle.pause(true), "once asleep it does not spin before something happens");
            idle.reset();
        }
        let full = FOR_DEVICE.spins;
        assert_eq!(seen[..5], [full, full / 2, full / 4, full / 8, full / 16]);
        assert_eq!(seen.iter().filter(|spins| **spins == full).count(), 2, "{seen:?}");

        assert!(idle.pause(true));
        idle.reset();
        assert_eq!(spins(&mut idle), full, "what came while it span makes up for all");
        idle.reset();
        assert_eq!(spins(&mut idle), full / 2);
    }

    #[test]
    fn for_producers_the_processor_is_given_away_before_a_sleep() {
        let mut idle = Idle::default();
        assert_eq!(rounds(&mut idle, false), FOR_PRODUCERS.spins + FOR_PRODUCERS.yields);
    }
}
