//! Fewer buffers than bytes: nothing is lost, and everybody has a turn.

use std::io::Write;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use transload::pool::Lease;
use transload::proactor::{Receive, ReceivePool, Received};

use super::pattern::{Checker, Pattern};
use super::rig::{Kind, Rig, lease, look, pair, read_checked, write_pieces, writer};
use super::subject::Run;
use crate::device::Random;

/// Takes deliveries until all buffers of a pool are held.
fn hold_all(rig: &Rig, receive: &mut Receive, pool: &ReceivePool) -> Vec<Lease> {
    let held: Vec<Lease> = (0..pool.capacity()).map(|_| rig.data(receive)).collect();
    let before = rig.proactor.statistics().starved;
    assert!(rig.until(|| rig.proactor.statistics().starved > before || before > 0), "it starves");
    for _ in 0..20 {
        rig.turn();
    }
    assert!(look(&mut Box::pin(receive.delivery())).is_pending(), "there is no buffer for it");
    held
}

/// All buffers are held; when another thread gives one back, the stream goes on where it was.
pub fn a_buffer_given_back_elsewhere_feeds_the_stream(run: &Run) {
    const TOTAL: u64 = 100_000;
    for kind in [Kind::Tcp, Kind::Unix] {
        let rig = run.rig();
        let pool = rig.receive_pool(4, 1024);
        let (ours, peer) = pair(kind);
        let writer = writer(peer, Pattern(30), TOTAL);
        let (mut receive, mut checker) = (rig.handle.receive(&ours, &pool), Checker::new(Pattern(30)));
        let held = hold_all(&rig, &mut receive, &pool);
        checker.feed_all(&held);
        let (sender, receiver) = channel::<Lease>();
        let elsewhere = thread::spawn(move || {
            for lease in receiver {
                thread::sleep(Duration::from_micros(100));
                drop(lease);
            }
        });
        for lease in held {
            sender.send(lease).unwrap();
        }
        while checker.seen() < TOTAL {
            let lease = rig.data(&mut receive);
            checker.feed(&lease);
            sender.send(lease).unwrap();
        }
        drop(sender);
        drop(writer.join().unwrap());
        rig.end(&mut receive);
        checker.finish(TOTAL);
        elsewhere.join().unwrap();
        let statistics = rig.proactor.statistics();
        assert!(statistics.starved > 0 && statistics.resumed > 0, "{statistics:?}");
    }
}

/// One buffer will do, however small.
pub fn a_pool_of_one(run: &Run) {
    let rig = run.rig();
    for (size, total) in [(1, 3000), (1000, 500_000)] {
        let pool = rig.receive_pool(1, size);
        let (ours, peer) = pair(Kind::Tcp);
        let writer = writer(peer, Pattern(31), total);
        let (mut receive, mut checker) = (rig.handle.receive(&ours, &pool), Checker::new(Pattern(31)));
        rig.take_until(&mut receive, &mut checker, total);
        drop(writer.join().unwrap());
        rig.end(&mut receive);
        checker.finish(total);
    }
}

/// Eight connections share two buffers, and all come to their end.
pub fn fewer_buffers_than_connections(run: &Run) {
    const TOTAL: u64 = 50_000;
    let rig = run.rig();
    let pool = rig.receive_pool(2, 512);
    let (mut streams, mut writers) = (Vec::new(), Vec::new());
    for index in 0..8 {
        let (ours, peer) = pair(Kind::Tcp);
        writers.push(writer(peer, Pattern(index), TOTAL));
        streams.push((rig.handle.receive(&ours, &pool), Checker::new(Pattern(index))));
    }
    for (receive, checker) in take_in_turn(&rig, streams, TOTAL) {
        drop(writers.remove(0).join().unwrap());
        let mut receive = receive;
        rig.end(&mut receive);
        checker.finish(TOTAL);
    }
}

/// Whatever any of the streams has, until each has seen so many bytes.
pub(super) fn take_in_turn(
    rig: &Rig,
    mut streams: Vec<(Receive, Checker)>,
    total: u64,
) -> Vec<(Receive, Checker)> {
    let all_seen = rig.until(|| {
        for (receive, checker) in &mut streams {
            while checker.seen() < total {
                match look(&mut Box::pin(receive.delivery())) {
                    std::task::Poll::Ready(Some(Ok(Received::Data(lease)))) => checker.feed(&lease),
                    std::task::Poll::Ready(other) => panic!("{other:?} after {} bytes", checker.seen()),
                    std::task::Poll::Pending => break,
                }
            }
        }
        streams.iter().all(|(_, checker)| checker.seen() == total)
    });
    assert!(all_seen, "somebody has starved: {:?}", rig.proactor.statistics());
    streams
}

/// A consumer that takes nothing is held, and leaves buffers to the others.
pub fn who_takes_nothing_starves_nobody(run: &Run) {
    const TOTAL: u64 = 3_000_000;
    let rig = run.rig();
    let pool = rig.receive_pool(256, 1024);
    let ((lazy, mut lazy_peer), (ours, peer)) = (pair(Kind::Tcp), pair(Kind::Tcp));
    let mut never_taken = rig.handle.receive(&lazy, &pool);
    // Bit by bit: what comes within one turn may go into as many buffers as there are.
    let mut written = 0;
    assert!(
        rig.until(|| {
            write_pieces(&mut lazy_peer, Pattern(32), written, 500);
            written += 500;
            rig.proactor.statistics().paused > 0
        }),
        "it is held"
    );
    let lazy_writer = thread::spawn(move || {
        write_pieces(&mut lazy_peer, Pattern(32), written, TOTAL - written);
        lazy_peer
    });
    let (mut receive, mut checker) = (rig.handle.receive(&ours, &pool), Checker::new(Pattern(33)));
    let writer = writer(peer, Pattern(33), TOTAL);
    rig.take_until(&mut receive, &mut checker, TOTAL);
    drop(writer.join().unwrap());
    rig.end(&mut receive);
    // And it has lost nothing by that.
    let mut late = Checker::new(Pattern(32));
    rig.take_until(&mut never_taken, &mut late, TOTAL);
    drop(lazy_writer.join().unwrap());
    rig.end(&mut never_taken);
    checker.finish(TOTAL);
    late.finish(TOTAL);
}

