//! An end for tests that could wait for ever.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this")]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The end of every wait in these tests: far beyond what a busy machine needs.
pub const LIMIT: Duration = Duration::from_mins(1);

/// What `work` returns, run on a thread of its own so that the test ends even if it hangs.
pub fn within_limit<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(work()));
    match receiver.recv_timeout(LIMIT) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("still waiting after {LIMIT:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it ended without a result"))
        }
    }
}
