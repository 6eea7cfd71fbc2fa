//! Regions, and pools of their buffers.

use std::collections::{HashSet, VecDeque};
use std::io::Write;
use std::ptr::NonNull;
use std::thread;

use transload::memory::{MemlockLimit, Policy, Slab, available_memory_bytes};
use transload::pool::{AcquireError, BufferPool};
use transload::proactor::{File, IoError, Outgoing, ProactorError};
use transload::region::{Access, RegisterError, Registration};

use super::pattern::{Checker, Pattern};
use super::rig::{Kind, lease, pair, read_checked, reader, slab, writer};
use super::subject::{Run, check_registration};

const ALL: [Access; 3] = [Access::READ, Access::WRITE, Access::READ_WRITE];

/// Whatever the access: the memory is the slab's, and it is pinned or says why not.
pub fn a_region_is_the_slab_that_was_registered(run: &Run) {
    let rig = run.rig();
    for access in ALL {
        let slab = slab(5, 300);
        let region = rig.proactor.register_slab(&slab, access).unwrap();
        assert!(region.slab().same_memory(&slab));
        assert_eq!(region.access(), access);
        check_registration(&rig, &region);
        let other = rig.on(rig.handle.register_slab(&slab, access)).unwrap();
        assert!(other.slab().same_memory(&slab));
        check_registration(&rig, &other);
    }
}

/// `register_pinned` gives what is pinned, or an error with the reason and the numbers.
pub fn pinned_or_an_error(run: &Run) {
    let rig = run.rig();
    let slab = slab(4, 4096);
    let region = rig.proactor.register_slab(&slab, Access::READ).unwrap();
    match (rig.proactor.register_pinned(&slab, Access::READ), region.registration()) {
        (Ok(pinned), _) => assert_eq!(pinned.registration(), &Registration::Pinned),
        (Err(RegisterError::Refused { len_bytes, reason, .. }), registration) => {
            assert_eq!(len_bytes, slab.len_bytes());
            assert!(!reason.is_empty());
            // Where memory is limited, there may have been room for the first and none for the second.
            let had_room = registration == &Registration::Pinned;
            assert!(!had_room || !MemlockLimit::current().exempt, "{reason}");
        }
        other => panic!("one of the two is wrong: {other:?}"),
    }
}

/// Capacity, sizes and places of the buffers of a pool, and how they go and come.
pub fn the_buffers_of_a_pool(run: &Run) {
    let rig = run.rig();
    for (count, size) in [(16_usize, 4096), (8, 1024), (7, 1000), (1, 1)] {
        let pool = rig.pool(count, size);
        assert_eq!((pool.capacity() as usize, pool.buffer_size(), pool.available()), (count, size, count));
        let mut leases = Vec::new();
        for taken in 1..=count {
            let mut lease = pool.try_acquire().unwrap();
            assert_eq!((lease.len(), pool.available()), (size, count - taken));
            lease.fill(u8::try_from(taken).unwrap());
            leases.push(lease);
        }
        let exhausted = AcquireError::Exhausted { capacity: pool.capacity() };
        assert_eq!(pool.try_acquire().unwrap_err(), exhausted);
        let places: HashSet<usize> = leases.iter().map(|lease| lease.as_ptr().addr()).collect();
        let start = pool.region().slab().as_ptr().addr();
        assert_eq!(places, (0..count).map(|index| start + index * size).collect());
        for (lease, taken) in leases.iter().zip(1_u8..) {
            assert!(lease.iter().all(|&byte| byte == taken), "buffers overlap");
            assert_eq!(lease.span().as_ptr(), lease.as_ptr());
            assert!((lease.index() as usize) < count);
        }
        while let Some(lease) = leases.pop() {
            drop(lease);
            assert_eq!(pool.available(), count - leases.len());
        }
        drop(pool.try_acquire().unwrap());
    }
}

