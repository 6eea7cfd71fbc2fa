//! A descriptor that one child gets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use rustix::io::FdFlags;

/// Held while a descriptor can be inherited: it is meant for one child.
static STARTING: Mutex<()> = Mutex::new(());

/// A descriptor that a child gets as its last argument, and its parent lets go of once it is started.
#[derive(Debug)]
pub struct Inherited(OwnedFd);

impl Inherited {
    /// Takes the descriptor over.
    pub fn new(file: OwnedFd) -> Self {
        Self(file)
    }

    /// Starts a child with the number of the descriptor as one more argument.
    ///
    /// # Errors
    ///
    /// Those of `start`.
    pub fn start<T>(
        self,
        command: &mut Command,
        start: impl FnOnce(&mut Command) -> io::Result<T>,
    ) -> io::Result<T> {
        let _only = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        rustix::io::fcntl_setfd(self.0.as_fd(), FdFlags::empty())?;
        command.arg(self.0.as_raw_fd().to_string());
        // Closed on return, before anybody else may start a child.
        start(command)
    }
}
