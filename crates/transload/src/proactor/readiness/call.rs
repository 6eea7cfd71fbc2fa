//! System calls on sockets, none of which waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{socket_error, socket_type};
use rustix::net::{self, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags};
use rustix::net::{SocketAddrAny, SocketType};

use super::super::backend::{Event, Group, Piece};
use super::super::socket::Socket;
use super::nonblocking::NonBlocking;
use super::vectors::Vectors;
use super::waiting::Work;
use crate::pool::BufferPool;

/// Systems without `MSG_NOSIGNAL` have a socket option in its place, which `send` sets.
#[cfg(not(target_vendor = "apple"))]
const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
#[cfg(target_vendor = "apple")]
const SEND: SendFlags = SendFlags::DONTWAIT;

/// What came of trying.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It would have to wait.
    Blocked,
    /// Something happened, and the attempt goes on; at once, unless all there was has been taken.
    Happened { event: Event, is_drained: bool },
    /// The attempt has ended.
    Ended(Event),
}

impl Outcome {
    fn of(result: Result<usize, Errno>) -> Self {
        match result {
            Err(errno) if would_block(errno) => Self::Blocked,
            result => Self::Ended(Event::Done(result)),
        }
    }
}

/// What system calls need besides a socket.
#[derive(Debug, Default)]
pub(super) struct Calls {
    vectors: Vectors,
    /// The pool of each group.
    pools: Vec<Option<BufferPool>>,
}

impl Calls {
    pub(super) fn add_pool(&mut self, group: Group, pool: BufferPool) {
        let group = usize::from(group);
        if self.pools.len() <= group {
            self.pools.resize(group + 1, None);
        }
        self.pools[group] = Some(pool);
    }

    pub(super) fn remove_pool(&mut self, group: Group) {
        if let Some(pool) = self.pools.get_mut(usize::from(group)) {
            *pool = None;
        }
    }

    pub(super) fn attempt(&mut self, work: Work, socket: &Socket, pieces: &[Piece]) -> Outcome {
        let fd = socket.as_fd();
        match work {
            Work::Send => Outcome::of(self.send(fd, pieces)),
            Work::Receive => Outcome::of(self.receive(fd, pieces)),
            Work::ReceiveMany { group, is_stream } => self.receive_many(fd, group, is_stream),
            Work::Accept => accept_one(fd),
            Work::Connect => connected(fd),
            Work::Readable => match is_ready(fd, PollFlags::IN) {
                Ok(false) => Outcome::Blocked,
                Ok(true) => Outcome::Ended(Event::Done(Ok(0))),
                Err(errno) => Outcome::Ended(Event::Done(Err(errno))),
            },
        }
    }

    fn send(&mut self, fd: BorrowedFd<'_>, pieces: &[Piece]) -> Result<usize, Errno> {
        #[cfg(target_vendor = "apple")]
        net::sockopt::set_socket_nosigpipe(fd, true)?;
        self.vectors.read_by(pieces, |slices| match slices {
            [one] => retry_on_intr(|| net::send(fd, one, SEND)),
            _ => retry_on_intr(|| net::sendmsg(fd, slices, &mut SendAncillaryBuffer::default(), SEND)),
        })
    }

    fn receive(&mut self, fd: BorrowedFd<'_>, pieces: &[Piece]) -> Result<usize, Errno> {
        const FLAGS: RecvFlags = RecvFlags::DONTWAIT;
        self.vectors.written_by(pieces, |slices| match slices {
            [one] => retry_on_intr(|| net::recv(fd, &mut **one, FLAGS)).map(|(_, bytes)| bytes),
            _ => retry_on_intr(|| net::recvmsg(fd, slices, &mut RecvAncillaryBuffer::default(), FLAGS))
                .map(|message| message.bytes),
        })
    }

    fn receive_many(&self, fd: BorrowedFd<'_>, group: Group, is_stream: bool) -> Outcome {
        let Some(Some(pool)) = self.pools.get(usize::from(group)) else {
            return Outcome::Ended(Event::Done(Err(Errno::INVAL)));
        };
        let mut lease = match pool.try_acquire() {
            Ok(lease) => lease,
            Err(error) if error.is_exhausted() => return without_buffer(fd),
            // The pool is closed: nothing will ever come back to it, so this is not starvation.
            Err(_) => return Outcome::Ended(Event::Done(Err(Errno::NOBUFS))),
        };
        match retry_on_intr(|| net::recv(fd, &mut *lease, RecvFlags::DONTWAIT)) {
            Ok((_, bytes @ 1..)) => {
                let is_drained = is_stream && bytes < lease.len();
                lease.resize(bytes);
                Outcome::Happened { event: Event::Data(lease), is_drained }
            }
            // The lease goes back.
            other => Outcome::of(other.map(|(_, bytes)| bytes)),
        }
    }
}

