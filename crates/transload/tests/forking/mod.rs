//! A child process that runs a closure.

use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

/// Runs `child` in a fork, for at most 20 seconds; how it ended.
pub(crate) fn fork(child: impl FnOnce()) -> WaitStatus {
    // SAFETY: the child calls only `child`, which takes no lock that another thread may hold, and `_exit`.
    let id = unsafe { libc::fork() };
    if id == 0 {
        // SAFETY: sets a timer that ends this process.
        unsafe { libc::alarm(20) };
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).map_or(101, |()| 0);
        // SAFETY: ends this process without running what belongs to the parent.
        unsafe { libc::_exit(code) };
    }
    let id = Pid::from_raw(id).expect("fork");
    waitpid(Some(id), WaitOptions::empty()).expect("waitpid").expect("ended").1
}
