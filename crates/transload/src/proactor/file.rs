//! Files that operations keep open.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// A file for [`read_at`](super::Handle::read_at) and [`write_at`](super::Handle::write_at). A clone is another handle;
/// the descriptor is closed with the last one, and every operation in flight holds one.
#[derive(Clone, Debug)]
pub struct File {
    fd: Arc<OwnedFd>,
    /// What offsets, lengths and addresses must be multiples of, if the file was opened with `O_DIRECT`.
    alignment: Option<Alignment>,
}

/// What direct I/O demands. All three are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alignment {
    /// Of the address of the memory, in bytes.
    pub memory_bytes: usize,
    /// Of the offset in the file and of the length, in bytes.
    pub offset_bytes: usize,
}

impl File {
    /// The alignment that direct I/O on this file demands; `None` if it was not opened with `O_DIRECT`.
    pub fn alignment(&self) -> Option<Alignment> {
        self.alignment
    }
}

impl<T: Into<OwnedFd>> From<T> for File {
    fn from(owner: T) -> Self {
        let fd = owner.into();
        let alignment = direct_alignment(fd.as_fd());
        Self { fd: Arc::new(fd), alignment }
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Asks `statx(2)` for `STATX_DIOALIGN` (Linux 6.1), and takes 4096 where it does not know.
#[cfg(target_os = "linux")]
fn direct_alignment(fd: BorrowedFd<'_>) -> Option<Alignment> {
    use rustix::fs::{AtFlags, OFlags, StatxFlags, fcntl_getfl, statx};

    const UNKNOWN: usize = 4096;
    if !fcntl_getfl(fd).ok()?.contains(OFlags::DIRECT) {
        return None;
    }
    let asked = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    let known = |bytes: u32| usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two());
    Some(Alignment {
        memory_bytes: asked.as_ref().and_then(|stat| known(stat.stx_dio_mem_align)).unwrap_or(UNKNOWN),
        offset_bytes: asked.as_ref().and_then(|stat| known(stat.stx_dio_offset_align)).unwrap_or(UNKNOWN),
    })
}

/// Other systems have no `O_DIRECT` that demands anything.
#[cfg(not(target_os = "linux"))]
fn direct_alignment(_: BorrowedFd<'_>) -> Option<Alignment> {
    None
}
