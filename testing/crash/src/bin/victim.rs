//! A member of a region that is stopped, stepped and killed: `victim OPERATION DESCRIPTOR`.

use std::os::fd::{FromRawFd, OwnedFd};
use std::process::ExitCode;

use transload_crash::operation::{Operation, perform};
use transload_crash::trace::let_parent_trace;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let operation = arguments.next().and_then(|name| Operation::of(&name)).expect("an operation");
    let number = arguments.next().and_then(|number| number.parse().ok()).expect("a descriptor");
    // SAFETY: whoever started this process left that descriptor to it, and nobody else in it knows it.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    let_parent_trace().expect("a parent that traces");
    let code = perform(operation, file);
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
