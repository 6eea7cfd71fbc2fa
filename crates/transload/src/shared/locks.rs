//! Who is alive: one byte for each member and role, beyond the end of the file, locked for as long as its process lives.
//!
//! The locks are those of an open file description (`F_OFD_SETLK`). The kernel takes them back when the last descriptor
//! of it is closed, and that is when its process has ended, however it ended, unless a forked child still has it: so a
//! lock may be held by the dead for a while, and never is free while its owner lives. POSIX locks would be lost as soon as
//! anybody in the process closes any descriptor of the file.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use crate::fork::ForkStamp;

/// Where the bytes begin: where no file ends.
const FIRST: libc::off_t = 1 << 40;
/// How many bytes have a meaning.
const COUNT: libc::off_t = 8192;

/// What can be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Byte {
    /// The right to take messages from the ring.
    Consumer,
    /// The duty to hand the region to who asks for it by its name.
    Serving,
    /// Being the member of this number.
    Member(u16),
}

impl Byte {
    fn offset(self) -> libc::off_t {
        FIRST
            + match self {
                Byte::Consumer => 0,
                Byte::Member(number) => libc::off_t::from(number),
                Byte::Serving => 4096,
            }
    }
}

/// The locks of one attach. They end with it.
///
/// To the kernel, one description does not exclude itself: what it has locked it can lock again, and unlock once for all.
/// So an attach notes what it has.
#[derive(Debug)]
pub(super) struct Locks {
    file: OwnedFd,
    mine: Mutex<Vec<Byte>>,
    stamp: ForkStamp,
}

impl Locks {
    /// Takes a descriptor whose description nobody else has.
    pub(super) fn new(file: OwnedFd) -> io::Result<Locks> {
        Ok(Locks { file, mine: Mutex::default(), stamp: ForkStamp::here()? })
    }

    /// Locks a byte; false if somebody has it, this attach included.
    pub(super) fn try_lock(&self, byte: Byte) -> io::Result<bool> {
        let mut mine = self.mine();
        if mine.contains(&byte) {
            return Ok(false);
        }
        let mut lock = description(libc::F_WRLCK, byte.offset(), 1);
        match self.call(libc::F_OFD_SETLK, &mut lock) {
            Ok(()) => {
                mine.push(byte);
                Ok(true)
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives a byte back. In a forked child nothing is done: the lock is the parent's, by the same description.
    pub(super) fn unlock(&self, byte: Byte) -> io::Result<()> {
        if !self.stamp.is_here() {
            return Ok(());
        }
        let mut mine = self.mine();
        self.call(libc::F_OFD_SETLK, &mut description(libc::F_UNLCK, byte.offset(), 1))?;
        mine.retain(|&other| other != byte);
        Ok(())
    }

    /// Whether somebody has a byte, this attach included.
    pub(super) fn is_held(&self, byte: Byte) -> io::Result<bool> {
        Ok(self.mine().contains(&byte) || self.is_any_held(byte.offset(), 1)?)
    }

    fn mine(&self) -> MutexGuard<'_, Vec<Byte>> {
        self.mine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody else has any byte at all.
    pub(super) fn is_alive(&self) -> io::Result<bool> {
        self.is_any_held(FIRST, COUNT)
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn is_any_held(&self, first: libc::off_t, count: libc::off_t) -> io::Result<bool> {
        let mut lock = description(libc::F_WRLCK, first, count);
        self.call(libc::F_OFD_GETLK, &mut lock)?;
        Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK)
    }

    fn call(&self, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
        // SAFETY: these commands read one `flock`, and F_OFD_GETLK writes it.
        let result = unsafe { libc::fcntl(self.file.as_raw_fd(), command, std::ptr::from_mut(lock)) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Locks {
    /// A child of a fork may have the description too, and would keep the locks.
    fn drop(&mut self) {
        if self.stamp.is_here() {
            let _ = self.call(libc::F_OFD_SETLK, &mut description(libc::F_UNLCK, FIRST, COUNT));
        }
    }
}

fn description(kind: libc::c_int, first: libc::off_t, count: libc::off_t) -> libc::flock {
    // SAFETY: a plain struct of integers, of which some systems have more than others.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = first;
    lock.l_len = count;
    lock
}

/// Opens the file of a descriptor anew, for a description with locks of its own.
pub(super) fn reopen(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let again = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let (one, other) = (rustix::fs::fstat(file)?, rustix::fs::fstat(&again)?);
    // What is mounted there need not be this process's.
    if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino) {
        Ok(again)
    } else {
        Err(Errno::NOENT.into())
    }
}

/// A description for one attach: a new one, or, where that cannot be, the one that there is.
///
/// Another user may not open the file, and there may be no `/proc`. Then the descriptor must be a fresh one, as
/// [`SharedRegion::file_for_peer`](super::SharedRegion::file_for_peer) makes them.
pub(super) fn reopen_or_take(file: OwnedFd) -> io::Result<OwnedFd> {
    match reopen(file.as_fd()) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::ENOENT)) => {
            Ok(file)
        }
        other => other,
    }
}
