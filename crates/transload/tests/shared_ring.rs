//! Pool and ring of a shared region: two attaches in one process are two members, as good as two processes.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test may panic, and counts little"
)]

mod forking;

use std::collections::HashSet;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use forking::fork;
use transload::device::host::HostDevice;
use transload::region::Access;
use transload::shared::{
    ConsumerError, OutOfBuffer, SendError, SharedAcquireError, SharedBatch, SharedLease, SharedPool,
    SharedRegion, SharedRing, TakeError,
};

fn region(buffers: usize, ring_slots: usize) -> SharedRegion {
    SharedRegion::builder(buffers, 256).ring_slots(ring_slots).members(4).create().unwrap()
}

/// Another attach, as another process would have it.
fn other(region: &SharedRegion) -> SharedRegion {
    SharedRegion::open(region.file_for_peer().unwrap()).unwrap()
}

fn join(region: &SharedRegion, name: &str) -> SharedPool {
    SharedPool::join(&other(region), name).unwrap()
}

fn send(ring: &SharedRing, number: u64) {
    ring.try_send_copy(&number.to_le_bytes()).unwrap();
}

#[test]
fn messages_arrive_in_order_through_many_laps() {
    let region = region(4, 2);
    let (a, b) = (join(&region, "a"), join(&region, "b"));
    let (ring, mut consumer) = (a.ring(), b.ring().consumer().unwrap());
    let mut next = 0;
    for round in 0..1000_u64 {
        for nth in 0..2 {
            send(&ring, round * 2 + nth);
        }
        assert_eq!(ring.try_send_copy(b"more").unwrap_err(), SendError::Full);
        while let Ok(batch) = consumer.take(1 + round as usize % 3) {
            for message in batch.iter() {
                let mut bytes = [0; 8];
                batch.read(&message, &mut bytes).unwrap();
                assert_eq!((u64::from_le_bytes(bytes), message.len_bytes), (next, 8));
                assert!(!message.redelivered);
                next += 1;
            }
        }
        assert_eq!(consumer.take(1).unwrap_err(), TakeError::Empty);
    }
    assert_eq!(next, 2000);
    assert_eq!((a.statistics().free, a.statistics().published), (4, 2000));
}

#[test]
fn what_is_published_is_done_in_order() {
    let region = region(4, 4);
    let (a, b) = (join(&region, "a"), join(&region, "b"));
    let (ring, mut consumer) = (a.ring(), b.ring().consumer().unwrap());
    let counts = || (ring.published(), ring.done());
    assert_eq!(counts(), (0, 0));
    (0..3).for_each(|number| send(&ring, number));
    assert_eq!(counts(), (3, 0));
    let (first, second) = (consumer.take(1).unwrap(), consumer.take(2).unwrap());
    drop(second);
    assert_eq!(counts(), (3, 0), "the first is not done");
    drop(first);
    assert_eq!(counts(), (3, 3));
    assert_eq!(b.statistics().published, 3);
}

#[test]
fn a_pool_gives_out_each_buffer_once_and_says_who_has_them() {
    let region = region(8, 8);
    let (a, b) = (join(&region, "first"), join(&region, "second"));
    let mut leases: Vec<_> = (0..3).map(|_| a.try_acquire().unwrap()).collect();
    leases.extend((0..5).map(|_| b.try_acquire().unwrap()));
    assert_eq!(leases.iter().map(SharedLease::index).collect::<HashSet<_>>().len(), 8);
    for pool in [&a, &b, &a] {
        assert_eq!(pool.try_acquire().unwrap_err(), SharedAcquireError::Exhausted);
    }
    let holders = a.holders();
    let has = |name: &str| holders.iter().find(|holder| holder.name == name).map(|holder| holder.owned);
    assert_eq!((has("first"), has("second")), (Some(3), Some(5)));
    assert!(holders.iter().all(|holder| holder.alive && holder.pid == std::process::id()));
    drop(leases.swap_remove(0));
    let lease = b.try_acquire().unwrap();
    assert_eq!(b.try_acquire().unwrap_err(), SharedAcquireError::Exhausted);
    drop((leases, lease));
    assert_eq!(a.statistics().free, 8);
}

