//! Locks of single bytes, by open file descriptions (`F_OFD_SETLK`).
//!
//! How they behave: Linux, `fcntl_locking(2)`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What is done with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// Locked together with others that lock it so.
    Shared,
    /// Locked alone.
    Alone,
    /// Given back.
    None,
}

/// Locks bytes, or gives them back; false if another description has locked one of them otherwise.
///
/// To the kernel, a description does not exclude itself.
pub(super) fn set(file: BorrowedFd<'_>, lock: Lock, first: i64, count: i64) -> io::Result<bool> {
    match call(file, libc::F_OFD_SETLK, &mut description(lock, first, count)) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether another description has locked a byte.
pub(super) fn is_locked(file: BorrowedFd<'_>, byte: i64) -> io::Result<bool> {
    let mut lock = description(Lock::Alone, byte, 1);
    call(file, libc::F_OFD_GETLK, &mut lock)?;
    Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK)
}

fn call(file: BorrowedFd<'_>, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: these commands read one `flock`, and F_OFD_GETLK writes it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the system's constants are wider than its fields for them"
)]
fn description(lock: Lock, first: i64, count: i64) -> libc::flock {
    let kind = match lock {
        Lock::Shared => libc::F_RDLCK,
        Lock::Alone => libc::F_WRLCK,
        Lock::None => libc::F_UNLCK,
    };
    // SAFETY: a plain struct of integers, of which some systems have more than others.
    let mut description: libc::flock = unsafe { std::mem::zeroed() };
    description.l_type = kind as libc::c_short;
    description.l_whence = libc::SEEK_SET as libc::c_short;
    description.l_start = first;
    description.l_len = count;
    description
}
