//! How connections begin and end, and operations that move no bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, socket};
use transload::proactor::{IoError, Shutdown, Socket};

use super::pattern::{Checker, Pattern};
use super::rig::{Kind, is_at_its_end, lease, look, pair, patient, read_checked, reset};
use super::subject::Run;

fn listener() -> (Socket, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener.into(), address)
}

/// Several at once and one after the other; each is a connection of its own.
pub fn many_are_accepted(run: &Run) {
    let rig = run.rig();
    let (ours, address) = listener();
    let pool = rig.pool(1, 8);
    let mut accept = rig.handle.accept(&ours);
    for at_once in [1_u64, 20, 100] {
        let peers: Vec<TcpStream> = (0..at_once)
            .map(|index| {
                let mut peer = TcpStream::connect(address).unwrap();
                patient(&peer);
                peer.write_all(&index.to_ne_bytes()).unwrap();
                peer
            })
            .collect();
        let mut seen = vec![false; peers.len()];
        for _ in 0..at_once {
            let connection = rig.on(accept.connection()).unwrap().unwrap();
            let received = rig.on(rig.handle.receive_into(&connection, pool.try_acquire().unwrap()));
            assert_eq!(received.result, Ok(8));
            let lease = received.buffers.into_lease().unwrap();
            let index = u64::from_ne_bytes(lease[..].try_into().unwrap());
            let index = usize::try_from(index).unwrap();
            assert!(!seen[index], "accepted twice");
            seen[index] = true;
            drop(rig.send(&connection, lease));
            assert!(rig.until(|| pool.available() == 1));
        }
        for (index, mut peer) in (0_u64..).zip(peers) {
            let mut answer = [0; 8];
            peer.read_exact(&mut answer).unwrap();
            assert_eq!(u64::from_ne_bytes(answer), index);
            assert!(is_at_its_end(&mut peer), "the last handle closes");
        }
    }
}

/// Cancelled: what was accepted is delivered, then comes an error, then nothing; the listener goes on to be of use.
pub fn accepting_is_cancelled(run: &Run) {
    let rig = run.rig();
    let (ours, address) = listener();
    for waiting in [0, 1, 70] {
        let mut accept = rig.handle.accept(&ours);
        let peers: Vec<_> = (0..waiting).map(|_| TcpStream::connect(address).unwrap()).collect();
        for _ in 0..5 {
            rig.turn();
        }
        accept.cancel();
        let mut accepted = Vec::new();
        let error = loop {
            match rig.on(accept.connection()) {
                Some(Ok(socket)) => accepted.push(socket),
                Some(Err(error)) => break error,
                None => panic!("an end without an error"),
            }
        };
        assert!(matches!(error, IoError::Cancelled { .. }), "{error}");
        assert!(rig.on(accept.connection()).is_none());
        // Those that are left are there for the next.
        let mut rest = rig.handle.accept(&ours);
        while accepted.len() < waiting {
            accepted.push(rig.on(rest.connection()).unwrap().unwrap());
        }
        drop((rest, peers));
        // Until it has ended it may accept, and what it accepts goes with it.
        assert!(rig.until(|| rig.handle.in_flight() == 0));
    }
}

/// Dropped with connections that nobody has taken: they are closed.
pub fn accepted_and_never_taken(run: &Run) {
    let rig = run.rig();
    let (ours, address) = listener();
    let accept = rig.handle.accept(&ours);
    let mut peers: Vec<_> = (0..10).map(|_| TcpStream::connect(address).unwrap()).collect();
    peers.iter().for_each(patient);
    for _ in 0..10 {
        rig.turn();
    }
    drop(accept);
    assert!(rig.until(|| rig.handle.in_flight() == 0));
    rig.on(rig.handle.close(ours)).unwrap();
    for peer in &mut peers {
        // An end, or a reset where it had still been in the listener's queue.
        let ended = peer.read(&mut [0]);
        assert!(!ended.is_ok_and(|count| count > 0));
    }
}

/// A listener that is closed ends its accepting.
pub fn a_closed_listener_accepts_nothing(run: &Run) {
    let rig = run.rig();
    let (ours, address) = listener();
    let mut accept = rig.handle.accept(&ours);
    rig.turn();
    rig.on(rig.handle.close(ours)).unwrap();
    let ended = rig.on(accept.connection());
    assert!(matches!(ended, Some(Err(IoError::Cancelled { .. }))), "{ended:?}");
    assert!(rig.on(accept.connection()).is_none());
    drop(accept);
    let refused = TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

/// What listens is connected to, what does not refuses; the socket comes back, or is closed.
pub fn connecting(run: &Run) {
    let rig = run.rig();
    let pool = rig.pool(1, 100);
    let new = || Socket::from(socket(AddressFamily::INET, SocketType::STREAM, None).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for _ in 0..10 {
        let socket = rig.on(rig.handle.connect(new(), address)).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        patient(&peer);
        drop(rig.send(&socket, lease(&pool, Pattern(100), 0, 100)));
        read_checked(&mut peer, &mut Checker::new(Pattern(100)), 100);
        assert!(rig.until(|| pool.available() == 1));
    }
    drop(listener);
    let refused = rig.on(rig.handle.connect(new(), address)).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED), "{refused}");
    let dropped = rig.handle.connect(new(), address);
    drop(dropped);
    assert!(rig.until(|| rig.handle.in_flight() == 0));
}

