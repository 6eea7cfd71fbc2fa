//! Says, without any server, whether processes still have the region of a name.
//!
//! Each of them holds a shared lock of one byte of the folder, chosen by the name, on an open file description of its
//! own. The kernel lets go of it with the process. So whoever makes a region anew can tell a name whose server has just
//! been killed, and which a survivor will serve on, from one that nobody has any more.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;

use super::error::HandoverError;
use super::folder::Folder;

/// That this process has the region of a name, or is about to get it. It ends with this, and with the process.
#[derive(Debug)]
pub(super) struct Presence {
    fd: OwnedFd,
    byte: libc::off_t,
}

impl Presence {
    pub(super) fn declare(folder: &Folder, file: &OsStr) -> Result<Self, HandoverError> {
        let presence = Self::observe(folder, file)?;
        fcntl(&presence.fd, libc::F_OFD_SETLK, &mut presence.lock(libc::F_RDLCK))
            .map_err(HandoverError::os("lock a byte of the folder of names"))?;
        Ok(presence)
    }

    /// Only looks at others.
    pub(super) fn observe(folder: &Folder, file: &OsStr) -> Result<Self, HandoverError> {
        Ok(Self { fd: folder.reopened()?, byte: byte_of(file) })
    }

    /// Whether any other has it.
    pub(super) fn has_others(&self) -> Result<bool, HandoverError> {
        let mut lock = self.lock(libc::F_WRLCK);
        fcntl(&self.fd, libc::F_OFD_GETLK, &mut lock)
            .map_err(HandoverError::os("look at a byte of the folder of names"))?;
        Ok(i32::from(lock.l_type) != libc::F_UNLCK)
    }

    fn lock(&self, kind: i32) -> libc::flock {
        // The numbers are 0 to 2.
        let (kind, whence) = (i16::try_from(kind).unwrap_or(0), i16::try_from(libc::SEEK_SET).unwrap_or(0));
        libc::flock { l_type: kind, l_whence: whence, l_start: self.byte, l_len: 1, l_pid: 0 }
    }
}

/// The byte of a name, by the hash FNV-1a. Two names with the same one would only wait for each other in vain.
fn byte_of(file: &OsStr) -> libc::off_t {
    let hash = file.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Below what an offset can be.
    libc::off_t::try_from(hash >> 2).unwrap_or(0)
}

fn fcntl(fd: &OwnedFd, command: i32, lock: &mut libc::flock) -> Result<(), Errno> {
    // SAFETY: these commands read and write the structure that the pointer, made from a reference, points to.
    let done = unsafe { libc::fcntl(fd.as_raw_fd(), command, std::ptr::from_mut(lock)) };
    if done < 0 {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    } else {
        Ok(())
    }
}