/// Seven, which is no power of two, many times around.
pub fn seven_buffers_receive(run: &Run) {
    const TOTAL: u64 = 100 * 7 * 100;
    let rig = run.rig();
    let pool = rig.receive_pool(7, 100);
    assert_eq!((pool.capacity(), pool.buffer_size()), (7, 100));
    check_registration(&rig, pool.region());
    let (ours, peer) = pair(Kind::Tcp);
    let writer = writer(peer, Pattern(7), TOTAL);
    let (mut receive, mut checker) = (rig.handle.receive(&ours, &pool), Checker::new(Pattern(7)));
    let (mut used, mut held) = (HashSet::new(), VecDeque::new());
    while checker.seen() < TOTAL {
        let lease = rig.data(&mut receive);
        assert!(lease.len() <= 100 && lease.index() < 7);
        used.insert(lease.index());
        checker.feed(&lease);
        held.push_back(lease);
        if held.len() == 7 {
            held.pop_front();
        }
    }
    assert_eq!(used.len(), 7);
    drop(writer.join().unwrap());
    rig.end(&mut receive);
}

/// All buffers of a very large pool are received into, and held at once.
pub fn a_hundred_thousand_buffers_receive(run: &Run) {
    const COUNT: u32 = 100_000;
    const SIZE: u64 = 16;
    let rig = run.rig();
    let pool = rig.receive_pool(COUNT as usize, 16);
    assert_eq!(pool.capacity(), COUNT);
    let (ours, peer) = pair(Kind::Tcp);
    let total = u64::from(COUNT) * SIZE;
    let writer = writer(peer, Pattern(1), total);
    let (mut receive, mut checker) = (rig.handle.receive(&ours, &pool), Checker::new(Pattern(1)));
    let mut held = Vec::new();
    // Deliveries may be shorter than a buffer, so that buffers can run out first.
    while checker.seen() < total && held.len() < COUNT as usize {
        let lease = rig.data(&mut receive);
        checker.feed(&lease);
        held.push(lease);
    }
    let places: HashSet<u32> = held.iter().map(transload::pool::Lease::index).collect();
    assert_eq!(places.len(), held.len(), "a buffer was delivered twice");
    let mut again = Checker::new(Pattern(1));
    again.feed_all(&held);
    drop(held);
    rig.take_until(&mut receive, &mut checker, total);
    drop(writer.join().unwrap());
    rig.end(&mut receive);
    checker.finish(total);
}

/// As many to send from: all are different, and what they hold arrives.
pub fn a_hundred_thousand_buffers_send(run: &Run) {
    const COUNT: usize = 100_000;
    let rig = run.rig();
    let pool = rig.pool(COUNT, 16);
    let mut leases = Vec::new();
    assert_eq!(pool.acquire_batch(COUNT + 1, &mut leases), Ok(COUNT));
    assert!(pool.try_acquire().is_err());
    let places: HashSet<usize> = leases.iter().map(|lease| lease.as_ptr().addr()).collect();
    assert_eq!(places.len(), COUNT);
    let (ours, mut peer) = pair(Kind::Tcp);
    let mut checker = Checker::new(Pattern(2));
    for (at, mut lease) in (0..).step_by(16).zip(leases.into_iter().skip(COUNT - 8)) {
        Pattern(2).fill(at, &mut lease);
        drop(rig.send(&ours, lease));
    }
    read_checked(&mut peer, &mut checker, 8 * 16);
    assert!(rig.until(|| pool.available() == COUNT));
}

/// The region keeps the memory.
pub fn the_slab_goes_first(run: &Run) {
    let rig = run.rig();
    let memory = slab(2, 4096);
    let region = rig.proactor.register_slab(&memory, Access::READ_WRITE).unwrap();
    drop(memory);
    let pool = BufferPool::new(&region).unwrap();
    drop(region);
    let (ours, peer) = pair(Kind::Tcp);
    let reader = reader(peer, Pattern(3), 4096);
    drop(rig.send(&ours, lease(&pool, Pattern(3), 0, 4096)));
    reader.join().unwrap();
}

/// Many times: the registration ends wherever its last handle goes, or else the kernel's table would be full.
pub fn a_region_ends_on_another_thread(run: &Run) {
    let rig = run.rig();
    let memory = slab(2, 64);
    for _ in 0..1500 {
        let region = rig.proactor.register_slab(&memory, Access::READ).unwrap();
        check_registration(&rig, &region);
        thread::scope(|scope| {
            scope.spawn(move || drop(region));
        });
    }
    // Without another thread, and without a poll between them.
    for _ in 0..3000 {
        check_registration(&rig, &rig.proactor.register_slab(&memory, Access::READ).unwrap());
    }
}

