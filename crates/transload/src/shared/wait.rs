//! Sleeping until another process has done something.

use std::time::{Duration, Instant};

use rustix::thread::futex;
use transload_core::{FutexWord, Sleeper, SwapBarrier};

use super::member::Parts;

/// How often a waiter looks before it gives its processor away, and how often it does that before it sleeps.
const SPINS: u32 = 100;
const YIELDS: u32 = 16;

/// The longest sleep: whoever was to wake us may have died between its change and the call.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// Waits until `look` finds something, for at most until `deadline`. `idle` is called now and then: somebody may have
/// died.
pub(super) fn wait<T>(
    word: &FutexWord,
    deadline: Option<Instant>,
    mut look: impl FnMut() -> Option<T>,
    mut idle: impl FnMut(),
) -> Option<T> {
    if let Some(found) = spin(&mut look) {
        return Some(found);
    }
    let mut idle_since = Instant::now();
    loop {
        let left = left(deadline);
        if left == Some(Duration::ZERO) {
            return look();
        }
        word.announce(&SwapBarrier);
        if let Some(found) = look() {
            return Some(found);
        }
        let is_woken = sleep(word, 1, nap(left));
        // Whoever is woken again and again, for others or for nothing, looks as often as who is not.
        if !is_woken || idle_since.elapsed() >= LONGEST_SLEEP {
            idle();
            idle_since = Instant::now();
        }
        if let Some(found) = look() {
            return Some(found);
        }
    }
}

/// Looks for a moment, without a sleep.
pub(super) fn spin<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    for spin in 0..SPINS + YIELDS {
        if let Some(found) = look() {
            return Some(found);
        }
        if spin < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
    None
}

/// How much time there is; none if there is no end.
pub(super) fn left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}

/// How long one sleep may be when there is so much time.
pub(super) fn nap(left: Option<Duration>) -> Duration {
    left.map_or(LONGEST_SLEEP, |left| left.min(LONGEST_SLEEP))
}

/// Sleeps until somebody wakes those who sleep on the word, while it has this value; says whether somebody did.
pub(super) fn sleep(word: &FutexWord, value: u32, time: Duration) -> bool {
    let time = futex::Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    // Not private: others map the word elsewhere. Interrupted, or woken before: the caller looks again in any case.
    futex::wait(word.as_atomic(), futex::Flags::empty(), value, Some(&time))
        != Err(rustix::io::Errno::TIMEDOUT)
}

/// Wakes all who sleep on the word, in all processes.
#[cold]
pub(super) fn wake_all(word: &FutexWord) {
    // It fails for a word that is not mapped only.
    let _ = futex::wake(word.as_atomic(), futex::Flags::empty(), i32::MAX.unsigned_abs());
}

/// Wakes everybody, after a recovery.
pub(super) fn wake_everybody(parts: &Parts) {
    for sleeper in [Sleeper::Consumer, Sleeper::Room] {
        wake_all(parts.sleeper(sleeper));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_woken_for_nothing_looks_for_the_dead_all_the_same() {
        let word = FutexWord::new(0);
        let mut idles = 0;
        let deadline = Instant::now() + 10 * LONGEST_SLEEP;
        // Somebody takes the announcement back each time, so that no sleep begins.
        let look = || {
            word.take_announcement();
            None::<()>
        };
        assert_eq!(wait(&word, Some(deadline), look, || idles += 1), None);
        assert!(idles > 0);
    }
}
