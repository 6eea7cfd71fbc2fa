//! A process that is run one instruction at a time: the only code of the suite that speaks to `ptrace`.

use std::io;
use std::process::Command;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// No child takes a tenth of it to come to its mark.
const PATIENCE: Duration = Duration::from_secs(30);

/// A child that is stopped, or has ended. Killed and reaped when it is dropped.
#[derive(Debug)]
pub struct Tracee {
    /// The thread that is stepped: of most, the only one.
    pid: libc::pid_t,
    process: libc::pid_t,
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

/// Called in the child: from now on its parent may step this thread.
///
/// # Errors
///
/// The kernel's: somebody traces it already.
pub fn let_parent_trace() -> io::Result<()> {
    // SAFETY: this request has no arguments that are read or written.
    let answer = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// From now on the children of this thread have the same memory at the same addresses, each time.
///
/// # Errors
///
/// The kernel's.
pub fn place_children_alike() -> io::Result<()> {
    const ASK: libc::c_ulong = 0xffff_ffff;
    // SAFETY: takes a number only; this one changes nothing.
    let before = unsafe { libc::personality(ASK) };
    let wanted = libc::c_ulong::from(before.unsigned_abs()) | libc::ADDR_NO_RANDOMIZE as libc::c_ulong;
    // SAFETY: as above. What has been mapped stays where it is.
    if unsafe { libc::personality(wanted) } >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Called in the child: stops this thread, until its tracer lets it run on. Some system calls and nothing else.
pub fn mark() {
    // SAFETY: takes nothing.
    let (process, thread) = (unsafe { libc::getpid() }, unsafe { libc::gettid() });
    // SAFETY: takes numbers only.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGSTOP) };
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
        Tracee { pid, process: pid, is_over: false }.begin()
    }

    /// Starts a child whose second thread calls [`let_parent_trace`] and comes to a [`mark`], which something `leads` to;
    /// the first one runs on.
    ///
    /// # Errors
    ///
    /// As [`start`](Tracee::start).
    pub fn start_second_thread(command: &mut Command, leads: impl FnOnce()) -> io::Result<Tracee> {
        let child = command.spawn()?;
        let process = child.id().try_into().map_err(io::Error::other)?;
        let mut tracee = Tracee { pid: process, process, is_over: false };
        leads();
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let threads = std::fs::read_dir(format!("/proc/{process}/task"))?.filter_map(Result::ok);
            let numbers = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
            for thread in numbers.filter(|&thread: &libc::pid_t| thread != process) {
                let mut status = 0;
                // SAFETY: writes one integer. Before the thread may be stepped, it is nobody to wait for.
                if unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL | libc::WNOHANG) } == thread {
                    tracee.pid = thread;
                    return tracee.set_options();
                }
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Err(io::Error::other(format!("{command:?} has no second thread that stops")))
    }

    fn begin(mut self) -> io::Result<Tracee> {
        match self.wait()? {
            Stop::Mark => self.set_options(),
            other => Err(io::Error::other(format!("a child is to stop, not to {other:?}"))),
        }
    }

    fn set_options(mut self) -> io::Result<Tracee> {
        self.request(libc::PTRACE_SETOPTIONS, 0, libc::PTRACE_O_EXITKILL.into())?;
        Ok(self)
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.process.unsigned_abs()
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

    /// Lets it run until it is about to execute the instruction at this address, for the first time from here on.
    ///
    /// # Errors
    ///
    /// The kernel's, or how the child came to stop elsewhere.
    pub fn run_to(&mut self, address: u64) -> io::Result<()> {
        /// `int3`: stops behind itself.
        const BREAKPOINT: libc::c_long = 0xcc;
        let before = self.peek(address)?;
        self.request(libc::PTRACE_POKETEXT, address, before & !0xff | BREAKPOINT)?;
        let stop = self.run_on()?;
        let mut registers = self.registers()?;
        if stop != Stop::Step || registers.rip != address + 1 {
            return Err(io::Error::other(format!("{stop:?} at {:x}, not at {address:x}", registers.rip)));
        }
        self.request(libc::PTRACE_POKETEXT, address, before)?;
        registers.rip = address;
        // SAFETY: reads the registers, of a child of ours that is stopped.
        let answer = unsafe {
            libc::ptrace(
                libc::PTRACE_SETREGS,
                self.pid,
                null_mut::<u8>(),
                (&raw const registers).cast::<u8>(),
            )
        };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Where its next instruction is.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn address(&self) -> io::Result<u64> {
        Ok(self.registers()?.rip)
    }

    fn registers(&self) -> io::Result<libc::user_regs_struct> {
        let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::uninit();
        // SAFETY: writes the registers, of a child of ours that is stopped.
        let answer =
            unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.pid, null_mut::<u8>(), registers.as_mut_ptr()) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has written them.
        Ok(unsafe { registers.assume_init() })
    }

    /// The eight bytes at an address of the child's.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn peek(&self, address: u64) -> io::Result<libc::c_long> {
        let mut word: libc::c_long = 0;
        let request = libc::c_long::from(libc::PTRACE_PEEKTEXT);
        // By the call itself, which writes the word: the library's wrapper gives it back in the place of an error.
        // SAFETY: writes one word of ours; the address is one of the child's, where the kernel checks it.
        let answer = unsafe { libc::syscall(libc::SYS_ptrace, request, self.pid, address, &raw mut word) };
        if answer == 0 { Ok(word) } else { Err(io::Error::last_os_error()) }
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
            if unsafe { libc::kill(self.process, libc::SIGKILL) } != 0 {
                return Err(io::Error::last_os_error());
            }
            self.wait()?;
            if self.is_over && self.pid != self.process {
                // Its thread is gone, and so is the rest of it.
                self.pid = self.process;
                self.wait()?;
            }
        }
        Ok(())
    }

    fn run(&mut self, request: libc::c_uint) -> io::Result<Stop> {
        self.request(request, 0, 0)?;
        self.wait()
    }

    fn request(&mut self, request: libc::c_uint, address: u64, data: libc::c_long) -> io::Result<()> {
        // The address is one of the child's, where the kernel checks it; the data a number.
        let (address, data) = (address as *mut u8, data as *mut u8);
        // SAFETY: the requests that this module makes by this read and write nothing of ours, and concern a child of ours
        // that is stopped.
        let answer = unsafe { libc::ptrace(request, self.pid, address, data) };
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