#[test]
fn a_lease_keeps_to_its_buffer() {
    let region = region(2, 2);
    let pool = join(&region, "a");
    let mut lease = pool.try_acquire().unwrap();
    lease.write_at(250, &[7; 6]).unwrap();
    let mut bytes = [0; 6];
    lease.read_at(250, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 6]);
    for (offset, len) in [(251, 6), (256, 1), (usize::MAX, 1), (0, 257)] {
        let error = lease.write_at(offset, &vec![1; len]).unwrap_err();
        assert_eq!((error.offset, error.len_bytes, error.available), (offset, len, 256));
        lease.read_at(offset, &mut vec![1; len]).unwrap_err();
    }
    let refused = pool.ring().try_send(lease, 257).unwrap_err();
    assert_eq!(refused.error, SendError::TooLong { len_bytes: 257, available: 256 });
    let foreign = join(&region, "b").ring().try_send(refused.lease, 1).unwrap_err();
    assert_eq!(foreign.error, SendError::Foreign);
    assert_eq!(pool.statistics().free, 1, "the lease is still out");
    drop(foreign);
    assert_eq!(pool.statistics().free, 2);
}

#[test]
fn there_is_one_consumer_until_its_batches_are_done() {
    let region = region(4, 4);
    let (a, b) = (join(&region, "a"), join(&region, "b"));
    send(&a.ring(), 1);
    let mut consumer = b.ring().consumer().unwrap();
    let in_use = |error: ConsumerError| match error {
        ConsumerError::InUse { member, pid, name } => {
            assert_eq!((pid, name.as_str()), (std::process::id(), "b"));
            member
        }
        error => panic!("{error}"),
    };
    assert_eq!(in_use(a.ring().consumer().unwrap_err()), b.member());
    assert_eq!(in_use(b.ring().consumer().unwrap_err()), b.member());
    let batch = consumer.take(1).unwrap();
    drop(consumer);
    in_use(a.ring().consumer().unwrap_err());
    drop(batch);
    let mut consumer = a.ring().consumer().unwrap();
    assert_eq!(consumer.take(1).unwrap_err(), TakeError::Empty);
    send(&b.ring(), 2);
    assert_eq!(consumer.take(0).unwrap_err(), TakeError::ZeroMax);
    assert_eq!(consumer.take(9).unwrap().messages(), 1);
}

#[test]
fn batches_end_in_any_order_and_hold_back_the_ring() {
    let region = region(8, 4);
    let (a, b) = (join(&region, "a"), join(&region, "b"));
    let (ring, mut consumer) = (a.ring(), b.ring().consumer().unwrap());
    (0..4).for_each(|number| send(&ring, number));
    let (first, second) = (consumer.take(2).unwrap(), consumer.take(2).unwrap());
    assert_eq!((first.first_position(), second.first_position()), (0, 2));
    drop(second);
    // Positions are used again in order.
    assert_eq!(ring.try_send_copy(b"5").unwrap_err(), SendError::Full);
    drop(first);
    (4..8).for_each(|number| send(&ring, number));
    let rest = consumer.take(9).unwrap();
    assert_eq!((rest.messages(), rest.first_position()), (4, 4));
    let leases = rest.into_leases();
    assert_eq!(leases.len(), 4);
    // Taken over: room in the ring, their buffers still out.
    (8..12).for_each(|number| send(&ring, number));
    assert_eq!(ring.try_send_copy(b"more").unwrap_err(), SendError::Full);
    let mut bytes = [0; 8];
    leases[3].0.read_at(0, &mut bytes).unwrap();
    assert_eq!((u64::from_le_bytes(bytes), leases[3].1), (7, 8));
    drop(leases);
    drop(consumer.take(9).unwrap());
    assert_eq!(a.statistics().free, 8);
}

