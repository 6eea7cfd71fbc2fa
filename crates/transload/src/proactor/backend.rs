//! What a back end does: single attempts, started and completed. Everything that goes on from one attempt to the next
//! (short sends, starvation, order on a socket, time-outs, who owns which buffer) is done once, for all back ends, in
//! `table` and `engine`.
#![cfg_attr(
    not(all(feature = "uring", target_os = "linux")),
    allow(dead_code, reason = "only io_uring links sends, and sends without a copy")
)]

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{Shutdown, SocketAddrAny};

use super::capability::Capabilities;
use super::file::File;
use super::key::Key;
use super::socket::Socket;
use crate::memory::Slab;
use crate::pool::{BufferPool, Lease};

/// A part of memory that an operation owns; it stays in place until the attempt's last completion (I2, I6).
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) address: *mut u8,
    pub(super) len_bytes: usize,
    /// The number under which its memory is registered with this back end.
    pub(super) slot: Option<u16>,
}

impl Piece {
    /// What is left of it after so many bytes.
    pub(super) fn after(self, skipped: usize) -> Self {
        let skipped = skipped.min(self.len_bytes);
        Self {
            address: self.address.wrapping_add(skipped),
            len_bytes: self.len_bytes - skipped,
            slot: self.slot,
        }
    }
}

/// The number of a receive pool within its proactor. Reused.
pub(super) type Group = u16;

/// One attempt at an operation. What it borrows may be gone when `start` returns, except for the memory of pieces.
#[derive(Debug)]
pub(super) enum Attempt<'a> {
    Nop,
    /// Sends some of the pieces.
    Send {
        socket: &'a Socket,
        pieces: &'a [Piece],
        zero_copy: bool,
        /// The next attempt that is started is a send on the same socket, to begin only when this one has sent all of
        /// its bytes, and else to end with `ECANCELED`. Never set without `Capability::LinkedSends`.
        linked: bool,
    },
    /// Receives some bytes.
    Receive {
        socket: &'a Socket,
        pieces: &'a [Piece],
    },
    /// Receives again and again, each time into a buffer of the pool.
    ReceiveMany {
        socket: &'a Socket,
        group: Group,
    },
    /// Accepts at least one connection.
    Accept {
        socket: &'a Socket,
    },
    Connect {
        socket: &'a Socket,
        address: &'a SocketAddrAny,
    },
    /// Waits until there is something to receive, an end or an error.
    Readable {
        socket: &'a Socket,
    },
    Shutdown {
        socket: &'a Socket,
        how: Shutdown,
    },
    ReadAt {
        file: &'a File,
        pieces: &'a [Piece],
        offset: u64,
    },
    WriteAt {
        file: &'a File,
        pieces: &'a [Piece],
        offset: u64,
    },
    Sync {
        file: &'a File,
        data_only: bool,
    },
}

/// Something that happened to an attempt.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) key: Key,
    pub(super) event: Event,
    /// More will follow: the kernel still has the attempt's memory. After the one without it, it has let go.
    pub(super) more: bool,
}

#[derive(Debug)]
pub(super) enum Event {
    /// How many bytes, or 0. For `ReceiveMany`, `Ok(0)` is the end of the stream.
    Done(Result<usize, Errno>),
    /// The kernel has let go of memory that it sent without, or after all with, a copy.
    Notified { copied: bool },
    /// Bytes were received; the lease is as long as they are. Without `more` the attempt has ended, not the stream.
    Data(Lease),
    /// A connection. Without `more` the attempt has ended, not the listening.
    Accepted(OwnedFd),
    /// There was no buffer to receive into; the attempt has ended, and the bytes are still in the socket.
    Starved,
}

/// Wakes a back end that waits, from any thread.
pub(super) trait Alarm: Send + Sync {
    fn ring(&self);
}

/// A back end. Used by one thread.
///
/// Each started attempt ends with exactly one completion that has no `more`, whether it succeeds, fails or is cancelled.
/// Completions are handed out by `wait` only, in the order in which things happened on one descriptor.
pub(super) trait Backend {
    /// What it can do and is allowed to.
    fn capabilities(&self) -> Capabilities;

    /// What wakes it.
    fn alarm(&self) -> std::sync::Arc<dyn Alarm>;

    /// Starts an attempt. There is at most one of a key, except that a zero-copy send whose notification is still to
    /// come does not count. Failures come as completions.
    fn start(&mut self, key: Key, attempt: Attempt<'_>);

    /// Asks for the attempt of this key to end soon: with `ECANCELED`, or as it would have ended. Does nothing if
    /// there is none.
    fn cancel(&mut self, key: Key);

    /// Waits for completions, at most so long (`None`: for ever), or until the alarm rings; appends them.
    fn wait(&mut self, timeout: Option<Duration>, completions: &mut Vec<Completion>) -> Result<(), Errno>;

    /// Pins memory: each piece of `piece_bytes` (the last may be shorter) gets a slot. All or none.
    ///
    /// # Errors
    ///
    /// Why not, for people. Nothing is registered then.
    fn register(&mut self, slab: &Slab, piece_bytes: usize) -> Result<Vec<u16>, String>;

    /// Unpins. When it returns the kernel knows the memory only through attempts that are in flight.
    fn unregister(&mut self, slots: &[u16]);

    /// A pool to receive into, from now on known by this number.
    fn add_pool(&mut self, group: Group, pool: &BufferPool) -> Result<(), Errno>;

    /// Ends that. No attempt uses it any more.
    fn remove_pool(&mut self, group: Group);

    /// Whether it has taken buffers of this pool ahead of receives, so that one that starves can go on.
    fn lends(&self, group: Group) -> bool;

    /// How often completions overflowed the queue and had to be fetched again. None was lost.
    fn overflows(&self) -> u64;
}
