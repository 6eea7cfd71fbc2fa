//! The two sides of the protocol, spoken by hand, so that they can be spoken wrongly.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread::JoinHandle;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, connect, listen,
    recv, recvmsg, sendmsg, socket_with,
};

pub(crate) const JOIN: &[u8] = b"TLregion\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0";
pub(crate) const WATCH: &[u8] = b"TLregion\x01\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0";

/// What a server answers, in the word behind the version.
pub(crate) const GRANTED: u8 = 1;
pub(crate) const MALFORMED: u8 = 3;
pub(crate) const OTHER_VERSION: u8 = 4;

pub(crate) fn socket() -> OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

/// A client, which hears nothing if the server lets it wait for too long.
pub(crate) fn call(path: &Path) -> OwnedFd {
    let socket = socket();
    set_socket_timeout(&socket, Timeout::Recv, Some(super::WATCHDOG)).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

pub(crate) fn send(socket: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

/// The kind of an answer, and how many descriptors came along; nothing if the server has hung up.
///
/// # Panics
///
/// If nothing comes.
pub(crate) fn hear(socket: &OwnedFd) -> Option<(u8, usize)> {
    let mut bytes = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC);
    let received = match received {
        Err(rustix::io::Errno::AGAIN) => panic!("the server says nothing"),
        received => received.ok()?,
    };
    let count = control
        .drain()
        .map(|message| if let RecvAncillaryMessage::ScmRights(rights) = message { rights.count() } else { 0 })
        .sum();
    (received.bytes > 0).then_some((bytes[12], count))
}

/// An answer that grants, of a region with this number.
pub(crate) fn grant(id: u128) -> Vec<u8> {
    let mut bytes = b"TLregion\x01\0\0\0\x01\0\0\0".to_vec();
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&std::process::id().to_le_bytes());
    bytes.extend_from_slice(&[0; 12]);
    bytes
}

/// A server that answers each of so many hellos with the same.
pub(crate) fn serve(
    path: &Path,
    clients: usize,
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
) -> JoinHandle<()> {
    let listener = socket();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 16).unwrap();
    std::thread::spawn(move || {
        for _ in 0..clients {
            let socket = accept(&listener).unwrap();
            let mut hello = [0; 64];
            recv(&socket, &mut hello, RecvFlags::empty()).unwrap();
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            if !bytes.is_empty() {
                send(&socket, &bytes, &descriptors);
            }
            // Until the client hangs up.
            let _ = recv(&socket, &mut hello, RecvFlags::empty());
        }
    })
}
