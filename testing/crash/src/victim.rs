//! The helper program, and as which user it runs.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Names the program to those that run where the one that was built cannot be read.
pub const VARIABLE: &str = "TRANSLOAD_VICTIM";

/// The program that is killed.
#[derive(Clone, Debug)]
pub struct Victim {
    program: PathBuf,
    user: Option<u32>,
}

impl Victim {
    /// The program that was built for a test, or the one that [`VARIABLE`] names.
    pub fn new(built: &str) -> Victim {
        Victim { program: std::env::var_os(VARIABLE).map_or(built.into(), PathBuf::from), user: None }
    }

    /// Another copy of it, as another user. Only root may start that.
    pub fn of_user(program: PathBuf, user: u32) -> Victim {
        Victim { program, user: Some(user) }
    }

    /// Starts it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }
}
