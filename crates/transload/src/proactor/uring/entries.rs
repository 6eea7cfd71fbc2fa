//! What an attempt looks like to the kernel.

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, types};
use rustix::net::{Shutdown, SocketAddrAny};

use super::requests::Request;
use crate::proactor::backend::Piece;

/// Asks for each notification to say whether the kernel has copied all the same (`IORING_SEND_ZC_REPORT_USAGE`).
pub(super) const REPORT_USAGE: u16 = 1 << 3;

/// No call transfers more (`MAX_RW_COUNT`).
const MOST_BYTES: usize = 0x7fff_f000;

/// No call takes a longer list (`UIO_MAXIOV`).
const MOST_PIECES: usize = 1024;

/// Whether one call can transfer all of it.
pub(super) fn is_whole(pieces: &[Piece]) -> bool {
    let bytes = pieces.iter().fold(0, |sum: usize, piece| sum.saturating_add(piece.len_bytes));
    pieces.len() <= MOST_PIECES && bytes <= MOST_BYTES
}

/// As many of the first pieces as a call takes.
fn head(pieces: &[Piece]) -> &[Piece] {
    &pieces[..pieces.len().min(MOST_PIECES)]
}

fn len(piece: Piece) -> u32 {
    u32::try_from(piece.len_bytes.min(MOST_BYTES)).unwrap_or(u32::MAX)
}

/// A send. Never a write: that one raises SIGPIPE.
///
/// `whole`: another begins when this one has sent all of its bytes.
pub(super) fn send(request: &mut Request, pieces: &[Piece], zero_copy: bool, whole: bool) -> Entry {
    let fd = request.fd();
    let flags = libc::MSG_NOSIGNAL | if whole { libc::MSG_WAITALL } else { 0 };
    match (pieces, zero_copy) {
        (&[piece], false) => opcode::Send::new(fd, piece.address, len(piece)).flags(flags).build(),
        (&[piece], true) => opcode::SendZc::new(fd, piece.address, len(piece))
            .buf_index(piece.slot)
            .flags(flags)
            .zc_flags(REPORT_USAGE)
            .build(),
        (_, false) => {
            opcode::SendMsg::new(fd, request.message(head(pieces))).flags(flags.cast_unsigned()).build()
        }
        (_, true) => opcode::SendMsgZc::new(fd, request.message(head(pieces)))
            .ioprio(REPORT_USAGE)
            .flags(flags.cast_unsigned())
            .build(),
    }
}

/// The next entry begins when this one has done all that it is to do, and is cancelled otherwise.
pub(super) fn linked(entry: Entry) -> Entry {
    entry.flags(Flags::IO_LINK)
}

pub(super) fn receive(request: &mut Request, pieces: &[Piece]) -> Entry {
    match pieces {
        &[piece] => opcode::Recv::new(request.fd(), piece.address, len(piece)).build(),
        _ => opcode::RecvMsg::new(request.fd(), request.message(head(pieces))).build(),
    }
}

/// Receives what there is, and does not wait.
pub(super) fn receive_now(fd: Fd, address: *mut u8, capacity: usize) -> Entry {
    let len = u32::try_from(capacity.min(MOST_BYTES)).unwrap_or(u32::MAX);
    opcode::Recv::new(fd, address, len).flags(libc::MSG_DONTWAIT).build()
}

pub(super) fn receive_many(fd: Fd, group: u16) -> Entry {
    opcode::RecvMulti::new(fd, group).build()
}

pub(super) fn accept(fd: Fd, many: bool) -> Entry {
    let flags = libc::SOCK_CLOEXEC;
    if many {
        opcode::AcceptMulti::new(fd).flags(flags).build()
    } else {
        opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut()).flags(flags).build()
    }
}

pub(super) fn connect(request: &mut Request, address: &SocketAddrAny) -> Entry {
    let fd = request.fd();
    let address = request.details().address.insert(address.clone());
    opcode::Connect::new(fd, address.as_ptr().cast(), address.addr_len()).build()
}

/// Waits for bytes, an end or an error.
pub(super) fn readable(fd: Fd) -> Entry {
    let events = libc::POLLIN | libc::POLLRDHUP | libc::POLLERR | libc::POLLHUP;
    opcode::PollAdd::new(fd, u32::from(events.cast_unsigned())).build()
}

pub(super) fn shutdown(fd: Fd, how: Shutdown) -> Entry {
    let how = match how {
        Shutdown::Read => libc::SHUT_RD,
        Shutdown::Write => libc::SHUT_WR,
        Shutdown::Both => libc::SHUT_RDWR,
    };
    opcode::Shutdown::new(fd, how).build()
}

pub(super) fn read(request: &mut Request, pieces: &[Piece], offset: u64) -> Entry {
    let fd = request.fd();
    match *pieces {
        [piece @ Piece { slot: Some(slot), .. }] => {
            opcode::ReadFixed::new(fd, piece.address, len(piece), slot).offset(offset).build()
        }
        [piece] => opcode::Read::new(fd, piece.address, len(piece)).offset(offset).build(),
        _ => {
            let (list, count) = request.list(head(pieces));
            opcode::Readv::new(fd, list, count).offset(offset).build()
        }
    }
}

pub(super) fn write(request: &mut Request, pieces: &[Piece], offset: u64) -> Entry {
    let fd = request.fd();
    match *pieces {
        [piece @ Piece { slot: Some(slot), .. }] => {
            opcode::WriteFixed::new(fd, piece.address, len(piece), slot).offset(offset).build()
        }
        [piece] => opcode::Write::new(fd, piece.address, len(piece)).offset(offset).build(),
        _ => {
            let (list, count) = request.list(head(pieces));
            opcode::Writev::new(fd, list, count).offset(offset).build()
        }
    }
}

pub(super) fn sync(fd: Fd, data_only: bool) -> Entry {
    let flags = if data_only { FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
    opcode::Fsync::new(fd).flags(flags).build()
}

pub(super) fn cancel(user_data: u64) -> Entry {
    opcode::AsyncCancel::new(user_data).build()
}