fn would_block(errno: Errno) -> bool {
    errno == Errno::AGAIN || errno == Errno::WOULDBLOCK
}

/// Whether a poll of this moment finds any of these, an end or an error.
fn is_ready(fd: BorrowedFd<'_>, flags: PollFlags) -> Result<bool, Errno> {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    retry_on_intr(|| poll(&mut fds, Some(&AT_ONCE))).map(|ready| ready > 0)
}

/// Starved only if there is a byte to receive: neither an end nor an error needs a buffer.
fn without_buffer(fd: BorrowedFd<'_>) -> Outcome {
    let mut byte = [0];
    match retry_on_intr(|| net::recv(fd, &mut byte, RecvFlags::DONTWAIT | RecvFlags::PEEK)) {
        Ok((_, 1..)) => Outcome::Ended(Event::Starved),
        other => Outcome::of(other.map(|(_, bytes)| bytes)),
    }
}

fn accept_one(fd: BorrowedFd<'_>) -> Outcome {
    loop {
        match accept(fd) {
            Ok(connection) => {
                return Outcome::Happened { event: Event::Accepted(connection), is_drained: false };
            }
            // The connection is gone, or a signal came: on to the next.
            Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
            Err(errno) => return Outcome::of(Err(errno)),
        }
    }
}

#[cfg(not(target_vendor = "apple"))]
fn accept(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let _non_blocking = NonBlocking::make(fd)?;
    net::accept_with(fd, net::SocketFlags::CLOEXEC)
}

/// Without `accept4(2)` the connection is non-blocking as the listener is at that moment.
#[cfg(target_vendor = "apple")]
fn accept(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let _non_blocking = NonBlocking::make(fd)?;
    let connection = net::accept(fd)?;
    rustix::io::fcntl_setfd(&connection, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&connection, false)?;
    Ok(connection)
}

/// Begins a connection; `None` if it is under way.
///
/// A Unix socket whose listener has a full backlog gives `EAGAIN`, and is not under way: that is its result.
pub(super) fn connect(socket: &Socket, address: &SocketAddrAny) -> Option<Result<usize, Errno>> {
    let fd = socket.as_fd();
    let non_blocking = match NonBlocking::make(fd) {
        Ok(non_blocking) => non_blocking,
        Err(errno) => return Some(Err(errno)),
    };
    let result = net::connect(fd, address);
    drop(non_blocking);
    match result {
        Ok(()) => Some(Ok(0)),
        Err(Errno::INPROGRESS | Errno::INTR) => None,
        Err(errno) => Some(Err(errno)),
    }
}

/// How a connection that was begun has ended, if it has.
fn connected(fd: BorrowedFd<'_>) -> Outcome {
    let end = || {
        if !is_ready(fd, PollFlags::OUT)? {
            return Err(Errno::AGAIN);
        }
        socket_error(fd)??;
        // A socket that was shut down meanwhile has no error, nor a peer.
        net::getpeername(fd).map(|_| 0)
    };
    Outcome::of(end())
}

pub(super) fn shut_down(socket: &Socket, how: net::Shutdown) -> Result<usize, Errno> {
    net::shutdown(socket.as_fd(), how).map(|()| 0)
}

pub(super) fn is_stream(socket: &Socket) -> bool {
    socket_type(socket.as_fd()) == Ok(SocketType::STREAM)
}

/// Reads a byte of urgent data and drops it.
///
/// The poller reports urgent data as something to read, over and over, while no receive returns it: a peer could keep
/// this thread busy for ever with one byte.
pub(super) fn drop_urgent(socket: &Socket) {
    let mut byte = [0];
    // There may be none any more, or it is received in line (EINVAL).
    let _ = net::recv(socket.as_fd(), &mut byte, RecvFlags::OOB | RecvFlags::DONTWAIT);
}
