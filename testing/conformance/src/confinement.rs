//! Processes that may do less than this one: the only unsafe code of the suite that speaks to the kernel.
//!
//! The binary `confined` gives its rights up and becomes another program:
//! `confined [--deny EPERM|ENOSYS] [--calls all|register] [--memlock BYTES] [--nobody] COMMAND [ARG ...]`.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};

/// A user without any rights.
pub const NOBODY: u32 = 65534;

/// Which system calls of `io_uring` are denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// All three.
    All,
    /// `io_uring_register` alone: a ring can be made, and not used for much.
    Register,
}

/// The numbers are the same on every architecture.
const SETUP: u32 = 425;
const ENTER: u32 = 426;
const REGISTER: u32 = 427;

/// Makes the kernel answer system calls of `io_uring` with an error, in this process and what it becomes.
///
/// # Errors
///
/// The kernel's, if it has no such filters.
pub fn deny_uring(calls: Calls, errno: u16) -> io::Result<()> {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let denied: &[u32] = match calls {
        Calls::All => &[SETUP, ENTER, REGISTER],
        Calls::Register => &[REGISTER],
    };
    // The number of the call is the first word of what the filter sees.
    let mut filter = vec![instruction(LOAD_WORD, 0, 0, 0)];
    for (position, &call) in (0_u8..).zip(denied) {
        let to_the_last = u8::try_from(denied.len()).unwrap() - position;
        filter.push(instruction(JUMP_IF_EQUAL, to_the_last, 0, call));
    }
    filter.push(instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    filter.push(instruction(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | u32::from(errno)));
    let program = libc::sock_fprog { len: u16::try_from(filter.len()).unwrap(), filter: filter.as_mut_ptr() };

    // SAFETY: this option takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: the program and its instructions are there during the call, and as many as it says.
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) })
}

/// Gives `SIGPIPE` its default again, which ends the process. Rust's runtime ignores it; other hosts do not.
///
/// # Errors
///
/// The kernel's; there are none in practice.
pub fn restore_sigpipe() -> io::Result<()> {
    // SAFETY: the default action is no function of ours.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the binary `confined` does.
///
/// # Errors
///
/// What the arguments lack, or why a right could not be given up. It does not return otherwise.
pub fn become_confined(arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let mut arguments = arguments.peekable();
    let (mut deny, mut calls, mut is_nobody) = (None, Calls::All, false);
    while arguments.peek().is_some_and(|argument| argument.starts_with("--")) {
        let option = arguments.next().unwrap_or_default();
        let mut value = || arguments.next().ok_or(format!("{option} wants a value"));
        match option.as_str() {
            "--deny" => {
                deny = Some(match value()?.as_str() {
                    "EPERM" => libc::EPERM,
                    "ENOSYS" => libc::ENOSYS,
                    other => return Err(format!("--deny EPERM or ENOSYS, not {other}")),
                });
            }
            "--calls" => {
                calls = match value()?.as_str() {
                    "all" => Calls::All,
                    "register" => Calls::Register,
                    other => return Err(format!("--calls all or register, not {other}")),
                }
            }
            "--memlock" => {
                let bytes = value()?.parse().map_err(|error| format!("--memlock: {error}"))?;
                let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
                setrlimit(Resource::Memlock, limit).map_err(|error| format!("--memlock: {error}"))?;
            }
            "--nobody" => is_nobody = true,
            other => return Err(format!("no such option: {other}")),
        }
    }
    let program = arguments.next().ok_or("no command")?;
    let mut command = Command::new(&program);
    command.args(arguments);
    if is_nobody {
        command.uid(NOBODY).gid(NOBODY);
    }
    if let Some(errno) = deny {
        let errno = u16::try_from(errno).map_err(|error| error.to_string())?;
        deny_uring(calls, errno).map_err(|error| format!("the filter: {error}"))?;
    }
    Err(format!("{program}: {}", command.exec()))
}
