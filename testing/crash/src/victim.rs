//! The helper program, and as which user it runs.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::campaign::actor::{Role, act};
use crate::handing::Handing;
use crate::holder::hold;
use crate::inherit::inherited;
use crate::operation::{Operation, perform};
use crate::trace::let_parent_trace;

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

/// What the program does; gives its exit code.
///
/// # Errors
///
/// What its arguments lack, or what it saw that must not be.
pub fn run(mut arguments: impl Iterator<Item = String>) -> Result<i32, String> {
    let first = arguments.next().ok_or("nothing to do")?;
    if first == "campaign" {
        let role = arguments.next().as_deref().and_then(Role::of).ok_or("no such role")?;
        let mut number =
            || arguments.next().and_then(|number| number.parse().ok()).ok_or("a number is missing");
        let numbers = [number()?, number()?, number()?];
        return act(role, numbers, inherited(arguments.next())?, inherited(arguments.next())?).map(|()| 0);
    }
    if first == "handing" {
        let handing = arguments.next().as_deref().and_then(Handing::of).ok_or("no such part")?;
        return handing.act(&arguments.next().ok_or("a name is missing")?).map(|()| 0);
    }
    if first == "hold" || first == "hold-and-fork" {
        return hold(inherited(arguments.next())?, first == "hold-and-fork").map(|()| 0);
    }
    let operation = Operation::of(&first).ok_or("no such operation")?;
    let file = inherited(arguments.next())?;
    let_parent_trace().map_err(|error| error.to_string())?;
    Ok(perform(operation, file))
}