/// Three threads give buffers back in random order while bytes go on coming.
pub fn buffers_come_back_from_everywhere(run: &Run) {
    const TOTAL: u64 = 4_000_000;
    let rig = run.rig();
    let pool = rig.receive_pool(64, 1500);
    let (ours, peer) = pair(Kind::Tcp);
    let writer = writer(peer, Pattern(34), TOTAL);
    let (mut receive, mut checker) = (rig.handle.receive(&ours, &pool), Checker::new(Pattern(34)));
    thread::scope(|scope| {
        let senders: Vec<_> = (0..3)
            .map(|index| {
                let (sender, receiver) = channel::<Lease>();
                scope.spawn(move || {
                    let (mut random, mut held) = (Random(index), Vec::new());
                    for lease in receiver {
                        held.push(lease);
                        if held.len() == 12 {
                            // Some of them, any of them.
                            for _ in 0..=random.below(11) {
                                drop(held.swap_remove(random.below(held.len())));
                            }
                        }
                    }
                });
                sender
            })
            .collect();
        for turn in 0.. {
            if checker.seen() == TOTAL {
                break;
            }
            let lease = rig.data(&mut receive);
            checker.feed(&lease);
            senders[turn % 3].send(lease).unwrap();
        }
    });
    drop(writer.join().unwrap());
    rig.end(&mut receive);
    checker.finish(TOTAL);
}

/// What was received stays good when all else has gone.
pub fn leases_outlive_everything(run: &Run) {
    let rig = run.rig();
    let pool = rig.receive_pool(4, 1024);
    let (ours, mut peer) = pair(Kind::Tcp);
    write_pieces(&mut peer, Pattern(35), 0, 4096);
    let mut receive = rig.handle.receive(&ours, &pool);
    let (mut first, mut held) = (Checker::new(Pattern(35)), Vec::new());
    while held.len() < 4 && first.seen() < 4096 {
        let lease = rig.data(&mut receive);
        first.feed(&lease);
        held.push(lease);
    }
    drop((receive, pool, ours));
    drop(rig);
    // Whoever is gone takes nothing more, and the kernel has nowhere to put it.
    let _refused = peer.write(&Pattern(36).bytes(0, 4096));
    let mut again = Checker::new(Pattern(35));
    again.feed_all(&held);
    thread::spawn(move || drop(held)).join().unwrap();
}

/// Deliveries that nobody took go back to the pool with the stream: all of its buffers can be had again.
pub fn a_stream_goes_with_deliveries_inside(run: &Run) {
    let rig = run.rig();
    let pool = rig.receive_pool(8, 512);
    for _ in 0..5 {
        let (ours, mut peer) = pair(Kind::Tcp);
        let receive = rig.handle.receive(&ours, &pool);
        write_pieces(&mut peer, Pattern(37), 0, 16_000);
        for _ in 0..10 {
            rig.turn();
        }
        assert!(rig.proactor.statistics().received_bytes > 0);
        drop(receive);
        assert!(rig.until(|| rig.handle.in_flight() == 0));

        let (ours, peer) = pair(Kind::Tcp);
        let writer = writer(peer, Pattern(38), 50_000);
        let (mut receive, mut checker) = (rig.handle.receive(&ours, &pool), Checker::new(Pattern(38)));
        let held = hold_all(&rig, &mut receive, &pool);
        checker.feed_all(&held);
        drop(held);
        rig.take_until(&mut receive, &mut checker, 50_000);
        drop(writer.join().unwrap());
        rig.end(&mut receive);
    }
}

/// A stream that starves holds up neither sends nor what receives into memory of its own.
pub fn others_go_on_while_one_starves(run: &Run) {
    let rig = run.rig();
    let (pool, own) = (rig.receive_pool(2, 256), rig.pool(2, 5000));
    let ((starving, starving_peer), (ours, mut peer)) = (pair(Kind::Tcp), pair(Kind::Tcp));
    let starving_writer = writer(starving_peer, Pattern(39), 10_000);
    let mut receive = rig.handle.receive(&starving, &pool);
    let held = hold_all(&rig, &mut receive, &pool);
    drop(rig.send(&ours, lease(&own, Pattern(40), 0, 5000)));
    read_checked(&mut peer, &mut Checker::new(Pattern(40)), 5000);
    // On the same socket, too.
    drop(rig.send(&starving, lease(&own, Pattern(41), 0, 5000)));
    write_pieces(&mut peer, Pattern(42), 0, 100);
    let received = rig.on(rig.handle.receive_into(&ours, own.try_acquire().unwrap()));
    let count = received.result.unwrap();
    Checker::new(Pattern(42)).feed(&received.buffers.into_lease().unwrap()[..count]);
    let mut checker = Checker::new(Pattern(39));
    checker.feed_all(&held);
    drop(held);
    rig.take_until(&mut receive, &mut checker, 10_000);
    read_checked(&mut starving_writer.join().unwrap(), &mut Checker::new(Pattern(41)), 5000);
    rig.end(&mut receive);
}
