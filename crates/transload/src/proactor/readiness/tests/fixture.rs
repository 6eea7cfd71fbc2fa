//! What the tests share.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::super::super::backend::{Attempt, Backend, Completion, Event, Group, Piece};
use super::super::super::capability::Capabilities;
use super::super::super::key::Key;
use super::super::super::socket::Socket;
use super::super::ReadinessBackend;
use crate::memory::{Policy, Slab};
use crate::pool::{BufferPool, Lease};
use crate::region::{Access, Region, Registration};

/// No test waits longer for what has to come.
pub(super) const LONG: Duration = Duration::from_secs(20);

/// For what must not come.
pub(super) const SHORT: Duration = Duration::from_millis(50);

pub(super) fn key(index: u32) -> Key {
    Key { index, generation: 1 }
}

pub(super) fn pool(count: usize, len_bytes: usize) -> BufferPool {
    let slab = Slab::builder(count, len_bytes).lock(Policy::Never).build().unwrap();
    let registration = Registration::Copy { reason: "a test".to_owned() };
    BufferPool::new(&Region::new(slab, Access::READ_WRITE, registration, Box::new(()))).unwrap()
}

/// A lease with these bytes.
pub(super) fn filled(pool: &BufferPool, bytes: &[u8]) -> Lease {
    let mut lease = pool.try_acquire().unwrap();
    lease[..bytes.len()].copy_from_slice(bytes);
    lease.resize(bytes.len());
    lease
}

pub(super) fn piece(lease: &Lease) -> Piece {
    Piece { address: lease.as_ptr(), len_bytes: lease.len(), slot: None }
}

/// A pair of connected Unix sockets; the second is the peer's.
pub(super) fn pair() -> (Socket, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    far.set_read_timeout(Some(LONG)).unwrap();
    (Socket::from(near), far)
}

/// A TCP connection over the loop-back device; the second end is the peer's.
pub(super) fn tcp() -> (Socket, TcpStream) {
    let listener = listener();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    far.set_read_timeout(Some(LONG)).unwrap();
    (Socket::from(listener.accept().unwrap().0), far)
}

pub(super) fn listener() -> TcpListener {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap()
}

/// Bytes that differ from place to place.
pub(super) fn pattern(start: usize, len: usize) -> Vec<u8> {
    (start..start + len).map(|at| u8::try_from((at / 251 + at) % 251).unwrap()).collect()
}

/// The back end and what it has handed out.
pub(super) struct Bench {
    pub(super) backend: ReadinessBackend,
    handed_out: Vec<Completion>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self { backend: ReadinessBackend::open(Capabilities::ALL).unwrap(), handed_out: Vec::new() }
    }

    pub(super) fn with_pool(group: Group, pool: &BufferPool) -> Self {
        let mut bench = Self::new();
        bench.backend.add_pool(group, pool).unwrap();
        bench
    }

    pub(super) fn send(&mut self, number: u32, socket: &Socket, pieces: &[Piece]) {
        let attempt = Attempt::Send { socket, pieces, zero_copy: false, linked: false };
        self.backend.start(key(number), attempt);
    }

    pub(super) fn receive(&mut self, number: u32, socket: &Socket, pieces: &[Piece]) {
        self.backend.start(key(number), Attempt::Receive { socket, pieces });
    }

    pub(super) fn receive_many(&mut self, number: u32, socket: &Socket, group: Group) {
        self.backend.start(key(number), Attempt::ReceiveMany { socket, group });
    }

    /// One wait; what it handed out.
    pub(super) fn wait(&mut self, timeout: Duration) -> Vec<Completion> {
        let mut completions = std::mem::take(&mut self.handed_out);
        self.backend.wait(Some(timeout), &mut completions).unwrap();
        completions
    }

    /// The next completion.
    pub(super) fn next(&mut self) -> Completion {
        let end = Instant::now() + LONG;
        while self.handed_out.is_empty() {
            self.backend.wait(Some(LONG), &mut self.handed_out).unwrap();
            // One that comes only because the time is up has been waited for in vain.
            assert!(Instant::now() < end, "no completion came in time");
        }
        self.handed_out.remove(0)
    }

    /// The next completion, which has to be the last of this number.
    pub(super) fn done(&mut self, number: u32) -> Result<usize, Errno> {
        match self.next() {
            Completion { key: of, event: Event::Done(result), more: false } if of == key(number) => result,
            other => panic!("not the end of {number}: {other:?}"),
        }
    }

    /// The next completion, which has to be data of this number.
    pub(super) fn data(&mut self, number: u32) -> Lease {
        match self.next() {
            Completion { key: of, event: Event::Data(lease), more: true } if of == key(number) => lease,
            other => panic!("no data of {number}: {other:?}"),
        }
    }

    /// The next completion, which has to say that this number has no buffer.
    pub(super) fn starved(&mut self, number: u32) {
        match self.next() {
            Completion { key: of, event: Event::Starved, more: false } if of == key(number) => {}
            other => panic!("{number} is not starved: {other:?}"),
        }
    }

    /// Nothing comes for a while.
    pub(super) fn nothing(&mut self) {
        let end = Instant::now() + SHORT;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            let completions = self.wait(left);
            assert!(completions.is_empty(), "{completions:?}");
        }
    }
}

/// Fills what a socket holds on its way, so that the next send has to wait; says with how much.
pub(super) fn fill(bench: &mut Bench, socket: &Socket, lease: &Lease) -> usize {
    let mut sent = 0;
    loop {
        bench.send(9999, socket, &[piece(lease)]);
        let completions = bench.wait(SHORT);
        match completions.first() {
            Some(Completion { event: Event::Done(Ok(bytes)), .. }) => sent += bytes,
            Some(other) => panic!("{other:?}"),
            None => {
                bench.backend.cancel(key(9999));
                assert_eq!(bench.done(9999), Err(Errno::CANCELED));
                return sent;
            }
        }
    }
}

/// Writes all of it from another thread.
pub(super) fn write_from_thread(
    mut far: impl Write + Send + 'static,
    bytes: Vec<u8>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || far.write_all(&bytes).unwrap())
}