#[test]
fn what_a_forgotten_member_had_comes_back_when_it_leaves() {
    let region = region(4, 4);
    let (a, b) = (join(&region, "a"), join(&region, "b"));
    let lease = std::mem::ManuallyDrop::new(a.try_acquire().unwrap());
    assert_eq!(b.statistics().free, 3);
    assert!(b.recover().is_empty(), "it lives");
    drop(a);
    // The lease still keeps the member.
    assert_eq!(b.statistics().free, 3);
    drop(std::mem::ManuallyDrop::into_inner(lease));
    let statistics = b.statistics();
    assert_eq!((statistics.free, statistics.joined, statistics.left), (4, 2, 1));
}

#[test]
fn waits_end_when_another_member_acts() {
    let region = region(1, 1);
    let (a, b) = (join(&region, "a"), join(&region, "b"));
    let mut consumer = b.ring().consumer().unwrap();
    let short = Duration::from_millis(5);
    assert!(!consumer.wait_timeout(short).unwrap());
    let lease = a.try_acquire().unwrap();
    assert_eq!(a.acquire_timeout(short).unwrap_err(), SharedAcquireError::Exhausted);
    assert_eq!(a.ring().send_copy_timeout(b"x", short).unwrap_err(), SendError::Full);
    let long = Duration::from_secs(20);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| consumer.wait_timeout(long).unwrap());
        std::thread::sleep(Duration::from_millis(30));
        a.ring().try_send(lease, 1).unwrap();
        assert!(waiting.join().unwrap());
    });
    let started = Instant::now();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| a.ring().send_copy_timeout(b"y", long));
        let acquiring = scope.spawn(|| b.acquire_timeout(long).map(drop));
        std::thread::sleep(Duration::from_millis(30));
        for _ in 0..2 {
            while consumer.take(1).is_err() && started.elapsed() < long {
                std::thread::yield_now();
            }
        }
        sending.join().unwrap().unwrap();
        acquiring.join().unwrap().unwrap();
    });
    assert!(started.elapsed() < long);
}

