//! Sleeping until a producer of any lane has published something.

use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Timespec, WaitFlags, WaitPtr, WaitvFlags};
use rustix::time::{ClockId, clock_gettime};
use transload_core::FutexWord;

use super::super::wait;

/// The most words that the kernel lets one thread sleep on (`FUTEX_WAITV_MAX`).
const MOST: usize = 128;
/// The longest sleep if the kernel cannot watch all words.
const SHORT: Duration = Duration::from_millis(1);

/// A word to sleep on, while it has a value.
#[derive(Debug)]
pub(super) struct Sleep<'a> {
    pub(super) word: &'a FutexWord,
    pub(super) value: u32,
}

/// Sleeps until somebody wakes those who sleep on one of the words, or a moment has passed.
pub(super) fn sleep(on: &[Sleep<'_>], left: Option<Duration>) {
    let time = wait::nap(left);
    match on {
        [] => std::thread::sleep(time),
        [one] => {
            wait::sleep(one.word, one.value, time);
        }
        [first, ..] if on.len() > MOST || !sleep_on_all(on, time) => {
            // Before Linux 5.16, where a filter of system calls refuses it (some with EPERM), or for too many lanes.
            wait::sleep(first.word, first.value, time.min(SHORT));
        }
        _ => {}
    }
}

/// Whether the kernel has watched all words.
fn sleep_on_all(on: &[Sleep<'_>], time: Duration) -> bool {
    let words: Vec<futex::Wait> = on
        .iter()
        .map(|sleep| {
            let mut word = futex::Wait::new();
            word.val = sleep.value.into();
            word.uaddr = WaitPtr::new(std::ptr::from_ref(sleep.word.as_atomic()).cast_mut().cast());
            // Not private: others map the word elsewhere.
            word.flags = WaitFlags::SIZE_U32;
            word
        })
        .collect();
    let now = clock_gettime(ClockId::Monotonic);
    let nanoseconds = now.tv_nsec + i64::from(time.subsec_nanos());
    let until =
        Timespec { tv_sec: now.tv_sec + nanoseconds / 1_000_000_000, tv_nsec: nanoseconds % 1_000_000_000 };
    let slept = futex::waitv(&words, WaitvFlags::empty(), Some(&until), ClockId::Monotonic);
    // Woken, woken before, interrupted, or over: the caller looks again in any case.
    matches!(slept, Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT))
}
