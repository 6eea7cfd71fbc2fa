//! A proactor, pools of it, and peers that are ordinary threads.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use transload::memory::{Policy, Slab};
use transload::pool::{BufferPool, Lease};
use transload::proactor::{Handle, Proactor, ProactorBuilder, Receive, ReceivePool, Received, Sent, Socket};
use transload::region::{Access, Region};

use super::pattern::{Checker, Pattern};
use crate::watchdog::PATIENCE;

/// A proactor on this thread.
#[derive(Debug)]
pub struct Rig {
    /// It.
    pub proactor: Proactor,
    /// The way to it.
    pub handle: Handle,
}

impl Rig {
    /// Makes it.
    pub fn new(builder: ProactorBuilder) -> Self {
        let proactor = builder.build().unwrap();
        Self { handle: proactor.handle(), proactor }
    }

    /// Polls until a future is ready.
    pub fn on<F: Future>(&self, future: F) -> F::Output {
        self.proactor.block_on(future).unwrap()
    }

    /// Polls until something holds, for as long as the suite has patience; says whether it does.
    pub fn until(&self, mut holds: impl FnMut() -> bool) -> bool {
        let end = Instant::now() + PATIENCE;
        while !holds() {
            if Instant::now() > end {
                return false;
            }
            self.turn();
        }
        true
    }

    /// Polls for a moment.
    pub fn turn(&self) {
        self.proactor.poll(Some(Duration::from_millis(1))).unwrap();
    }

    /// A region over a slab of its own.
    pub fn region(&self, buffers: usize, size: usize, access: Access) -> Region {
        self.proactor.register_slab(&slab(buffers, size), access).unwrap()
    }

    /// A pool to send from and to read files into.
    pub fn pool(&self, buffers: usize, size: usize) -> BufferPool {
        BufferPool::new(&self.region(buffers, size, Access::READ_WRITE)).unwrap()
    }

    /// A pool to receive into.
    pub fn receive_pool(&self, buffers: usize, size: usize) -> ReceivePool {
        self.proactor.receive_pool(&self.region(buffers, size, Access::WRITE)).unwrap()
    }

    /// Sends everything; panics unless all was sent.
    pub fn send(&self, socket: &Socket, lease: Lease) -> Sent {
        let len = lease.len();
        let sent = self.on(self.handle.send(socket, lease));
        assert_eq!((sent.result, sent.bytes), (Ok(len), len));
        sent
    }

    /// Takes deliveries until a checker has seen so many bytes.
    pub fn take_until(&self, receive: &mut Receive, checker: &mut Checker, total: u64) {
        while checker.seen() < total {
            checker.feed(&self.data(receive));
        }
    }

    /// The next delivery, which is bytes.
    pub fn data(&self, receive: &mut Receive) -> Lease {
        match self.on(receive.delivery()) {
            Some(Ok(Received::Data(lease))) => {
                assert!(!lease.is_empty(), "a delivery of no bytes is no delivery");
                lease
            }
            other => panic!("neither bytes nor patience: {other:?}"),
        }
    }

    /// The end of the stream, once, and nothing behind it.
    pub fn end(&self, receive: &mut Receive) {
        let end = self.on(receive.delivery());
        assert!(matches!(end, Some(Ok(Received::End))), "{end:?}");
        for _ in 0..2 {
            let behind = self.on(receive.delivery());
            assert!(behind.is_none(), "{behind:?}");
        }
    }
}

/// A slab that is not locked, so that it fits every limit.
pub fn slab(buffers: usize, size: usize) -> Slab {
    Slab::builder(buffers, size).lock(Policy::Never).build().unwrap()
}

/// A lease of so many bytes of a pattern.
pub fn lease(pool: &BufferPool, pattern: Pattern, from: u64, len: usize) -> Lease {
    let mut lease = pool.try_acquire().unwrap();
    lease.resize(len);
    assert_eq!(lease.len(), len);
    pattern.fill(from, &mut lease);
    lease
}

/// What connects the two ends of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP on the loop-back device.
    Tcp,
    /// Unix sockets.
    Unix,
}

/// Two connected sockets: ours, and a peer's. The peer's is a `TcpStream` for Unix sockets too, since all that we use
/// of it (`recv`, `send`, `shutdown`, time-outs) is the same for both. It blocks, at most for as long as the suite has
/// patience.
pub fn pair(kind: Kind) -> (Socket, TcpStream) {
    let (ours, peer): (OwnedFd, TcpStream) = match kind {
        Kind::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (listener.accept().unwrap().0.into(), peer)
        }
        Kind::Unix => {
            let (ours, peer) = UnixStream::pair().unwrap();
            (ours.into(), OwnedFd::from(peer).into())
        }
    };
    patient(&peer);
    (ours.into(), peer)
}

/// Bounds what a peer waits.
pub fn patient(peer: &TcpStream) {
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    peer.set_write_timeout(Some(PATIENCE)).unwrap();
}

/// Makes a peer go with a reset instead of an end: what it has not read is thrown away.
pub fn reset(peer: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    drop(peer);
}

/// Writes bytes of a pattern, in pieces of all kinds of lengths.
pub fn write_pieces(peer: &mut TcpStream, pattern: Pattern, from: u64, total: u64) {
    let mut at = from;
    for length in [1, 7, 4096, 333, 65_537, 2, 10_007].iter().cycle() {
        let left = from + total - at;
        if left == 0 {
            return;
        }
        let bytes = pattern.bytes(at, usize::try_from(left.min(*length)).unwrap());
        peer.write_all(&bytes).unwrap();
        at += bytes.len() as u64;
    }
}

/// A thread that writes so many bytes of a pattern and gives its socket back.
pub fn writer(mut peer: TcpStream, pattern: Pattern, total: u64) -> JoinHandle<TcpStream> {
    thread::spawn(move || {
        write_pieces(&mut peer, pattern, 0, total);
        peer
    })
}

/// Reads so many bytes, and checks each.
pub fn read_checked(peer: &mut TcpStream, checker: &mut Checker, total: u64) {
    let mut buffer = vec![0; 64 << 10];
    while checker.seen() < total {
        let most = usize::try_from(total - checker.seen()).unwrap().min(buffer.len());
        let count = peer.read(&mut buffer[..most]).unwrap();
        assert!(count > 0, "the stream ends after {} of {total} bytes", checker.seen());
        checker.feed(&buffer[..count]);
    }
}

/// A thread that reads so many bytes of a pattern, checks each, and gives its socket back.
pub fn reader(mut peer: TcpStream, pattern: Pattern, total: u64) -> JoinHandle<TcpStream> {
    thread::spawn(move || {
        let mut checker = Checker::new(pattern);
        read_checked(&mut peer, &mut checker, total);
        checker.finish(total);
        peer
    })
}

/// Whether a peer has come to the end of its stream.
pub fn is_at_its_end(peer: &mut TcpStream) -> bool {
    peer.read(&mut [0]).unwrap() == 0
}

/// Looks at a future once.
pub fn look<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Another executor: waits for a future on this thread, bounded in time.
pub fn wait_for<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, end) = (pin!(future), Instant::now() + PATIENCE);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let left = end.checked_duration_since(Instant::now());
        thread::park_timeout(left.expect("nobody has woken us"));
    }
}
