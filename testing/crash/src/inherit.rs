//! Descriptors that one child gets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use rustix::io::FdFlags;

/// Held while a descriptor can be inherited: it is meant for one child.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts a child with descriptors, whose numbers are its last arguments. They are closed here once it is started.
///
/// # Errors
///
/// Those of `start`.
pub fn start_with<T>(
    files: Vec<OwnedFd>,
    command: &mut Command,
    start: impl FnOnce(&mut Command) -> io::Result<T>,
) -> io::Result<T> {
    let only = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    for file in &files {
        rustix::io::fcntl_setfd(file.as_fd(), FdFlags::empty())?;
        command.arg(file.as_raw_fd().to_string());
    }
    let started = start(command);
    // Before anybody else may start a child.
    drop(files);
    drop(only);
    started
}

/// Called in the child, once for each: the descriptor that an argument names.
///
/// # Errors
///
/// If it names none.
pub fn inherited(argument: Option<String>) -> Result<OwnedFd, String> {
    let number =
        argument.as_deref().and_then(|number| number.parse().ok()).ok_or("a descriptor is missing")?;
    // SAFETY: whoever started this process left that descriptor to it, and nothing else in it knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
