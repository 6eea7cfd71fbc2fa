//! Cancelled operations: no byte is lost, no memory is kept.

use std::time::Duration;

use transload::proactor::{IoError, Received};

use super::pattern::{Checker, Pattern};
use super::rig::{Kind, is_at_its_end, lease, look, pair, reader, write_pieces, writer};
use super::subject::Run;

fn is_cancelled<T>(result: &Result<T, IoError>) -> bool {
    matches!(result, Err(IoError::Cancelled { .. }))
}

/// Again and again while bytes come: what one receive does not deliver, the next does.
pub fn a_cancelled_receive_loses_nothing(run: &Run) {
    const TOTAL: u64 = 2_000_000;
    for kind in [Kind::Tcp, Kind::Unix] {
        let rig = run.rig();
        let pool = rig.receive_pool(16, 4096);
        let (ours, peer) = pair(kind);
        let writer = writer(peer, Pattern(50), TOTAL);
        let (mut checker, mut cancelled) = (Checker::new(Pattern(50)), 0);
        while checker.seen() < TOTAL {
            let mut receive = rig.handle.receive(&ours, &pool);
            for _ in 0..10 {
                if checker.seen() < TOTAL {
                    checker.feed(&rig.data(&mut receive));
                }
            }
            receive.cancel();
            loop {
                match rig.on(receive.delivery()) {
                    Some(Ok(Received::Data(lease))) => checker.feed(&lease),
                    Some(Err(IoError::Cancelled { .. })) => break,
                    other => panic!("{other:?} after a cancel"),
                }
            }
            assert!(rig.on(receive.delivery()).is_none());
            cancelled += 1;
        }
        assert!(cancelled > 1);
        drop(writer.join().unwrap());
        rig.end(&mut rig.handle.receive(&ours, &pool));
        checker.finish(TOTAL);
    }
}

/// A receive that is dropped while nothing comes leaves the socket as it was.
pub fn a_dropped_receive_leaves_the_socket(run: &Run) {
    let rig = run.rig();
    let (pool, own) = (rig.receive_pool(4, 1000), rig.pool(1, 1000));
    let (ours, mut peer) = pair(Kind::Tcp);
    let mut checker = Checker::new(Pattern(51));
    for _ in 0..50 {
        let mut receive = rig.handle.receive(&ours, &pool);
        write_pieces(&mut peer, Pattern(51), checker.seen(), 700);
        let now = checker.seen() + 700;
        rig.take_until(&mut receive, &mut checker, now);
        drop(receive);
        // The same with memory of one's own, before and after it was begun.
        let once = rig.handle.receive_into(&ours, own.try_acquire().unwrap());
        drop(once);
        assert!(rig.until(|| own.available() == 1));
        let once = rig.handle.receive_into(&ours, own.try_acquire().unwrap());
        rig.turn();
        drop(once);
        assert!(rig.until(|| own.available() == 1 && rig.handle.in_flight() == 0));
    }
    drop(peer);
    rig.end(&mut rig.handle.receive(&ours, &pool));
}

/// The memory comes back with the outcome, and what comes later belongs to the next.
pub fn a_cancelled_receive_into_gives_its_memory_back(run: &Run) {
    let rig = run.rig();
    let pool = rig.pool(3, 100);
    let (ours, mut peer) = pair(Kind::Tcp);
    for begun in [false, true] {
        let leases: Vec<_> = (0..3).map(|_| pool.try_acquire().unwrap()).collect();
        let mut receive = rig.handle.receive_into(&ours, leases);
        if begun {
            rig.turn();
            assert!(look(&mut receive).is_pending());
        }
        receive.cancel();
        let received = rig.on(receive);
        assert!(is_cancelled(&received.result), "{:?}", received.result);
        assert_eq!(received.buffers.into_parts().len(), 3);
        assert_eq!(pool.available(), 3);
    }
    write_pieces(&mut peer, Pattern(52), 0, 100);
    let received = rig.on(rig.handle.receive_into(&ours, pool.try_acquire().unwrap()));
    let count = received.result.unwrap();
    Checker::new(Pattern(52)).feed(&received.buffers.into_lease().unwrap()[..count]);
}

/// A send that the peer does not read ends, says how much was sent, and that is what the peer finds.
pub fn a_cancelled_send_says_how_far_it_was(run: &Run) {
    const SIZE: usize = 16 << 20;
    for kind in [Kind::Tcp, Kind::Unix] {
        let rig = run.rig();
        let pool = rig.pool(2, SIZE);
        let (ours, peer) = pair(kind);
        let mut stuck = rig.handle.send(&ours, lease(&pool, Pattern(53), 0, SIZE));
        let mut behind = rig.handle.send(&ours, lease(&pool, Pattern(54), 0, SIZE));
        for _ in 0..10 {
            rig.turn();
            assert!(look(&mut stuck).is_pending() && look(&mut behind).is_pending());
        }
        behind.cancel();
        stuck.cancel();
        let (stuck, behind) = (rig.on(stuck), rig.on(behind));
        assert!(is_cancelled(&stuck.result), "{:?}", stuck.result);
        assert!(stuck.bytes < SIZE);
        assert!(is_cancelled(&behind.result), "{:?}", behind.result);
        assert_eq!(behind.bytes, 0);
        let reader = reader(peer, Pattern(53), stuck.bytes as u64);
        for sent in [stuck, behind] {
            let returned = rig.on(sent.returned());
            assert_eq!(returned.buffers.into_lease().unwrap().len(), SIZE);
        }
        rig.on(rig.handle.close(ours)).unwrap();
        assert!(is_at_its_end(&mut reader.join().unwrap()), "more was sent than was said");
    }
}

/// Whatever it is, and whether or not it has begun.
pub fn everything_can_be_cancelled(run: &Run) {
    let rig = run.rig();
    let (ours, _peer) = pair(Kind::Tcp);
    for begun in [false, true] {
        let (timeout, readable) = (rig.handle.timeout(Duration::from_hours(1)), rig.handle.readable(&ours));
        if begun {
            rig.turn();
        }
        timeout.cancel();
        readable.cancel();
        let (timeout, readable) = (rig.on(timeout), rig.on(readable));
        assert!(is_cancelled(&timeout), "{timeout:?}");
        assert!(is_cancelled(&readable), "{readable:?}");
    }
    // Too late, and twice.
    let mut nop = rig.handle.nop();
    assert!(rig.until(|| rig.handle.in_flight() == 0));
    nop.cancel();
    nop.cancel();
    rig.turn();
    assert_eq!(look(&mut nop), std::task::Poll::Ready(Ok(())));
}
