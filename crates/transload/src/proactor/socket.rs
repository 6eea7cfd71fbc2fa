//! Descriptors that operations keep open: sockets, listeners, files.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Weak};

use transload_core::{Counter, Flag};

/// A socket: connected, listening or datagram. A clone is another handle; the descriptor is closed with the last one,
/// and every operation in flight holds one: a send until its result is known, not until its memory has come back, since
/// that may take as long as the peer likes.
///
/// Make it of anything that owns a descriptor: `Socket::from(std_stream)`. It need not be non-blocking.
#[derive(Clone, Debug)]
pub struct Socket {
    inner: Arc<Inner>,
}

/// A socket that may have been closed meanwhile.
#[derive(Clone, Debug)]
pub(super) struct WeakSocket(Weak<Inner>);

impl WeakSocket {
    pub(super) fn upgrade(&self) -> Option<Socket> {
        self.0.upgrade().map(|inner| Socket { inner })
    }
}

#[derive(Debug)]
struct Inner {
    fd: OwnedFd,
    /// Zero-copy sends in a row that the kernel copied all the same.
    copied_in_a_row: Counter,
    /// Raised when zero-copy sends are given up on.
    copies: Flag,
}

/// So many zero-copy sends in a row that the kernel copied end the attempts on a socket.
const COPIED_IN_A_ROW: u64 = 4;

impl Socket {
    /// Whether zero-copy sends have been given up on for this socket, because the kernel copied several in a row or
    /// refused to pin the memory. On the loop-back device it always copies.
    pub fn copies(&self) -> bool {
        self.inner.copies.is_raised()
    }

    /// Notes whether the kernel copied what was to be sent without a copy. One proactor at a time sends on a socket.
    pub(super) fn note_copied(&self, copied: bool) {
        let in_a_row = if copied { self.inner.copied_in_a_row.value() + 1 } else { 0 };
        self.inner.copied_in_a_row.set(in_a_row);
        if in_a_row >= COPIED_IN_A_ROW {
            self.inner.copies.raise();
        }
    }

    /// Gives up on zero-copy sends.
    pub(super) fn give_up_zero_copy(&self) {
        self.inner.copies.raise();
    }

    /// Whether two handles are of one socket.
    pub fn is(&self, other: &Socket) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// A handle that does not keep the descriptor open.
    pub(super) fn downgrade(&self) -> WeakSocket {
        WeakSocket(Arc::downgrade(&self.inner))
    }

    /// What tells this socket from others while it exists.
    pub(super) fn id(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }
}

impl<T: Into<OwnedFd>> From<T> for Socket {
    fn from(owner: T) -> Self {
        let (copied_in_a_row, copies) = (Counter::new(), Flag::new());
        Self { inner: Arc::new(Inner { fd: owner.into(), copied_in_a_row, copies }) }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.fd.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.fd.as_raw_fd()
    }
}
