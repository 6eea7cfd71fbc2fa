//! What the tests of the staging ring share: bounded waits, and futures that are polled by hand.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses its part of this")]

#[path = "../limit/mod.rs"]
mod limit;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

pub use limit::{LIMIT, within_limit};
use transload::staging::{Consumer, DequeueError, PinnedStagingBuffer, Producer};

/// When a stress ends though it is not done. On an idle machine it is done long before; on one that is so busy that each
/// hand-over takes a turn of the scheduler, fewer rounds have to do.
pub fn stress_end() -> Instant {
    Instant::now() + Duration::from_secs(6)
}

/// A ring that must come about.
pub fn ring(capacity: usize, message_size: usize) -> (Producer, Consumer) {
    PinnedStagingBuffer::new(capacity, message_size).expect("a small ring can be made").split()
}

/// Yields until it is true.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < end, "waited {LIMIT:?} for {what}");
        thread::yield_now();
    }
}

/// Counts the wake-ups of a task.
#[derive(Default)]
pub struct Signal {
    woken: Mutex<usize>,
    changed: Condvar,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().expect("nobody panics inside") += 1;
        self.changed.notify_all();
    }
}

impl Signal {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn count(&self) -> usize {
        *self.woken.lock().expect("nobody panics inside")
    }

    /// Polls once, to be woken through this signal.
    pub fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(&Waker::from(self.clone())))
    }

    /// Whether there have been more than `seen` wake-ups before the limit.
    fn wait(&self, seen: usize) -> bool {
        let woken = self.woken.lock().expect("nobody panics inside");
        let (woken, _) = self
            .changed
            .wait_timeout_while(woken, LIMIT, |woken| *woken == seen)
            .expect("nobody panics inside");
        *woken > seen
    }
}

/// Runs a future to its end: the smallest executor there can be. A lost wake-up is a failure, not a delay.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let (signal, mut future) = (Signal::new(), pin!(future));
    loop {
        let seen = signal.count();
        if let Poll::Ready(output) = signal.poll(future.as_mut()) {
            return output;
        }
        assert!(signal.wait(seen), "the future was not woken within {LIMIT:?}");
    }
}

/// Everything that is there, message by message.
pub fn drain(consumer: &mut Consumer) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    loop {
        match consumer.take(usize::MAX) {
            Ok(batch) => messages.extend(batch.iter().map(<[u8]>::to_vec)),
            Err(DequeueError::Empty | DequeueError::Closed) => return messages,
            Err(error) => panic!("{error}"),
        }
    }
}
