//! Sockets that carry whole messages, and who is at their other end.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
};

/// Descriptors that a message has room for. More than one is wrong, and the kernel closes those beyond.
const ROOM: usize = 4;

/// Who is at the other end: whoever connected, or listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// 0 if it is of a pid namespace that this process cannot see.
    pub(super) pid: u32,
    pub(super) uid: u32,
}

/// What has come.
#[derive(Debug)]
pub(in crate::shared) struct Received {
    /// Bytes of it, also those that the buffer had no room for.
    pub(in crate::shared) bytes: usize,
    pub(in crate::shared) descriptors: Vec<OwnedFd>,
    /// There were more of these than there was room for.
    pub(in crate::shared) is_cut: bool,
}

/// A socket that never blocks.
pub(super) fn socket() -> Result<OwnedFd, Errno> {
    socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}

/// Connects, if somebody listens: refused, or no such file, if nobody does; to be tried again if too many wait.
pub(super) fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

pub(super) fn peer(socket: &OwnedFd) -> Result<Peer, Errno> {
    // Not by rustix: its number of a process cannot be 0, and the kernel's can.
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = libc::socklen_t::try_from(size_of_val(&credentials)).unwrap_or(0);
    // SAFETY: the pointers are to a structure of the length that is given, which the kernel writes at most.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut len,
        )
    };
    if done < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(Peer { pid: u32::try_from(credentials.pid).unwrap_or(0), uid: credentials.uid })
}

/// Sends one message, with a descriptor if there is one.
pub(in crate::shared) fn send(
    socket: &OwnedFd,
    bytes: &[u8],
    descriptor: Option<&OwnedFd>,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(AsFd::as_fd);
    if let Some(descriptors) = &descriptors {
        // There is room for one.
        let _ = control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptors)));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
        .map(|_| ())
}

/// Takes one message, and the descriptors that came with it; they are closed unless they are kept.
pub(in crate::shared) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Received, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ROOM))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC | RecvFlags::TRUNC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let is_cut = received.flags.contains(ReturnFlags::CTRUNC);
    Ok(Received { bytes: received.bytes, descriptors, is_cut })
}

/// Takes one message without what came with it: the kernel closes descriptors for which there is no room.
pub(super) fn receive_bytes(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let (_, bytes) = rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC)?;
    Ok(bytes)
}

/// Waits until there is something to take, or the peer is gone; says whether that came before the time was over.
pub(in crate::shared) fn wait(socket: &OwnedFd, until: Instant) -> Result<bool, Errno> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut sockets = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut sockets, Some(&timespec(left))) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno),
        }
    }
}

pub(super) fn timespec(duration: Duration) -> Timespec {
    // Years are for ever.
    let seconds = duration.as_secs().min(1 << 30);
    Timespec { tv_sec: seconds.try_into().unwrap_or(0), tv_nsec: duration.subsec_nanos().into() }
}
