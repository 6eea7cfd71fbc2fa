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

use super::error::SharedError;
use crate::fork::{ForkStamp, ForkedChild};

/// Where the bytes begin: where no file ends.
const FIRST: libc::off_t = 1 << 40;
/// How many bytes have a meaning.
const COUNT: libc::off_t = 8192;
/// Locked for reading by every attach, and for writing by who makes the region or takes a dead one's place.
const ATTACHED: libc::off_t = FIRST + COUNT - 1;
/// Locked by who takes the file's name away.
const NAME: libc::off_t = FIRST + COUNT - 2;

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
    /// The locks of one more attach; `None` while somebody makes the region, or takes its place.
    ///
    /// Takes a descriptor whose description nobody else has.
    pub(super) fn attach(file: OwnedFd) -> Result<Option<Locks>, SharedError> {
        Locks::first(file, libc::F_RDLCK)
    }

    /// The locks of who makes the region anew, alone until [`settle`](Locks::settle); `None` while anybody is attached.
    ///
    /// Takes a descriptor whose description nobody else has.
    pub(super) fn make(file: OwnedFd) -> Result<Option<Locks>, SharedError> {
        Locks::first(file, libc::F_WRLCK)
    }

    fn first(file: OwnedFd, kind: libc::c_int) -> Result<Option<Locks>, SharedError> {
        let stamp = ForkStamp::here().map_err(SharedError::os("madvise(MADV_WIPEONFORK)"))?;
        let locks = Locks { file, mine: Mutex::default(), stamp };
        let is_first = locks.set(kind, ATTACHED).map_err(SharedError::os("fcntl(F_OFD_SETLK)"))?;
        Ok(is_first.then_some(locks))
    }

    /// Lets others attach.
    pub(super) fn settle(&self) -> Result<(), SharedError> {
        self.set(libc::F_RDLCK, ATTACHED).map_err(SharedError::os("fcntl(F_OFD_SETLK)"))?;
        Ok(())
    }

    /// Gets the right to take the file's name away, until the end of these locks; false while somebody else has it.
    pub(super) fn claim_name(&self) -> io::Result<bool> {
        self.set(libc::F_WRLCK, NAME)
    }

    /// Locks a byte; false if somebody has it, this attach included.
    pub(super) fn try_lock(&self, byte: Byte) -> io::Result<bool> {
        let mut mine = self.mine();
        // What it has already, the kernel would give it again.
        let locked = !mine.contains(&byte) && self.set(libc::F_WRLCK, byte.offset())?;
        if locked {
            mine.push(byte);
        }
        Ok(locked)
    }

    /// Gives a byte back. In a forked child nothing is done: the lock is the parent's, by the same description.
    pub(super) fn unlock(&self, byte: Byte) -> io::Result<()> {
        if self.check_process().is_ok() {
            let mut mine = self.mine();
            self.set(libc::F_UNLCK, byte.offset())?;
            mine.retain(|&other| other != byte);
        }
        Ok(())
    }

    /// Whether somebody has a byte, this attach included.
    pub(super) fn is_held(&self, byte: Byte) -> io::Result<bool> {
        if self.mine().contains(&byte) {
            return Ok(true);
        }
        is_locked_by_another(self.file.as_fd(), byte)
    }

    fn mine(&self) -> MutexGuard<'_, Vec<Byte>> {
        self.mine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the process that attached.
    #[inline]
    pub(super) fn check_process(&self) -> Result<(), ForkedChild> {
        self.stamp.check()
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn set(&self, kind: libc::c_int, offset: libc::off_t) -> io::Result<bool> {
        match self.call(libc::F_OFD_SETLK, &mut description(kind, offset, 1)) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn call(&self, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
        call(self.file.as_fd(), command, lock)
    }
}

/// Whether a byte is locked by another description than this one.
pub(super) fn is_locked_by_another(file: BorrowedFd<'_>, byte: Byte) -> io::Result<bool> {
    let mut lock = description(libc::F_WRLCK, byte.offset(), 1);
    call(file, libc::F_OFD_GETLK, &mut lock)?;
    Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK)
}

fn call(file: BorrowedFd<'_>, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: these commands read one `flock`, and F_OFD_GETLK writes it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
    reopen_as(file, OFlags::RDWR)
}

/// As [`reopen`], for reading, writing or both.
pub(super) fn reopen_as(file: BorrowedFd<'_>, access: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let again = rustix::fs::open(path, access | OFlags::CLOEXEC, Mode::empty())?;
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
pub(super) fn reopen_or_take(file: OwnedFd) -> Result<OwnedFd, SharedError> {
    match reopen(file.as_fd()) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::ENOENT)) => {
            Ok(file)
        }
        other => other.map_err(SharedError::os("open(/proc/self/fd)")),
    }
}