/// Region, pool and slab go while their bytes are on the way.
pub fn a_region_goes_during_io(run: &Run) {
    const SIZE: usize = 16 << 20;
    let rig = run.rig();
    let (ours, peer) = pair(Kind::Tcp);
    let pool = rig.pool(2, SIZE);
    let mut send = rig.handle.send(&ours, lease(&pool, Pattern(4), 0, SIZE));
    rig.turn();
    drop(pool);
    rig.turn();
    assert!(super::rig::look(&mut send).is_pending(), "the peer does not read");
    let reader = reader(peer, Pattern(4), SIZE as u64);
    assert_eq!(rig.on(send).result, Ok(SIZE));
    reader.join().unwrap();
}

/// There is no RDMA here.
pub fn remote_access_is_refused(run: &Run) {
    let rig = run.rig();
    let memory = slab(2, 64);
    for access in [Access::REMOTE_READ, Access::REMOTE_WRITE, Access::READ_WRITE | Access::REMOTE_READ] {
        let refused = rig.proactor.register_slab(&memory, access).unwrap_err();
        assert!(matches!(refused, RegisterError::Unsupported { .. }), "{refused}");
        let refused = rig.on(rig.handle.register_slab(&memory, access)).unwrap_err();
        assert!(matches!(refused, RegisterError::Unsupported { .. }), "{refused}");
    }
}

/// What fails leaves the slab as it was.
pub fn what_fails_leaks_nothing(run: &Run) {
    let rig = run.rig();
    let memory = slab(4, 64);
    assert!(rig.proactor.register_slab(&memory, Access::REMOTE_WRITE).is_err());
    let region = rig.proactor.register_slab(&memory, Access::READ).unwrap();
    let refused = rig.proactor.receive_pool(&region).unwrap_err();
    assert_eq!(refused, ProactorError::NotWritable { access: Access::READ });
    let refused = rig.on(rig.handle.receive_pool(&region)).unwrap_err();
    assert_eq!(refused, ProactorError::NotWritable { access: Access::READ });

    // Nobody has it: a pool can be made. While there is one, no second can.
    let pool = BufferPool::new(&region).unwrap();
    let writable = rig.proactor.register_slab(&memory, Access::WRITE).unwrap();
    let refused = rig.proactor.receive_pool(&writable).unwrap_err();
    assert!(matches!(refused, ProactorError::Pool { .. }), "{refused}");
    drop(pool);
    let pool = rig.proactor.receive_pool(&writable).unwrap();
    assert!(BufferPool::new(&region).is_err());
    drop(pool);
    let mut again = None;
    assert!(rig.until(|| {
        again = BufferPool::new(&region).ok();
        again.is_some()
    }));
    assert_eq!(again.unwrap().available(), 4);
}

/// Memory from elsewhere, to receive into and to send from.
pub fn foreign_memory_is_one_buffer(run: &Run) {
    const LEN: usize = 10_000;
    let rig = run.rig();
    let memory: &'static mut [u8] = Box::leak(vec![0; LEN].into_boxed_slice());
    let base = NonNull::from(memory).cast::<u8>();
    // SAFETY: the memory is initialised, is never freed, and nobody else has a reference to it any more.
    let region = unsafe { rig.proactor.register_buffer(base, LEN, Access::READ_WRITE) }.unwrap();
    assert_eq!((region.slab().as_ptr(), region.slab().len_bytes()), (base.as_ptr(), LEN));
    check_registration(&rig, &region);
    let pool = BufferPool::new(&region).unwrap();
    let (ours, mut peer) = pair(Kind::Tcp);
    peer.write_all(&Pattern(5).bytes(0, 777)).unwrap();
    let received = rig.on(rig.handle.receive_into(&ours, pool.try_acquire().unwrap()));
    let count = received.result.unwrap();
    let mut lease = received.buffers.into_lease().unwrap();
    lease.resize(count);
    drop(rig.send(&ours, lease));
    read_checked(&mut peer, &mut Checker::new(Pattern(5)), count as u64);
}

