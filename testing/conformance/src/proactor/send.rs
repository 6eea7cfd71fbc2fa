//! Bytes that go out: all of them, in order, whatever the kernel takes at once.

use std::io::Read;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;
use transload::pool::FrozenLease;
use transload::proactor::{Part, ZeroCopy};
use transload::region::Access;

use super::pattern::{Checker, Pattern};
use super::rig::{Kind, lease, pair, read_checked, reader};
use super::subject::Run;

/// From nothing to a megabyte.
pub fn every_size_arrives(run: &Run) {
    const SIZES: [usize; 14] =
        [0, 1, 2, 63, 64, 65, 1000, 4095, 4096, 4097, 65_535, 65_536, 65_537, 1_000_003];
    let rig = run.rig();
    let pool = rig.pool(2, 1_000_003);
    for kind in [Kind::Tcp, Kind::Unix] {
        let (ours, peer) = pair(kind);
        let reader = reader(peer, Pattern(60), SIZES.iter().sum::<usize>() as u64);
        let mut at = 0;
        for size in SIZES {
            let sent = rig.send(&ours, lease(&pool, Pattern(60), at, size));
            at += size as u64;
            let returned = rig.on(sent.returned()).buffers.into_lease().unwrap();
            assert_eq!(returned.len(), size);
            assert!(*returned == *Pattern(60).bytes(at - size as u64, size), "it comes back as it was");
        }
        reader.join().unwrap();
        assert!(rig.until(|| pool.available() == 2));
    }
    assert_eq!(rig.proactor.statistics().sent_bytes, 2 * SIZES.iter().sum::<usize>() as u64);
}

/// Seventeen parts of two slabs: whole leases, parts of leases, parts of frozen ones, and empty ones.
pub fn many_parts_arrive_as_one(run: &Run) {
    let rig = run.rig();
    let pools = [rig.pool(17, 10_000), rig.pool(17, 333)];
    for kind in [Kind::Tcp, Kind::Unix] {
        for zero_copy in [ZeroCopy::Off, ZeroCopy::On] {
            let (ours, peer) = pair(kind);
            let (mut parts, mut at) = (Vec::new(), 0);
            for index in 0..17_usize {
                let mut lease = pools[index % 2].try_acquire().unwrap();
                // What lies around a part is not sent.
                lease.fill(0xEE);
                let range = index * 3..lease.len() - index * 5;
                let len = if index == 9 { 0 } else { range.len() };
                Pattern(61).fill(at, &mut lease[range.start..][..len]);
                at += len as u64;
                let range = range.start..range.start + len;
                parts.push(match index % 3 {
                    0 => Part::of_lease(lease, range),
                    1 => Part::of_frozen(lease.freeze(), range),
                    _ => {
                        lease.copy_within(range, 0);
                        lease.resize(len);
                        Part::from(lease)
                    }
                });
            }
            let reader = reader(peer, Pattern(61), at);
            let sent = rig.on(rig.handle.send_with(&ours, parts, zero_copy));
            assert_eq!(sent.result, Ok(usize::try_from(at).unwrap()));
            assert_eq!(rig.on(sent.returned()).buffers.into_parts().len(), 17);
            reader.join().unwrap();
            assert!(pools.iter().all(|pool| pool.available() == 17));
        }
    }
}

/// One lease, three readers: it comes back when the last is done, and can be written again.
pub fn a_frozen_lease_goes_to_three_sockets(run: &Run) {
    const SIZE: usize = 300_000;
    let rig = run.rig();
    let pool = rig.pool(1, SIZE);
    let frozen = lease(&pool, Pattern(62), 0, SIZE).freeze();
    let pairs = [pair(Kind::Tcp), pair(Kind::Unix), pair(Kind::Tcp)];
    let sends: Vec<_> = pairs.iter().map(|(ours, _)| rig.handle.send(ours, frozen.clone())).collect();
    let readers = pairs.map(|(ours, peer)| (ours, reader(peer, Pattern(62), SIZE as u64)));
    for send in sends {
        let sent = rig.on(send);
        assert_eq!(sent.result, Ok(SIZE));
        drop(rig.on(sent.returned()));
    }
    for (_ours, reader) in readers {
        reader.join().unwrap();
    }
    let mut lease = FrozenLease::thaw(frozen).expect("the only reader");
    lease.fill(0);
    drop(lease);
    assert_eq!(pool.available(), 1);
}

/// Submitted all at once, they leave one after the other.
pub fn a_thousand_sends_keep_their_order(run: &Run) {
    const COUNT: usize = 1000;
    let rig = run.rig();
    let pool = rig.pool(COUNT, 1500);
    for kind in [Kind::Tcp, Kind::Unix] {
        let (ours, peer) = pair(kind);
        let (mut sends, mut at) = (Vec::new(), 0);
        for index in 0..COUNT {
            let len = 1 + index * 7 % 1500;
            let zero_copy = [ZeroCopy::Auto, ZeroCopy::On, ZeroCopy::Off][index % 3];
            sends.push(rig.handle.send_with(&ours, lease(&pool, Pattern(63), at, len), zero_copy));
            at += len as u64;
        }
        let reader = reader(peer, Pattern(63), at);
        for (index, send) in sends.into_iter().enumerate() {
            assert_eq!(rig.on(send).result, Ok(1 + index * 7 % 1500));
        }
        reader.join().unwrap();
        assert!(rig.until(|| pool.available() == COUNT));
    }
}

