//! Says, without any server, whether processes still have the region of a name.
//!
//! Each of them holds a shared lock of one byte of the folder, chosen by the name, on an open file description of its
//! own. The kernel lets go of it with the process. So whoever makes a region anew can tell a name whose server has just
//! been killed, and which a survivor will serve on, from one that nobody has any more.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use super::error::HandoverError;
use super::folder::Folder;
use crate::shared::fnv::fnv1a;
use crate::shared::ofd::{self, Lock};

/// That this process has the region of a name, or is about to get it. It ends with this, and with the process.
#[derive(Debug)]
pub(super) struct Presence {
    fd: OwnedFd,
    byte: i64,
}

impl Presence {
    pub(super) fn declare(folder: &Folder, file: &OsStr) -> Result<Self, HandoverError> {
        let presence = Self::observe(folder, file)?;
        let set = ofd::set(presence.fd.as_fd(), Lock::Shared, presence.byte, 1);
        // Nobody locks these bytes otherwise.
        set.map_err(HandoverError::io("lock a byte of the folder of names"))?;
        Ok(presence)
    }

    /// Only looks at others.
    pub(super) fn observe(folder: &Folder, file: &OsStr) -> Result<Self, HandoverError> {
        Ok(Self { fd: folder.reopened()?, byte: byte_of(file) })
    }

    /// Whether any other has it.
    pub(super) fn has_others(&self) -> Result<bool, HandoverError> {
        ofd::is_locked(self.fd.as_fd(), self.byte)
            .map_err(HandoverError::io("look at a byte of the folder of names"))
    }
}

/// The byte of a name. Two names with the same one would only wait for each other in vain.
fn byte_of(file: &OsStr) -> i64 {
    // Below what an offset can be.
    i64::try_from(fnv1a(file.as_bytes().iter().copied()) >> 2).unwrap_or(0)
}
