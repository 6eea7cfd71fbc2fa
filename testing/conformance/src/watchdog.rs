//! An end for tests that would have none.

use std::io::{Read, Seek};
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
    let child = piped.spawn().unwrap();
    bounded(child, command, PATIENCE).wait_with_output().unwrap()
}

/// Runs a child process that runs tests to its end, and ends it after [`LIMIT`]. Gives all that it says, of any length.
pub fn long_output(command: &mut Command) -> (ExitStatus, String) {
    let mut file = tempfile::tempfile().unwrap();
    let said = command.stdin(Stdio::null()).stdout(file.try_clone().unwrap());
    let child = said.stderr(file.try_clone().unwrap()).spawn().unwrap();
    let status = bounded(child, command, LIMIT).wait().unwrap();
    file.rewind().unwrap();
    let mut text = Vec::new();
    file.read_to_end(&mut text).unwrap();
    (status, String::from_utf8_lossy(&text).into_owned())
}

/// The child, which has ended.
fn bounded(mut child: Child, command: &Command, limit: Duration) -> Child {
    let end = Instant::now() + limit;
    while ended(&mut child).is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{command:?} has not ended within {limit:?}");
        }
        thread::sleep(Duration::from_millis(1));
    }
    child
}

fn ended(child: &mut Child) -> Option<ExitStatus> {
    child.try_wait().unwrap()
}
