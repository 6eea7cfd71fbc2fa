//! Accepting and connecting.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{Errno, FdFlags, fcntl_getfd};
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags, SocketType, socket_with};

use super::super::super::backend::{Attempt, Backend, Completion, Event};
use super::super::super::socket::Socket;
use super::fixture::{Bench, key, listener, piece, pool};

/// The next completion, which has to be a connection.
fn accepted(bench: &mut Bench, number: u32) -> OwnedFd {
    match bench.next() {
        Completion { key: of, event: Event::Accepted(fd), more: true } if of == key(number) => fd,
        other => panic!("no connection of {number}: {other:?}"),
    }
}

fn unconnected() -> Socket {
    Socket::from(socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap())
}

fn address(listener: &TcpListener) -> SocketAddrAny {
    listener.local_addr().unwrap().into()
}

#[test]
fn one_attempt_accepts_many() {
    let (listener, mut bench) = (listener(), Bench::new());
    let to = listener.local_addr().unwrap();
    let early: Vec<_> = (0..40).map(|_| TcpStream::connect(to).unwrap()).collect();
    let socket = Socket::from(listener);
    bench.backend.start(key(1), Attempt::Accept { socket: &socket });
    let mut connections: Vec<_> = early.iter().map(|_| accepted(&mut bench, 1)).collect();
    bench.nothing();
    let mut late = TcpStream::connect(to).unwrap();
    connections.push(accepted(&mut bench, 1));
    for connection in &connections {
        assert!(fcntl_getfd(connection).unwrap().contains(FdFlags::CLOEXEC));
        assert!(!fcntl_getfl(connection).unwrap().contains(OFlags::NONBLOCK));
    }
    late.write_all(b"hello").unwrap();
    let mut stream = TcpStream::from(connections.pop().unwrap());
    let mut received = [0; 5];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"hello");
    assert!(!fcntl_getfl(&socket).unwrap().contains(OFlags::NONBLOCK));
    bench.backend.cancel(key(1));
    assert_eq!(bench.done(1), Err(Errno::CANCELED));
}

#[test]
fn a_blocking_listener_whose_client_vanished_blocks_nobody() {
    let (listener, mut bench) = (listener(), Bench::new());
    let to = listener.local_addr().unwrap();
    let rival = listener.try_clone().unwrap();
    let socket = Socket::from(listener);
    bench.backend.start(key(1), Attempt::Accept { socket: &socket });
    bench.nothing();
    // The poller reports the client, which another handle takes before the attempt is served.
    for _ in 0..5 {
        let client = TcpStream::connect(to).unwrap();
        drop(rival.accept().unwrap());
        drop(client);
        bench.nothing();
    }
    let _client = TcpStream::connect(to).unwrap();
    accepted(&mut bench, 1);
}

#[test]
fn a_client_that_was_reset_in_the_queue_does_not_end_the_listening() {
    let (listener, mut bench) = (listener(), Bench::new());
    let to = listener.local_addr().unwrap();
    let client = TcpStream::connect(to).unwrap();
    rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO)).unwrap();
    drop(client);
    let _client = TcpStream::connect(to).unwrap();
    let socket = Socket::from(listener);
    bench.backend.start(key(1), Attempt::Accept { socket: &socket });
    // Linux hands out the dead one as well.
    while TcpStream::from(accepted(&mut bench, 1)).peer_addr().is_err() {}
}

#[test]
fn a_socket_that_does_not_listen_is_an_error() {
    let (mut bench, socket) = (Bench::new(), unconnected());
    bench.backend.start(key(1), Attempt::Accept { socket: &socket });
    assert_eq!(bench.done(1), Err(Errno::INVAL));
}

#[test]
fn connects_and_leaves_the_socket_blocking() {
    let (listener, mut bench, socket) = (listener(), Bench::new(), unconnected());
    bench.backend.start(key(1), Attempt::Connect { socket: &socket, address: &address(&listener) });
    assert_eq!(bench.done(1), Ok(0));
    assert!(!fcntl_getfl(&socket).unwrap().contains(OFlags::NONBLOCK));
    let (mut far, _) = listener.accept().unwrap();
    far.write_all(b"hi").unwrap();
    let pool = pool(1, 8);
    let lease = pool.try_acquire().unwrap();
    bench.receive(2, &socket, &[piece(&lease)]);
    assert_eq!((bench.done(2), &lease[..2]), (Ok(2), &b"hi"[..]));
}

#[test]
fn a_refused_connection_says_so() {
    let (listener, mut bench, socket) = (listener(), Bench::new(), unconnected());
    let nobody = address(&listener);
    drop(listener);
    bench.backend.start(key(1), Attempt::Connect { socket: &socket, address: &nobody });
    assert_eq!(bench.done(1), Err(Errno::CONNREFUSED));
}

#[test]
fn a_connection_that_hangs_can_be_cancelled() {
    // A backlog that is full leaves the next connections without an answer.
    let fd = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&fd, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&fd, 0).unwrap();
    let listener = TcpListener::from(fd);
    let (mut bench, sockets) = (Bench::new(), (0..4).map(|_| unconnected()).collect::<Vec<_>>());
    for (number, socket) in (0..).zip(&sockets) {
        bench.backend.start(key(number), Attempt::Connect { socket, address: &address(&listener) });
    }
    let mut connected = 0;
    while let Some(completion) = bench.wait(super::fixture::SHORT).pop() {
        assert!(matches!(completion.event, Event::Done(Ok(0))), "{completion:?}");
        connected += 1;
    }
    assert!(connected < 4);
    (0..4).for_each(|number| bench.backend.cancel(key(number)));
    let cancelled = bench.wait(super::fixture::LONG);
    assert_eq!(cancelled.len(), 4 - connected);
    for completion in cancelled {
        assert!(matches!(completion.event, Event::Done(Err(Errno::CANCELED))), "{completion:?}");
    }
}

#[test]
fn unix_sockets_connect_and_are_accepted() {
    let name = rustix::net::SocketAddrUnix::new_abstract_name(
        format!("transload-{}", std::process::id()).as_bytes(),
    );
    let name = name.unwrap();
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&fd, &name).unwrap();
    rustix::net::listen(&fd, 8).unwrap();
    let listener = Socket::from(UnixListener::from(fd));
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let (mut bench, socket) = (Bench::new(), Socket::from(fd));
    bench.backend.start(key(1), Attempt::Accept { socket: &listener });
    bench.backend.start(key(2), Attempt::Connect { socket: &socket, address: &name.into() });
    assert_eq!(bench.done(2), Ok(0));
    accepted(&mut bench, 1);
}