#[test]
fn there_is_room_for_so_many_members() {
    let region = region(1, 1);
    let members: Vec<_> = (0..4).map(|nth| join(&region, &format!("member {nth}"))).collect();
    assert_eq!(members.iter().map(SharedPool::member).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let error = SharedPool::join(&region, "one more").unwrap_err().to_string();
    assert!(error.contains("all 4 members"), "{error}");
    drop(members);
    // One attach may be several members too.
    let (a, b) =
        (SharedPool::join(&region, "é").unwrap(), SharedPool::join(&region, &"é".repeat(99)).unwrap());
    assert_eq!((a.member(), b.member()), (1, 2));
    assert_eq!(b.holders().last().unwrap().name, "é".repeat(32));
}

#[test]
fn threads_of_several_members_lose_nothing() {
    const EACH: u64 = 20_000;
    let region = region(16, 8);
    let receiver = join(&region, "receiver");
    let mut consumer = receiver.ring().consumer().unwrap();
    std::thread::scope(|scope| {
        for sender in 0..3_u64 {
            let ring = join(&region, "sender").ring();
            scope.spawn(move || {
                for number in 0..EACH {
                    let message = (sender << 32 | number).to_le_bytes();
                    ring.send_copy_timeout(&message, Duration::from_mins(1)).unwrap();
                }
            });
        }
        let mut next = [0; 3];
        while next != [EACH; 3] {
            assert!(consumer.wait_timeout(Duration::from_mins(1)).unwrap(), "stuck at {next:?}");
            let Ok(batch) = consumer.take(5) else { continue };
            for message in batch.iter() {
                let mut bytes = [0; 8];
                batch.read(&message, &mut bytes).unwrap();
                let number = u64::from_le_bytes(bytes);
                let expected = &mut next[(number >> 32) as usize];
                assert_eq!(number & 0xffff_ffff, *expected);
                *expected += 1;
            }
        }
    });
    assert_eq!(receiver.statistics().free, 16);
}

#[test]
fn what_is_put_back_comes_to_the_next_consumer_once_more() {
    let region = region(4, 4);
    let (a, b) = (join(&region, "a"), join(&region, "b"));
    (0..3).for_each(|number| send(&a.ring(), number));
    let mut consumer = b.ring().consumer().unwrap();
    let (first, second) = (consumer.take(1).unwrap(), consumer.take(1).unwrap());
    second.lend(true).unwrap();
    second.put_back();
    first.put_back();
    let third = consumer.take(1).unwrap();
    assert_eq!(third.first_position(), 2);
    drop(third);
    drop(consumer);
    let mut consumer = a.ring().consumer().unwrap();
    let batch = consumer.take(9).unwrap();
    let seen: Vec<_> = batch
        .iter()
        .map(|message| {
            let mut bytes = [0; 8];
            batch.read(&message, &mut bytes).unwrap();
            (u64::from_le_bytes(bytes), message.redelivered)
        })
        .collect();
    assert_eq!(seen, [(0, true), (1, true)]);
    drop(batch);
    let statistics = a.statistics();
    assert_eq!((statistics.free, statistics.quarantined, statistics.redelivered), (3, 1, 2));
    assert_eq!(consumer.take(1).unwrap_err(), TakeError::Empty);
}

#[test]
fn a_forked_child_touches_nothing_by_what_it_has_a_copy_of() {
    let region = region(8, 8);
    let (pool, next) = (join(&region, "parent"), join(&region, "next"));
    let ring = pool.ring();
    for number in 0..5 {
        send(&ring, number);
    }
    let mut consumer = ring.consumer().unwrap();
    let mut batches: Vec<Option<SharedBatch>> = (0..5).map(|_| consumer.take(1).ok()).collect();
    let registered = pool.region().register(&HostDevice::new(), Access::READ).unwrap();
    let mut lent = pool.try_acquire().unwrap().lend(&registered).ok();
    let mut lease = pool.try_acquire().ok();
    let status = fork(|| {
        let none = |refused: OutOfBuffer| refused.available == 0;
        let mut lease = lease.take().unwrap();
        assert!(lease.write_at(0, b"child").is_err_and(none) && lease.read_at(0, &mut [0]).is_err_and(none));
        drop(lease);
        drop(lent.take().unwrap().take_back());
        let [put_back, leases, quarantined, put_back_unless, lent] = &mut batches[..] else { panic!() };
        let message = put_back.as_ref().unwrap().message(0).unwrap();
        assert!(put_back.as_ref().unwrap().read(&message, &mut [0]).is_err_and(none));
        put_back.take().unwrap().put_back();
        assert!(leases.take().unwrap().into_leases().is_empty());
        quarantined.take().unwrap().quarantine();
        put_back_unless.take().unwrap().unless_done().quarantine();
        lent.as_ref().unwrap().lend(true).unwrap();
        lent.take().unwrap().done();
    });
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
    // To the parent all is as it was.
    let holder = pool.holders().into_iter().find(|holder| holder.member == pool.member()).unwrap();
    assert_eq!((holder.owned, holder.lent, holder.sent), (6, 1, 0));
    batches.into_iter().flatten().for_each(SharedBatch::put_back);
    drop((consumer, lent, lease));
    let again = next.ring().consumer().unwrap().take(8).unwrap();
    assert!(again.messages() == 5 && again.iter().all(|message| message.redelivered));
}

#[test]
fn a_consumer_that_waits_gives_back_what_the_dead_had() {
    let region = region(4, 4);
    let pool = join(&region, "consumer");
    let mut consumer = pool.ring().consumer().unwrap();
    let mut file = region.file_for_peer().ok();
    let status = fork(|| {
        let theirs = SharedRegion::open(file.take().unwrap()).unwrap();
        // The end of the process is all that takes them back.
        let theirs = ManuallyDrop::new(SharedPool::join(&theirs, "dead").unwrap());
        let _lease = ManuallyDrop::new(theirs.try_acquire().unwrap());
    });
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
    assert_eq!(pool.statistics().free, 3);
    assert_eq!(consumer.wait_timeout(Duration::from_millis(200)), Ok(false));
    assert_eq!((pool.statistics().free, pool.statistics().reclaimed), (4, 1));
}
