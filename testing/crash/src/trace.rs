//! A process that is run one instruction at a time: the only code of the suite that speaks to `ptrace`.

use std::io;
use std::process::Command;
use std::ptr::null_mut;

/// A child that is stopped, or has ended. Killed and reaped when it is dropped.
#[derive(Debug)]
pub struct Tracee {
    pid: libc::pid_t,
    is_over: bool,
}

/// How a child stands after it has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It has executed an instruction, or is about to begin or end a system call.
    Step,
    /// It has come to a [`mark`].
    Mark,
    /// It has exited with this code.
    Exit(i32),
    /// A signal has ended it.
    Killed(i32),
}

/// Called in the child: from now on its parent may step it.
///
/// # Errors
///
/// The kernel's: somebody traces it already.
pub fn let_parent_trace() -> io::Result<()> {
    // SAFETY: this request has no arguments that are read or written.
    let answer = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Called in the child: stops it, until its tracer lets it run on. Two system calls and nothing else.
pub fn mark() {
    // SAFETY: takes nothing.
    let own = unsafe { libc::getpid() };
    // SAFETY: takes numbers only.
    unsafe { libc::kill(own, libc::SIGSTOP) };
}

impl Tracee {
    /// Starts a child that calls [`let_parent_trace`] and comes to a [`mark`].
    ///
    /// All calls for it are to be made on this thread: the kernel takes a thread for the tracer, not a process.
    ///
    /// # Errors
    ///
    /// The kernel's, or how the child ended instead.
    pub fn start(command: &mut Command) -> io::Result<Tracee> {
        let child = command.spawn()?;
        let pid = child.id().try_into().map_err(io::Error::other)?;
        let mut tracee = Tracee { pid, is_over: false };
        match tracee.wait()? {
            Stop::Mark => {}
            other => return Err(io::Error::other(format!("{command:?} is to stop, not to {other:?}"))),
        }
        tracee.request(libc::PTRACE_SETOPTIONS, libc::PTRACE_O_EXITKILL)?;
        Ok(tracee)
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Lets it execute one instruction.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn step(&mut self) -> io::Result<Stop> {
        self.run(libc::PTRACE_SINGLESTEP)
    }

    /// Lets it run to where the next system call begins or ends.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn run_to_call(&mut self) -> io::Result<Stop> {
        self.run(libc::PTRACE_SYSCALL)
    }

    /// Lets it run on.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn run_on(&mut self) -> io::Result<Stop> {
        self.run(libc::PTRACE_CONT)
    }

    /// Executes so many instructions; says how many it was until a mark or its end, if that came before.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn steps(&mut self, count: u64) -> io::Result<(u64, Stop)> {
        for done in 1..=count {
            match self.step()? {
                Stop::Step => {}
                other => return Ok((done, other)),
            }
        }
        Ok((count, Stop::Step))
    }

    /// Kills it, and waits until all that it had is closed.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn kill(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        while !self.is_over {
            // SAFETY: takes numbers only; the child is not reaped, so the number is its own.
            if unsafe { libc::kill(self.pid, libc::SIGKILL) } != 0 {
                return Err(io::Error::last_os_error());
            }
            self.wait()?;
        }
        Ok(())
    }

    fn run(&mut self, request: libc::c_uint) -> io::Result<Stop> {
        self.request(request, 0)?;
        self.wait()
    }

    fn request(&mut self, request: libc::c_uint, data: libc::c_int) -> io::Result<()> {
        // Reads nothing of ours: the address is unused, the data a number.
        let data = data as usize as *mut u8;
        // SAFETY: the requests that this module makes take numbers only, and concern a child of ours that is stopped.
        let answer = unsafe { libc::ptrace(request, self.pid, null_mut::<u8>(), data) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn wait(&mut self) -> io::Result<Stop> {
        let mut status = 0;
        loop {
            // SAFETY: writes one integer.
            let answer = unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) };
            if answer == self.pid {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        self.is_over = libc::WIFEXITED(status) || libc::WIFSIGNALED(status);
        Ok(match status {
            _ if libc::WIFEXITED(status) => Stop::Exit(libc::WEXITSTATUS(status)),
            _ if libc::WIFSIGNALED(status) => Stop::Killed(libc::WTERMSIG(status)),
            _ => match libc::WSTOPSIG(status) & 0x7f {
                libc::SIGTRAP => Stop::Step,
                libc::SIGSTOP => Stop::Mark,
                other => return Err(io::Error::other(format!("the child got signal {other}"))),
            },
        })
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        // There is nobody left to tell.
        let _ = self.end();
    }
}
