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
use super::ofd::{self, Lock};
use crate::fork::{ForkStamp, ForkedChild};

/// Where the bytes begin: where no file ends.
const FIRST: i64 = 1 << 40;
/// How many bytes have a meaning.
const COUNT: i64 = 8192;
/// Locked for reading by every attach, and for writing by who makes the region or takes a dead one's place.
const ATTACHED: i64 = FIRST + COUNT - 1;
/// Locked by who takes the file's name away.
const NAME: i64 = FIRST + COUNT - 2;

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
    fn offset(self) -> i64 {
        FIRST
            + match self {
                Byte::Consumer => 0,
                Byte::Member(number) => i64::from(number),
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
        Locks::first(file, Lock::Shared)
    }

    /// The locks of who makes the region anew, alone until [`settle`](Locks::settle); `None` while anybody is attached.
    ///
    /// Takes a descriptor whose description nobody else has.
    pub(super) fn make(file: OwnedFd) -> Result<Option<Locks>, SharedError> {
        Locks::first(file, Lock::Alone)
    }

    fn first(file: OwnedFd, lock: Lock) -> Result<Option<Locks>, SharedError> {
        let stamp = ForkStamp::here().map_err(SharedError::os("madvise(MADV_WIPEONFORK)"))?;
        let locks = Locks { file, mine: Mutex::default(), stamp };
        let is_first = locks.set(lock, ATTACHED).map_err(SharedError::os("fcntl(F_OFD_SETLK)"))?;
        Ok(is_first.then_some(locks))
    }

    /// Lets others attach.
    pub(super) fn settle(&self) -> Result<(), SharedError> {
        self.set(Lock::Shared, ATTACHED).map_err(SharedError::os("fcntl(F_OFD_SETLK)"))?;
        Ok(())
    }

    /// Gets the right to take the file's name away, until the end of these locks; false while somebody else has it.
    pub(super) fn claim_name(&self) -> io::Result<bool> {
        self.set(Lock::Alone, NAME)
    }

    /// Locks a byte; false if somebody has it, this attach included, or if this is a forked child: it would be the parent
    /// who has the lock, by the same description.
    pub(super) fn try_lock(&self, byte: Byte) -> io::Result<bool> {
        if self.check_process().is_err() {
            return Ok(false);
        }
        let mut mine = self.mine();
        // What it has already, the kernel would give it again.
        let locked = !mine.contains(&byte) && self.set(Lock::Alone, byte.offset())?;
        if locked {
            mine.push(byte);
        }
        Ok(locked)
    }

    /// Gives a byte back. In a forked child nothing is done: the lock is the parent's, by the same description.
    pub(super) fn unlock(&self, byte: Byte) -> io::Result<()> {
        if self.check_process().is_ok() {
            let mut mine = self.mine();
            self.set(Lock::None, byte.offset())?;
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

    fn set(&self, lock: Lock, byte: i64) -> io::Result<bool> {
        ofd::set(self.file.as_fd(), lock, byte, 1)
    }
}

/// Whether a byte is locked by another description than this one.
pub(super) fn is_locked_by_another(file: BorrowedFd<'_>, byte: Byte) -> io::Result<bool> {
    ofd::is_locked(file, byte.offset())
}

impl Drop for Locks {
    /// A child of a fork may have the description too, and would keep the locks.
    fn drop(&mut self) {
        if self.stamp.is_here() {
            let _ = ofd::set(self.file.as_fd(), Lock::None, FIRST, COUNT);
        }
    }
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

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        time::{Duration, Instant},
    };

    use super::*;
    use crate::{fork::tests::in_child, shared::SharedRegion};
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

    fn pair() -> [SharedRegion; 2] {
        let one = SharedRegion::builder(1, 1).create().unwrap();
        let two = SharedRegion::open(one.file_for_peer().unwrap()).unwrap();
        [one, two]
    }

    #[test]
    fn two_attaches_exclude_each_other_and_one_itself() {
        let [one, two] = pair();
        for byte in [Byte::Consumer, Byte::Serving, Byte::Member(1), Byte::Member(1023)] {
            assert!(one.locks().try_lock(byte).unwrap());
            assert!(!one.locks().try_lock(byte).unwrap(), "by itself");
            assert!(one.locks().is_held(byte).unwrap() && two.locks().is_held(byte).unwrap());
            assert!(!two.locks().try_lock(byte).unwrap());
            one.locks().unlock(byte).unwrap();
            assert!(two.locks().try_lock(byte).unwrap());
            assert!(!two.locks().is_held(Byte::Member(2)).unwrap());
        }
        assert!(one.locks().is_held(Byte::Consumer).unwrap());
        drop(two);
        assert!(!one.locks().is_held(Byte::Consumer).unwrap());
    }

    /// POSIX locks would be gone.
    #[test]
    fn closing_another_descriptor_of_the_file_frees_nothing() {
        let [one, two] = pair();
        assert!(one.locks().try_lock(Byte::Consumer).unwrap());
        drop(one.file_for_peer().unwrap());
        drop(one.locks().file().try_clone_to_owned().unwrap());
        assert!(two.locks().is_held(Byte::Consumer).unwrap());
    }

    /// The registration keeps the mapping, and the mapping its description.
    #[test]
    fn a_region_that_is_dropped_holds_nothing_though_its_memory_is_kept() {
        let [one, two] = pair();
        assert!(one.locks().try_lock(Byte::Member(1)).unwrap());
        let (slab, words) = (one.slab().clone(), one.control());
        drop(one);
        assert!(two.locks().try_lock(Byte::Member(1)).unwrap());
        assert!(Locks::make(two.file_for_peer().unwrap()).unwrap().is_none(), "the other is attached");
        drop(two.clone());
        let peer = two.file_for_peer().unwrap();
        drop(two);
        assert!(Locks::make(peer).unwrap().is_some(), "nobody is");
        drop((slab, words));
    }

    #[test]
    fn who_makes_a_region_is_alone_until_it_is_made() {
        let [one, two] = pair();
        let peers = [0; 3].map(|_| one.file_for_peer().unwrap());
        drop((one, two));
        let [maker, other, third] = peers;
        let maker = Locks::make(maker).unwrap().unwrap();
        assert!(Locks::make(reopen(other.as_fd()).unwrap()).unwrap().is_none());
        assert!(Locks::attach(other).unwrap().is_none());
        maker.settle().unwrap();
        assert!(Locks::attach(third).unwrap().is_some());
    }

    #[test]
    fn a_lock_is_free_when_its_process_was_killed() {
        let [one, _] = pair();
        let (mut told, tell) = std::io::pipe().unwrap();
        // SAFETY: the child opens the region, which allocates, as the C library lets a forked child do, and is killed.
        let id = unsafe { libc::fork() };
        if id == 0 {
            // SAFETY: sets a timer that ends this process.
            unsafe { libc::alarm(20) };
            let own = one.file_for_peer().ok().and_then(|file| SharedRegion::open(file).ok());
            let locked =
                own.as_ref().is_some_and(|own| own.locks().try_lock(Byte::Consumer).unwrap_or(false));
            let _ = (&tell).write_all(&[u8::from(locked)]);
            loop {
                std::thread::park();
            }
        }
        let id = Pid::from_raw(id).unwrap();
        let mut locked = [0];
        told.read_exact(&mut locked).unwrap();
        assert_eq!(locked, [1]);
        assert!(one.locks().is_held(Byte::Consumer).unwrap());
        kill_process(id, Signal::KILL).unwrap();
        // Before anybody has asked how it ended.
        let start = Instant::now();
        while one.locks().is_held(Byte::Consumer).unwrap() {
            assert!(start.elapsed() < Duration::from_mins(1), "the dead hold a lock");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(one.locks().try_lock(Byte::Consumer).unwrap());
        waitpid(Some(id), WaitOptions::empty()).unwrap();
    }

    #[test]
    fn a_forked_child_neither_frees_nor_keeps_a_lock() {
        let [one, two] = pair();
        assert!(one.locks().try_lock(Byte::Member(1)).unwrap());
        let mut mine = Some(one);
        assert!(in_child(|| {
            let told = mine.as_ref().is_some_and(|region| {
                let locks = region.locks();
                let is_refused = matches!(locks.try_lock(Byte::Member(2)), Ok(false));
                region.check_process().is_err() && is_refused && locks.unlock(Byte::Member(1)).is_ok()
            });
            drop(mine.take());
            told
        }));
        assert!(two.locks().is_held(Byte::Member(1)).unwrap(), "the child has given back the parent's");
        assert!(!two.locks().is_held(Byte::Member(2)).unwrap(), "the child has locked for the parent");
        let one = mine.unwrap();
        assert_eq!(one.check_process(), Ok(()));

        let (mut wait, end) = std::io::pipe().unwrap();
        let (mut told, tell) = std::io::pipe().unwrap();
        std::thread::scope(|scope| {
            let child = scope.spawn(|| {
                in_child(|| {
                    let _ = (&tell).write_all(&[1]);
                    wait.read_exact(&mut [0]).is_ok()
                })
            });
            told.read_exact(&mut [0]).unwrap();
            // The child has the description too, and what the parent gives back is given back.
            drop(one);
            assert!(!two.locks().is_held(Byte::Member(1)).unwrap());
            (&end).write_all(&[1]).unwrap();
            assert!(child.join().unwrap());
        });
    }

    #[test]
    fn no_two_bytes_are_the_same() {
        let members = (1..=1023).map(Byte::Member);
        let mut offsets: Vec<_> = members.chain([Byte::Consumer, Byte::Serving]).map(Byte::offset).collect();
        offsets.extend([ATTACHED, NAME]);
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), 1023 + 4);
        assert!(offsets.iter().all(|offset| (FIRST..FIRST + COUNT).contains(offset)));
    }
}
