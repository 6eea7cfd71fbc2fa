//! Peers that go while something is to be sent to them.

use transload::proactor::{IoError, ZeroCopy};

use super::pattern::{Checker, Pattern};
use super::rig::{Kind, Rig, lease, look, pair, read_checked, reset};
use super::subject::Run;
use crate::confinement::restore_sigpipe;

fn is_of_a_peer_that_has_gone(error: IoError) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET))
}

/// An error, with the memory back; never the signal that would end the process. In a process of its own, where that
/// signal does what it does in programs that are not Rust.
pub fn a_peer_that_has_gone_is_an_error_and_no_signal(run: &Run) {
    if !run.is_alone() {
        return run.in_a_process();
    }
    restore_sigpipe().unwrap();
    let rig = run.rig();
    let pool = rig.pool(4, 100_000);
    for kind in [Kind::Tcp, Kind::Unix] {
        for zero_copy in [ZeroCopy::Off, ZeroCopy::On] {
            for len in [1, 100_000] {
                let (ours, peer) = pair(kind);
                drop(peer);
                fails(&rig, || {
                    let parts = vec![lease(&pool, Pattern(80), 0, len).into()];
                    rig.handle.send_with(&ours, parts, zero_copy)
                });
                assert!(rig.until(|| pool.available() == 4));
            }
            let (ours, _peer) = pair(kind);
            rig.on(rig.handle.shutdown(&ours, transload::proactor::Shutdown::Write)).unwrap();
            fails(&rig, || rig.handle.send_with(&ours, lease(&pool, Pattern(80), 0, 100), zero_copy));
            assert!(rig.until(|| pool.available() == 4));
        }
    }
}

/// Sends until one fails, as it has to.
fn fails(rig: &Rig, mut begin: impl FnMut() -> transload::proactor::PendingSend) {
    for _ in 0..1000 {
        let sent = rig.on(begin());
        match sent.result {
            Ok(_) => {}
            Err(error) if is_of_a_peer_that_has_gone(error) => {
                let returned = rig.on(sent.returned());
                assert!(returned.buffers.len_bytes() > 0, "the memory comes back");
                return;
            }
            Err(error) => panic!("another error: {error}"),
        }
    }
    panic!("a thousand sends to nobody, and no error");
}

/// Fifty sends under way: each ends, each lease comes back, and the close ends.
pub fn a_reset_under_fifty_sends(run: &Run) {
    const SIZE: usize = 200_000;
    for zero_copy in [ZeroCopy::On, ZeroCopy::Off] {
        let rig = run.rig();
        let pool = rig.pool(50, SIZE);
        let (ours, mut peer) = pair(Kind::Tcp);
        let sends: Vec<_> = (0..50)
            .map(|index| {
                let bytes = lease(&pool, Pattern(81), index * SIZE as u64, SIZE);
                rig.handle.send_with(&ours, bytes, zero_copy)
            })
            .collect();
        for _ in 0..5 {
            rig.turn();
        }
        read_checked(&mut peer, &mut Checker::new(Pattern(81)), 10);
        reset(peer);
        let mut failed = 0;
        for send in sends {
            let sent = rig.on(send);
            match sent.result {
                Ok(bytes) => assert_eq!((bytes, failed), (SIZE, 0), "none succeeds behind one that failed"),
                Err(error) => {
                    assert!(is_of_a_peer_that_has_gone(error), "{error}");
                    assert!(sent.bytes < SIZE);
                    failed += 1;
                }
            }
            let lease = rig.on(sent.returned()).buffers.into_lease().unwrap();
            assert_eq!(lease.len(), SIZE);
        }
        assert!(failed > 0, "ten megabytes do not fit a socket");
        assert_eq!(pool.available(), 50);
        rig.on(rig.handle.close(ours)).unwrap();
    }
}

/// The error of a send that was begun says how many bytes had gone.
pub fn an_error_says_how_much_was_sent(run: &Run) {
    const SIZE: usize = 16 << 20;
    let rig = run.rig();
    let pool = rig.pool(1, SIZE);
    let (ours, mut peer) = pair(Kind::Tcp);
    let mut stuck = rig.handle.send_with(&ours, lease(&pool, Pattern(82), 0, SIZE), ZeroCopy::Off);
    for _ in 0..10 {
        rig.turn();
        assert!(look(&mut stuck).is_pending());
    }
    // What has been read was sent before; and reading makes room for a second part.
    let reading = std::thread::spawn(move || {
        read_checked(&mut peer, &mut Checker::new(Pattern(82)), 4 << 20);
        peer
    });
    while !reading.is_finished() {
        rig.turn();
        assert!(look(&mut stuck).is_pending());
    }
    reset(reading.join().unwrap());
    let sent = rig.on(stuck);
    assert!(sent.result.is_err_and(is_of_a_peer_that_has_gone), "{:?}", sent.result);
    assert!(sent.bytes < SIZE, "{}", sent.bytes);
    assert_eq!(rig.on(sent.returned()).buffers.len_bytes(), SIZE);
}

/// A close cancels what is under way on the socket and on no other, and gives all memory back.
pub fn a_close_ends_what_is_under_way(run: &Run) {
    const SIZE: usize = 16 << 20;
    let rig = run.rig();
    let (pool, small, received) = (rig.pool(1, SIZE), rig.pool(2, 100), rig.receive_pool(2, 100));
    let ((ours, peer), (other, mut other_peer)) = (pair(Kind::Tcp), pair(Kind::Tcp));
    let on_other = rig.handle.receive_into(&other, small.try_acquire().unwrap());
    let send = rig.handle.send_with(&ours, lease(&pool, Pattern(83), 0, SIZE), ZeroCopy::Off);
    let into = rig.handle.receive_into(&ours, small.try_acquire().unwrap());
    let readable = rig.handle.readable(&ours);
    let mut receive = rig.handle.receive(&ours, &received);
    for _ in 0..5 {
        rig.turn();
    }
    let close = rig.handle.close(ours);
    let ended = |error: IoError| matches!(error, IoError::Cancelled { .. });
    rig.on(async {
        close.await.unwrap();
        assert!(send.await.result.is_err_and(ended));
        assert!(into.await.result.is_err_and(ended));
        assert!(readable.await.is_err_and(ended));
        assert!(receive.delivery().await.unwrap().is_err_and(ended));
    });
    drop(receive);
    assert!(rig.until(|| pool.available() == 1));
    // The last handle has gone: the peer finds the end behind what had been sent.
    let mut peer = peer;
    let (mut buffer, mut checker) = (vec![0; 1 << 20], Checker::new(Pattern(83)));
    loop {
        match std::io::Read::read(&mut peer, &mut buffer) {
            Ok(0) => break,
            Ok(count) => checker.feed(&buffer[..count]),
            Err(error) => panic!("{error}"),
        }
    }
    std::io::Write::write_all(&mut other_peer, b"still here").unwrap();
    let received = rig.on(on_other);
    assert_eq!(received.result, Ok(10));
    assert_eq!(received.buffers.into_lease().unwrap()[..10], *b"still here");
}