/// A small window and a slow reader: each send is taken in many parts, and goes on before the next begins.
pub fn short_sends_go_on_before_the_next(run: &Run) {
    const SIZE: usize = 1 << 20;
    for kind in [Kind::Tcp, Kind::Unix] {
        let rig = run.rig();
        let pool = rig.pool(3, SIZE);
        let (ours, peer) = pair(kind);
        sockopt::set_socket_send_buffer_size(&ours, 4096).unwrap();
        let sends: Vec<_> = (0..3_u64)
            .map(|index| rig.handle.send(&ours, lease(&pool, Pattern(64), index * SIZE as u64, SIZE)))
            .collect();
        let slow = thread::spawn(move || read_slowly(peer, 3 * SIZE as u64));
        for send in sends {
            let sent = rig.on(send);
            assert_eq!((sent.result, sent.bytes), (Ok(SIZE), SIZE));
        }
        slow.join().unwrap();
        assert!(rig.until(|| pool.available() == 3));
    }
}

fn read_slowly(mut peer: TcpStream, total: u64) {
    let (mut checker, mut buffer) = (Checker::new(Pattern(64)), vec![0; 40_000]);
    while checker.seen() < total {
        let count = peer.read(&mut buffer).unwrap();
        assert!(count > 0);
        checker.feed(&buffer[..count]);
        if checker.seen() < total / 6 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    checker.finish(total);
}

/// Both directions of one socket at once, each with its own bytes.
pub fn both_directions_at_once(run: &Run) {
    const TOTAL: u64 = 2_000_000;
    let rig = run.rig();
    let (pool, received) = (rig.pool(20, 100_000), rig.receive_pool(16, 10_000));
    let (ours, peer) = pair(Kind::Tcp);
    let reading = reader(peer.try_clone().unwrap(), Pattern(65), TOTAL);
    let writing = super::rig::writer(peer, Pattern(66), TOTAL);
    let sends: Vec<_> = (0..20_u64)
        .map(|index| rig.handle.send(&ours, lease(&pool, Pattern(65), index * 100_000, 100_000)))
        .collect();
    let mut receive = rig.handle.receive(&ours, &received);
    let mut checker = Checker::new(Pattern(66));
    rig.take_until(&mut receive, &mut checker, TOTAL);
    for send in sends {
        assert_eq!(rig.on(send).result, Ok(100_000));
    }
    drop((reading.join().unwrap(), writing.join().unwrap()));
    rig.end(&mut receive);
}

/// What was received is sent on from the same memory, untouched.
pub fn what_was_received_is_sent_on(run: &Run) {
    const TOTAL: u64 = 1_000_000;
    let rig = run.rig();
    let pool = rig.proactor.receive_pool(&rig.region(8, 3000, Access::READ_WRITE)).unwrap();
    let ((ours, peer), (onward, next)) = (pair(Kind::Tcp), pair(Kind::Tcp));
    let (writer, reader) = (super::rig::writer(peer, Pattern(67), TOTAL), reader(next, Pattern(67), TOTAL));
    let (mut receive, mut checker) = (rig.handle.receive(&ours, &pool), Checker::new(Pattern(67)));
    // An outcome holds its memory until somebody takes it: no more of them than there are buffers to spare.
    let mut sends = std::collections::VecDeque::new();
    while checker.seen() < TOTAL {
        let lease = rig.data(&mut receive);
        checker.feed(&lease);
        sends.push_back(rig.handle.send(&onward, lease));
        if sends.len() == 4 {
            assert!(rig.on(sends.pop_front().unwrap()).result.is_ok());
        }
    }
    for send in sends {
        assert!(rig.on(send).result.is_ok());
    }
    drop((writer.join().unwrap(), reader.join().unwrap()));
    rig.end(&mut receive);
}

/// A small message behind a large one does not overtake it, with and without a copy.
pub fn small_behind_large(run: &Run) {
    let rig = run.rig();
    let (large, small) = (rig.pool(4, 400_000), rig.pool(4, 10));
    let (ours, mut peer) = pair(Kind::Tcp);
    let (mut sends, mut at) = (Vec::new(), 0);
    for (pool, len) in [(&large, 400_000), (&small, 10)].repeat(4) {
        sends.push(rig.handle.send(&ours, lease(pool, Pattern(68), at, len)));
        at += len as u64;
    }
    let reader = thread::spawn(move || {
        read_checked(&mut peer, &mut Checker::new(Pattern(68)), 4 * 400_010);
        peer
    });
    for send in sends {
        assert!(rig.on(send).result.is_ok());
    }
    reader.join().unwrap();
}
