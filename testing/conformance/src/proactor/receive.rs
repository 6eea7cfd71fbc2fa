//! Bytes that come in: all of them, in order, to their end.

use std::io::Write;
use std::net::Shutdown;

use transload::proactor::{Incoming, Part};

use super::pattern::{Checker, Pattern};
use super::rig::{Kind, is_at_its_end, look, pair, reset, write_pieces, writer};
use super::subject::Run;

/// Megabytes, written in odd pieces, received into odd buffers.
pub fn every_byte_arrives_in_order(run: &Run) {
    for (kind, total) in [(Kind::Tcp, 3_000_001), (Kind::Unix, 2_000_003)] {
        let rig = run.rig();
        let pool = rig.receive_pool(16, 4093);
        let (ours, peer) = pair(kind);
        let writer = writer(peer, Pattern(20), total);
        let (mut receive, mut checker) = (rig.handle.receive(&ours, &pool), Checker::new(Pattern(20)));
        while checker.seen() < total {
            let lease = rig.data(&mut receive);
            assert!(lease.len() <= 4093);
            checker.feed(&lease);
        }
        drop(writer.join().unwrap());
        rig.end(&mut receive);
        checker.finish(total);
        assert_eq!(rig.proactor.statistics().received_bytes, total);
    }
}

/// The end is no delivery of bytes, and comes once; the other direction goes on.
pub fn the_end_is_an_event_of_its_own(run: &Run) {
    let rig = run.rig();
    let (pool, answers) = (rig.receive_pool(4, 1000), rig.pool(1, 100));
    for kind in [Kind::Tcp, Kind::Unix] {
        for total in [0, 1, 1000, 3001] {
            let (ours, mut peer) = pair(kind);
            write_pieces(&mut peer, Pattern(21), 0, total);
            peer.shutdown(Shutdown::Write).unwrap();
            let (mut receive, mut checker) = (rig.handle.receive(&ours, &pool), Checker::new(Pattern(21)));
            rig.take_until(&mut receive, &mut checker, total);
            rig.end(&mut receive);
            drop(receive);
            // Nor does a second receive find more than the end.
            rig.end(&mut rig.handle.receive(&ours, &pool));
            drop(rig.send(&ours, super::rig::lease(&answers, Pattern(22), 0, 100)));
            super::rig::read_checked(&mut peer, &mut Checker::new(Pattern(22)), 100);
            rig.on(rig.handle.close(ours)).unwrap();
            assert!(is_at_its_end(&mut peer));
            assert!(rig.until(|| answers.available() == 1));
        }
    }
}

/// A peer that throws the connection away is an error, once, and no end.
pub fn a_reset_is_an_error(run: &Run) {
    let rig = run.rig();
    let pool = rig.receive_pool(4, 1000);
    for before in [0, 500] {
        let (ours, mut peer) = pair(Kind::Tcp);
        let (mut receive, mut checker) = (rig.handle.receive(&ours, &pool), Checker::new(Pattern(23)));
        write_pieces(&mut peer, Pattern(23), 0, before);
        rig.take_until(&mut receive, &mut checker, before);
        assert!(look(&mut Box::pin(receive.delivery())).is_pending());
        reset(peer);
        let error = rig.on(receive.delivery()).expect("an error, not nothing").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET), "{error}");
        assert!(rig.on(receive.delivery()).is_none());
    }
}

/// Once, into one buffer or several: whatever has come, to the end.
pub fn once_into_own_memory(run: &Run) {
    let rig = run.rig();
    let pool = rig.pool(20, 100);
    for kind in [Kind::Tcp, Kind::Unix] {
        for parts in [1_usize, 3, 17] {
            let (ours, peer) = pair(kind);
            let total = parts as u64 * 100 + 33;
            let writer = writer(peer, Pattern(24), total);
            let mut checker = Checker::new(Pattern(24));
            while checker.seen() < total {
                let leases: Vec<_> = (0..parts).map(|_| pool.try_acquire().unwrap()).collect();
                let received = rig.on(rig.handle.receive_into(&ours, leases));
                let count = received.result.unwrap();
                assert!(count > 0, "this is not the end");
                feed(&mut checker, received.buffers, count);
            }
            drop(writer.join().unwrap());
            let received = rig.on(rig.handle.receive_into(&ours, pool.try_acquire().unwrap()));
            assert_eq!(received.result, Ok(0), "this is the end");
            drop(received);
            checker.finish(total);
        }
    }
    assert_eq!(pool.available(), 20);
}

/// The first `count` bytes of the parts, in order; they have all been given back.
fn feed(checker: &mut Checker, buffers: Incoming, mut count: usize) {
    for part in buffers.into_parts() {
        let mut lease = Part::into_lease(part).expect("it was a lease");
        assert_eq!(lease.len(), 100);
        let filled = count.min(lease.len());
        lease.resize(filled);
        checker.feed(&lease);
        count -= filled;
    }
    assert_eq!(count, 0);
}

/// Half a message is no reason for others to wait.
pub fn an_idle_peer_beside_a_busy_one(run: &Run) {
    const TOTAL: u64 = 1_000_000;
    let rig = run.rig();
    let pool = rig.receive_pool(8, 2048);
    let ((idle, mut half), (busy, peer)) = (pair(Kind::Tcp), pair(Kind::Tcp));
    let mut of_idle = rig.handle.receive(&idle, &pool);
    let mut of_busy = rig.handle.receive(&busy, &pool);
    half.write_all(&Pattern(25).bytes(0, 50)).unwrap();
    let (mut slow, mut fast) = (Checker::new(Pattern(25)), Checker::new(Pattern(26)));
    rig.take_until(&mut of_idle, &mut slow, 50);
    let writer = writer(peer, Pattern(26), TOTAL);
    rig.take_until(&mut of_busy, &mut fast, TOTAL);
    half.write_all(&Pattern(25).bytes(50, 50)).unwrap();
    rig.take_until(&mut of_idle, &mut slow, 100);
    drop((writer.join().unwrap(), half));
    rig.end(&mut of_idle);
    rig.end(&mut of_busy);
    slow.finish(100);
    fast.finish(TOTAL);
}
