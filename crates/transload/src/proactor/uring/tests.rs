//! On the real kernel, through the trait.

mod chains;
mod files;
mod limits;
mod policies;
mod receives;
mod sends;
mod storm;
mod waits;

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::UringBackend;
use crate::memory::{Policy, Slab};
use crate::pool::{BufferPool, Lease};
use crate::proactor::backend::{Attempt, Backend, Completion, Event, Piece};
use crate::proactor::capability::Capabilities;
use crate::proactor::key::Key;
use crate::proactor::socket::Socket;
use crate::region::{Access, Region, Registration};

/// Longer than anything here takes; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(20);
/// Shorter than anybody minds, for what is not to happen.
const SHORT: Duration = Duration::from_millis(30);

/// A back end, and the completions of it that nobody has asked for yet.
struct Bench {
    backend: UringBackend,
    seen: Vec<Completion>,
    next: u32,
}

impl Bench {
    fn new() -> Self {
        Self::with(64, Capabilities::ALL)
    }

    fn with(entries: u32, allowed: Capabilities) -> Self {
        Self { backend: UringBackend::open(entries, allowed).unwrap(), seen: Vec::new(), next: 0 }
    }

    fn key(&mut self) -> Key {
        self.next += 1;
        Key { index: self.next, generation: 1 }
    }

    fn start(&mut self, attempt: Attempt<'_>) -> Key {
        let key = self.key();
        self.backend.start(key, attempt);
        key
    }

    /// The next completion of this key.
    fn next(&mut self, key: Key) -> Completion {
        let start = Instant::now();
        loop {
            if let Some(at) = self.seen.iter().position(|completion| completion.key == key) {
                return self.seen.remove(at);
            }
            let left = LONG.saturating_sub(start.elapsed());
            assert!(!left.is_zero(), "no completion of {key:?}; seen: {:?}", self.seen);
            self.backend.wait(Some(left), &mut self.seen).unwrap();
        }
    }

    /// The only completion of this key: the result, and nothing will follow.
    fn done(&mut self, key: Key) -> Result<usize, Errno> {
        match self.next(key) {
            Completion { event: Event::Done(result), more: false, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    /// Nothing happens to this key.
    fn nothing(&mut self, key: Key) {
        let start = Instant::now();
        while start.elapsed() < SHORT {
            self.backend.wait(Some(SHORT.saturating_sub(start.elapsed())), &mut self.seen).unwrap();
        }
        let of_key = self.seen.iter().find(|completion| completion.key == key);
        assert!(of_key.is_none(), "{of_key:?}");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.backend.requests.strays, 0, "completions of no request");
        }
    }
}

fn slab(count: usize, size: usize) -> Slab {
    Slab::builder(count, size).lock(Policy::Never).build().unwrap()
}

fn pool(count: usize, size: usize) -> BufferPool {
    let registration = Registration::Copy { reason: "test".to_owned() };
    let region = Region::new(slab(count, size), Access::READ_WRITE, registration, Box::new(()));
    BufferPool::new(&region).unwrap()
}

fn piece(lease: &Lease) -> Piece {
    Piece { address: lease.as_ptr(), len_bytes: lease.len(), slot: None }
}

/// A lease with these bytes.
fn filled(pool: &BufferPool, bytes: &[u8]) -> Lease {
    let mut lease = pool.try_acquire().unwrap();
    lease.resize(bytes.len());
    lease.copy_from_slice(bytes);
    lease
}

/// Bytes that tell where they are.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 7 + at / 251) % 251).unwrap()).collect()
}

fn unix_pair() -> (Socket, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(LONG)).unwrap();
    (Socket::from(ours), theirs)
}

fn tcp_pair() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (theirs, _) = listener.accept().unwrap();
    theirs.set_read_timeout(Some(LONG)).unwrap();
    theirs.set_nodelay(true).unwrap();
    (Socket::from(ours), theirs)
}
