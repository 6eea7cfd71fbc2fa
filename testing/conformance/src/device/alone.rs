//! Cases that need a process of their own.

use std::process::{Command, ExitStatus};

use super::subject::Run;
use crate::watchdog;

/// Set in the child process.
const ALONE: &str = "TRANSLOAD_TEST_ALONE";

/// Whether this is the process in which the case runs alone.
pub(super) fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Runs the case alone, in a child process: how that ended, and all that it said.
pub(super) fn run_alone(run: &Run) -> (ExitStatus, String) {
    let name = run.test().split_once("::").map_or(run.test(), |(_, name)| name);
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([name, "--exact", "--quiet", "--test-threads=1"]).env(ALONE, "1");
    watchdog::long_output(&mut child)
}
