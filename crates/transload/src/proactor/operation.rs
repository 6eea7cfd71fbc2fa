//! What was asked for, and everything that it needs: descriptors, memory, addresses. Owned by the table until the
//! kernel has let go.

use std::time::Instant;

use rustix::net::{Shutdown, SocketAddrAny};

use super::backend::{Attempt, Piece};
use super::buffers::{Incoming, Outgoing};
use super::error::IoError;
use super::file::File;
use super::receive_pool::ReceivePool;
use super::socket::{Socket, WeakSocket};
use crate::memory::Slab;
use crate::region::{Access, Region};

/// Whether a send reads the caller's memory on its way to the network, without a copy into the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroCopy {
    /// From a threshold on ([`ProactorBuilder::zero_copy_from`](super::ProactorBuilder::zero_copy_from)), unless the
    /// kernel has copied the last few on this socket all the same.
    #[default]
    Auto,
    /// Whatever the size, where the kernel can.
    On,
    /// Never.
    Off,
}

/// Whether memory may be registered without being pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pinning {
    Preferred,
    Required,
}

#[derive(Debug)]
pub(super) enum Operation {
    Nop,
    Send {
        socket: Socket,
        buffers: Outgoing,
        zero_copy: ZeroCopy,
    },
    /// A send that has its result; only its memory is still to come back. The peer may never take what the kernel has to
    /// send yet, and closing is what ends that, so nothing here keeps the descriptor open.
    Sent {
        socket: WeakSocket,
        buffers: Outgoing,
    },
    Receive {
        socket: Socket,
        buffers: Incoming,
    },
    ReceiveMany {
        socket: Socket,
        pool: ReceivePool,
    },
    Accept {
        socket: Socket,
    },
    Connect {
        socket: Socket,
        address: SocketAddrAny,
    },
    Readable {
        socket: Socket,
    },
    Shutdown {
        socket: Socket,
        how: Shutdown,
    },
    Close {
        socket: Socket,
    },
    ReadAt {
        file: File,
        buffers: Incoming,
        offset: u64,
    },
    WriteAt {
        file: File,
        buffers: Outgoing,
        offset: u64,
    },
    Sync {
        file: File,
        data_only: bool,
    },
    Timeout {
        at: Instant,
    },
    Register {
        slab: Slab,
        access: Access,
        pinning: Pinning,
    },
    MakePool {
        region: Region,
    },
}

