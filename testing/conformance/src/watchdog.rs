//! An end for tests that would have none.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// No test of the suite takes a tenth of it on a busy machine.
pub const LIMIT: Duration = Duration::from_mins(2);

/// Runs a test on a thread of its own. It fails if the test does, or has not ended within [`LIMIT`]; the thread is then
/// left behind, as it hangs.
pub fn watch(name: &str, test: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = channel();
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(move || sender.send(catch_unwind(AssertUnwindSafe(test)))).unwrap();
    match receiver.recv_timeout(LIMIT) {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => resume_unwind(panic),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            panic!("{name} has not ended within {LIMIT:?}")
        }
    }
}

/// How long the suite waits for one thing: less than [`LIMIT`], so that it can say what did not come.
pub const PATIENCE: Duration = Duration::from_secs(50);

/// Waits until something holds, at most for [`PATIENCE`]; says whether it does.
pub fn until(mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Runs a child process to its end, and ends it after [`PATIENCE`]. Its output must fit into a pipe.
pub fn output(command: &mut Command) -> Output {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    if !until(|| ended(&mut child).is_some()) {
        child.kill().unwrap();
        child.wait().unwrap();
        panic!("{command:?} has not ended within {PATIENCE:?}");
    }
    child.wait_with_output().unwrap()
}

fn ended(child: &mut Child) -> Option<ExitStatus> {
    child.try_wait().unwrap()
}
