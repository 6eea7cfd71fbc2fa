//! The proactor as a whole, on each back end that there is: what its parts cannot show by themselves.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod forking;

use std::future::{Future, poll_fn};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use forking::fork;
use transload::memory::{Policy, Slab};
use transload::pool::BufferPool;
use transload::proactor::{Backend, File, Proactor, Received, Socket, ZeroCopy};
use transload::region::Access;

/// One of each back end that works here.
fn proactors() -> impl Iterator<Item = Proactor> {
    [Backend::Uring, Backend::Readiness]
        .into_iter()
        .filter_map(|backend| Proactor::builder().backend(backend).build().ok())
}

fn pool(proactor: &Proactor, buffer_count: usize, buffer_size: usize) -> BufferPool {
    let slab = Slab::builder(buffer_count, buffer_size).lock(Policy::Never).build().unwrap();
    BufferPool::new(&proactor.register_slab(&slab, Access::READ_WRITE).unwrap()).unwrap()
}

#[test]
fn a_child_that_drops_a_proactor_leaves_the_parent_its_own() {
    for proactor in proactors() {
        let backend = proactor.choice().backend;
        let handle = proactor.handle();
        let (mut peer, socket) = UnixStream::pair().unwrap();
        let socket = Socket::from(socket);
        let pool = pool(&proactor, 2, 4096);
        // So that there are threads that the child does not have.
        let file = File::from(std::fs::File::open("/dev/zero").unwrap());
        let read = handle.read_at(&file, pool.try_acquire().unwrap(), 0);
        assert_eq!(proactor.block_on(read).unwrap().result, Ok(4096));
        let receive = handle.receive_into(&socket, pool.try_acquire().unwrap());
        proactor.poll(Some(Duration::ZERO)).unwrap();
        let mut owned = Some((proactor, receive));
        let status = fork(|| drop(owned.take()));
        assert_eq!(status.exit_status(), Some(0), "{backend}: {status:?}");
        let (proactor, receive) = owned.unwrap();
        peer.write_all(b"still there").unwrap();
        assert_eq!(proactor.block_on(receive).unwrap().result, Ok(11), "{backend}");
    }
}

#[test]
fn a_future_that_blocks_on_another_misses_no_call() {
    for proactor in proactors() {
        let handle = proactor.handle();
        let (mut peer, socket) = UnixStream::pair().unwrap();
        let socket = Socket::from(socket);
        let slab = Slab::builder(4, 64).lock(Policy::Never).build().unwrap();
        let pool = proactor.receive_pool(&proactor.register_slab(&slab, Access::WRITE).unwrap()).unwrap();
        let mut receive = handle.receive(&socket, &pool);
        let mut guard = pin!(handle.timeout(Duration::from_secs(5)));
        let (mut has_nested, start) = (false, Instant::now());
        let received = proactor.block_on(poll_fn(|context| {
            if let Poll::Ready(received) = receive.poll_delivery(context) {
                return Poll::Ready(received);
            }
            if !has_nested {
                has_nested = true;
                peer.write_all(b"abc").unwrap();
                // What comes meanwhile calls the outer future, which looks at it only after this.
                proactor.block_on(handle.timeout(Duration::from_millis(50))).unwrap().unwrap();
            }
            // Else it would sleep for ever.
            let _ = guard.as_mut().poll(context);
            Poll::Pending
        }));
        assert!(start.elapsed() < Duration::from_secs(4), "slept through the call");
        assert!(matches!(received.unwrap(), Some(Ok(Received::Data(lease))) if lease[..] == *b"abc"));
    }
}

#[test]
fn a_close_does_not_wait_for_a_peer_that_reads_nothing() {
    for proactor in proactors() {
        let backend = proactor.choice().backend;
        let handle = proactor.handle();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let (peer, _) = listener.accept().unwrap();
        let pool = pool(&proactor, 1, 16 << 20);
        let sending = handle.send_with(&socket, pool.try_acquire().unwrap(), ZeroCopy::On);
        proactor.block_on(handle.timeout(Duration::from_millis(50))).unwrap().unwrap();
        let fd = socket.as_raw_fd();
        let (mut close, mut guard) =
            (pin!(handle.close(socket)), pin!(handle.timeout(Duration::from_secs(3))));
        let ended = proactor.block_on(poll_fn(|context| {
            if guard.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            close.as_mut().poll(context).map(Some)
        }));
        assert_eq!(ended.unwrap(), Some(Ok(())), "{backend}");
        assert!(std::fs::read_link(format!("/proc/self/fd/{fd}")).is_err(), "{backend}: it is open still");
        let sent = proactor.block_on(sending).unwrap();
        assert!(sent.result.is_err(), "{backend}");
        // The kernel may have the memory still: it comes back when the peer has gone too.
        drop(peer);
        assert!(proactor.block_on(sent.returned()).unwrap().buffers.into_lease().is_some());
    }
}