/// Two slabs, one after the other, on one socket.
pub fn two_slabs_send_in_turn(run: &Run) {
    let rig = run.rig();
    let (ours, peer) = pair(Kind::Tcp);
    let pools = [rig.pool(2, 5000), rig.pool(4, 70_001)];
    let lengths = [5000, 70_001, 4999, 1, 1, 65_536, 5000, 70_001];
    let reader = reader(peer, Pattern(6), lengths.iter().sum::<usize>() as u64);
    let mut at = 0;
    for (turn, &len) in lengths.iter().enumerate() {
        let sent = rig.send(&ours, lease(&pools[turn % 2], Pattern(6), at, len));
        at += len as u64;
        let returned = rig.on(sent.returned());
        assert_eq!(returned.buffers.into_lease().unwrap().len(), len);
    }
    reader.join().unwrap();
}

/// More than one would have in mind, each of use.
pub fn many_regions(run: &Run) {
    let rig = run.rig();
    let (ours, peer) = pair(Kind::Tcp);
    let pools: Vec<_> = (0..100).map(|_| rig.pool(1, 500)).collect();
    let reader = reader(peer, Pattern(8), 100 * 500);
    for (at, pool) in (0..).step_by(500).zip(&pools) {
        check_registration(&rig, pool.region());
        drop(rig.send(&ours, lease(pool, Pattern(8), at, 500)));
    }
    reader.join().unwrap();
}

/// More than the kernel pins at once: several pieces, and bytes on both sides of the seam.
pub fn more_than_a_gibibyte(run: &Run) {
    const SIZE: usize = 1 << 20;
    const COUNT: usize = 1126;
    let room = available_memory_bytes().unwrap_or(0);
    if room < 4 << 30 {
        return run.skip("needs 4 GiB of free memory");
    }
    let rig = run.rig();
    let builder = Slab::builder(COUNT, SIZE).lock(Policy::Never).prefault(false);
    let region = rig.proactor.register_slab(&builder.build().unwrap(), Access::READ_WRITE).unwrap();
    check_registration(&rig, &region);
    let pool = BufferPool::new(&region).unwrap();
    let mut leases = Vec::new();
    assert_eq!(pool.acquire_batch(COUNT, &mut leases), Ok(COUNT));
    leases.sort_by_key(transload::pool::Lease::index);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = File::from(std::fs::File::create_new(&path).unwrap());
    let mut bytes = Vec::new();
    for (index, from) in [(1023, 0), (1024, SIZE as u64), (COUNT - 1, 2 * SIZE as u64)] {
        Pattern(9).fill(from, &mut leases[index]);
        bytes.extend(Pattern(9).bytes(from, SIZE));
    }
    let seam = region.span(1023 * SIZE, 2 * SIZE).unwrap();
    // SAFETY: the bytes belong to leases of ours, which nobody touches until this is over.
    let outgoing = unsafe { Outgoing::from_spans(vec![seam]) };
    assert_eq!(rig.on(rig.handle.write_at(&file, outgoing, 0)).result, Ok(2 * SIZE));
    let last = leases.pop().unwrap();
    let written = rig.on(rig.handle.write_at(&file, last, 2 * SIZE as u64));
    assert_eq!(written.result, Ok(SIZE));
    assert!(std::fs::read(&path).unwrap() == bytes, "the file is not what was written");
}

/// More receive pools than numbers of 16 bits, one after the other; the last is of use.
pub fn numbers_of_receive_pools_are_used_again(run: &Run) {
    let rig = run.rig();
    let region = rig.region(1, 64, Access::WRITE);
    for _ in 0..66_000 {
        // One that has been dropped is gone when the next is made, also without a poll.
        drop(rig.proactor.receive_pool(&region).unwrap());
    }
    let pool = rig.receive_pool(3, 100);
    let (ours, peer) = pair(Kind::Unix);
    let writer = writer(peer, Pattern(10), 1000);
    let mut receive = rig.handle.receive(&ours, &pool);
    rig.take_until(&mut receive, &mut Checker::new(Pattern(10)), 1000);
    drop(writer.join().unwrap());
    rig.end(&mut receive);
}

/// A pool belongs to the proactor that made it.
pub fn a_pool_of_another_proactor_is_refused(run: &Run) {
    let (rig, other) = (run.rig(), run.rig());
    let pool = other.receive_pool(2, 64);
    let (ours, _peer) = pair(Kind::Tcp);
    let mut receive = rig.handle.receive(&ours, &pool);
    let refused = rig.on(receive.delivery());
    assert!(matches!(refused, Some(Err(IoError::ForeignPool { .. }))), "{refused:?}");
    assert!(rig.on(receive.delivery()).is_none());
}