impl Operation {
    /// What errors call it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Nop => "nop",
            Self::Send { .. } | Self::Sent { .. } => "send",
            Self::Receive { .. } | Self::ReceiveMany { .. } => "receive",
            Self::Accept { .. } => "accept",
            Self::Connect { .. } => "connect",
            Self::Readable { .. } => "wait for bytes",
            Self::Shutdown { .. } => "shutdown",
            Self::Close { .. } => "close",
            Self::ReadAt { .. } => "read",
            Self::WriteAt { .. } => "write",
            Self::Sync { .. } => "fsync",
            Self::Timeout { .. } => "time-out",
            Self::Register { .. } => "register",
            Self::MakePool { .. } => "make a receive pool",
        }
    }

    pub(super) fn socket(&self) -> Option<&Socket> {
        match self {
            Self::Send { socket, .. }
            | Self::Receive { socket, .. }
            | Self::ReceiveMany { socket, .. }
            | Self::Accept { socket }
            | Self::Connect { socket, .. }
            | Self::Readable { socket }
            | Self::Shutdown { socket, .. }
            | Self::Close { socket } => Some(socket),
            _ => None,
        }
    }

    /// Turns a send that has its result into one that only waits for its memory, and gives its socket.
    pub(super) fn let_go_of_socket(&mut self) -> Option<Socket> {
        match std::mem::replace(self, Self::Nop) {
            Self::Send { socket, buffers, .. } => {
                *self = Self::Sent { socket: socket.downgrade(), buffers };
                Some(socket)
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// How many bytes it is to move, if it moves bytes and then ends.
    pub(super) fn total_bytes(&self) -> Option<usize> {
        match self {
            Self::Send { buffers, .. } | Self::WriteAt { buffers, .. } => Some(buffers.len_bytes()),
            Self::Receive { buffers, .. } | Self::ReadAt { buffers, .. } => Some(buffers.len_bytes()),
            _ => None,
        }
    }

    /// Whether it goes on delivering until it is cancelled.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::Accept { .. } | Self::ReceiveMany { .. })
    }

    /// The memory that is left after `done` bytes.
    pub(super) fn pieces(&self, proactor: u64, done: usize, pieces: &mut Vec<Piece>) {
        pieces.clear();
        match self {
            Self::Send { buffers, .. } | Self::WriteAt { buffers, .. } => {
                buffers.pieces(proactor, done, pieces);
            }
            Self::Receive { buffers, .. } | Self::ReadAt { buffers, .. } => {
                buffers.pieces(proactor, done, pieces);
            }
            _ => {}
        }
    }

    /// The attempt that a back end makes next; none for what the engine does itself.
    pub(super) fn attempt<'a>(
        &'a self,
        pieces: &'a [Piece],
        done: usize,
        zero_copy: bool,
        linked: bool,
    ) -> Option<Attempt<'a>> {
        let at = |offset: u64| offset.saturating_add(done as u64);
        Some(match self {
            Self::Nop => Attempt::Nop,
            Self::Send { socket, .. } => Attempt::Send { socket, pieces, zero_copy, linked },
            Self::Receive { socket, .. } => Attempt::Receive { socket, pieces },
            Self::ReceiveMany { socket, pool } => Attempt::ReceiveMany { socket, group: pool.group() },
            Self::Accept { socket } => Attempt::Accept { socket },
            Self::Connect { socket, address } => Attempt::Connect { socket, address },
            Self::Readable { socket } => Attempt::Readable { socket },
            Self::Shutdown { socket, how } => Attempt::Shutdown { socket, how: *how },
            Self::ReadAt { file, offset, .. } => Attempt::ReadAt { file, pieces, offset: at(*offset) },
            Self::WriteAt { file, offset, .. } => Attempt::WriteAt { file, pieces, offset: at(*offset) },
            Self::Sync { file, data_only } => Attempt::Sync { file, data_only: *data_only },
            Self::Sent { .. }
            | Self::Close { .. }
            | Self::Timeout { .. }
            | Self::Register { .. }
            | Self::MakePool { .. } => {
                return None;
            }
        })
    }

    /// Refuses memory that was registered for something else.
    pub(super) fn check_access(&self) -> Result<(), IoError> {
        let (wanted, refused) = match self {
            Self::Send { buffers, .. } | Self::WriteAt { buffers, .. } => {
                (Access::READ, buffers.refuses_reads())
            }
            Self::Receive { buffers, .. } | Self::ReadAt { buffers, .. } => {
                (Access::WRITE, buffers.refuses_writes())
            }
            _ => return Ok(()),
        };
        let wrong = |actual| IoError::WrongAccess { operation: self.name(), wanted, actual };
        refused.map_or(Ok(()), |actual| Err(wrong(actual)))
    }

    /// Refuses direct I/O that the file does not take.
    pub(super) fn check_alignment(&self, pieces: &[Piece]) -> Result<(), IoError> {
        let (Self::ReadAt { file, offset, .. } | Self::WriteAt { file, offset, .. }) = self else {
            return Ok(());
        };
        let Some(alignment) = file.alignment() else { return Ok(()) };
        for piece in pieces {
            let fits = piece.address.addr().is_multiple_of(alignment.memory_bytes)
                && piece.len_bytes.is_multiple_of(alignment.offset_bytes)
                && offset.is_multiple_of(alignment.offset_bytes as u64);
            if !fits {
                return Err(IoError::Misaligned {
                    operation: self.name(),
                    address: piece.address.addr(),
                    offset: *offset,
                    len_bytes: piece.len_bytes,
                    memory_bytes: alignment.memory_bytes,
                    offset_bytes: alignment.offset_bytes,
                });
            }
        }
        Ok(())
    }

    /// Whether `done` bytes are all that a read or a write will move, after an attempt that moved `moved`.
    pub(super) fn is_complete(&self, done: usize, moved: usize) -> bool {
        let total = self.total_bytes().unwrap_or(0);
        match self {
            // Whatever has come.
            Self::Receive { .. } => true,
            // Only the end of a file makes direct I/O stop between two blocks.
            Self::ReadAt { file, .. } => {
                let unaligned =
                    file.alignment().is_some_and(|alignment| !moved.is_multiple_of(alignment.offset_bytes));
                done >= total || moved == 0 || unaligned
            }
            _ => done >= total,
        }
    }
}