/// Each direction ends by itself.
pub fn halves_are_shut_down(run: &Run) {
    let rig = run.rig();
    let (pool, received) = (rig.pool(1, 100), rig.receive_pool(2, 100));
    for kind in [Kind::Tcp, Kind::Unix] {
        let (ours, mut peer) = pair(kind);
        drop(rig.send(&ours, lease(&pool, Pattern(101), 0, 100)));
        rig.on(rig.handle.shutdown(&ours, Shutdown::Write)).unwrap();
        read_checked(&mut peer, &mut Checker::new(Pattern(101)), 100);
        assert!(is_at_its_end(&mut peer));
        peer.write_all(&Pattern(102).bytes(0, 50)).unwrap();
        let mut receive = rig.handle.receive(&ours, &received);
        rig.take_until(&mut receive, &mut Checker::new(Pattern(102)), 50);
        assert!(look(&mut Box::pin(receive.delivery())).is_pending());
        // What waits for bytes sees the end of its own direction.
        rig.on(rig.handle.shutdown(&ours, Shutdown::Read)).unwrap();
        rig.end(&mut receive);
        assert!(rig.until(|| pool.available() == 1));
    }
    let (ours, _peer) = pair(Kind::Tcp);
    rig.on(rig.handle.shutdown(&ours, Shutdown::Both)).unwrap();
}

/// Ready when there are bytes, an end or an error, and takes nothing.
pub fn readable_takes_nothing(run: &Run) {
    let rig = run.rig();
    let pool = rig.pool(1, 100);
    let (ours, mut peer) = pair(Kind::Tcp);
    let mut readable = rig.handle.readable(&ours);
    for _ in 0..5 {
        rig.turn();
        assert!(look(&mut readable).is_pending());
    }
    peer.write_all(&Pattern(103).bytes(0, 100)).unwrap();
    rig.on(readable).unwrap();
    rig.on(rig.handle.readable(&ours)).unwrap();
    let mut checker = Checker::new(Pattern(103));
    while checker.seen() < 100 {
        let received = rig.on(rig.handle.receive_into(&ours, pool.try_acquire().unwrap()));
        let count = received.result.unwrap();
        checker.feed(&received.buffers.into_lease().unwrap()[..count]);
    }
    let readable = rig.handle.readable(&ours);
    rig.turn();
    drop(peer);
    rig.on(readable).unwrap();
    let (ours, peer) = pair(Kind::Tcp);
    let mut readable = rig.handle.readable(&ours);
    rig.turn();
    assert!(look(&mut readable).is_pending());
    reset(peer);
    // There is something to be had: the error.
    let _ready = rig.on(readable);
    let received = rig.on(rig.handle.receive_into(&ours, pool.try_acquire().unwrap()));
    assert_eq!(received.result.unwrap_err().raw_os_error(), Some(libc::ECONNRESET));
}

/// Through the whole back end and back, many at once.
pub fn nothing_is_done_a_thousand_times(run: &Run) {
    let rig = run.rig();
    let nops: Vec<_> = (0..1000).map(|_| rig.handle.nop()).collect();
    for nop in nops {
        rig.on(nop).unwrap();
    }
    let statistics = rig.proactor.statistics();
    assert_eq!((statistics.submitted, statistics.finished), (1000, 1000));
    assert_eq!(rig.handle.in_flight(), 0);
}

/// Time-outs end in the order of their times, whatever the order of their submission, and not before.
pub fn time_outs_end_in_order(run: &Run) {
    let rig = run.rig();
    let start = Instant::now();
    let times = [30_u64, 5, 60, 0, 15, 45];
    let mut waiting: Vec<_> =
        times.iter().map(|&ms| (ms, rig.handle.timeout(Duration::from_millis(ms)))).collect();
    let mut ended = Vec::new();
    assert!(rig.until(|| {
        let mut now: Vec<u64> = Vec::new();
        waiting.retain_mut(|(ms, timeout)| match look(timeout) {
            std::task::Poll::Ready(result) => {
                result.unwrap();
                assert!(start.elapsed() >= Duration::from_millis(*ms), "too early");
                now.push(*ms);
                false
            }
            std::task::Poll::Pending => true,
        });
        now.sort_unstable();
        ended.extend(now);
        waiting.is_empty()
    }));
    assert_eq!(ended, [0, 5, 15, 30, 45, 60]);
    // One that is never due keeps nobody awake, and none from working.
    let never = rig.handle.timeout(Duration::MAX);
    rig.on(rig.handle.nop()).unwrap();
    drop(never);
    assert!(rig.until(|| rig.handle.in_flight() == 0));
}

/// A wait without an end ends when something happens, from whatever thread.
pub fn a_wait_ends_when_asked_to(run: &Run) {
    let rig = run.rig();
    for round in 1..=50 {
        let handle = rig.handle.clone();
        let elsewhere = thread::spawn(move || {
            thread::sleep(Duration::from_micros(500));
            handle.nop()
        });
        while rig.proactor.statistics().submitted < round {
            // The other thread's submission ends it.
            rig.proactor.poll(None).unwrap();
        }
        let mut nop = elsewhere.join().unwrap();
        assert!(rig.until(|| look(&mut nop).is_ready()));
    }
}
