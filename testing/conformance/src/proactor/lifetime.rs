//! Everything may go at any moment: memory that the kernel may use belongs to nobody else until it has let go.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, mkfifoat, open};
use transload::memory::Slab;
use transload::pool::{BufferPool, Lease};
use transload::proactor::{File, Handle, IoError, Proactor, ReceivePool, Received, Socket};
use transload::region::Access;

use super::pattern::{Checker, Pattern, foreign_bytes};
use super::rig::{Kind, Rig, lease, look, pair, patient, slab, wait_for, writer};
use super::subject::Run;
use crate::device::Random;

const WAITING: usize = 64;
const SIZE: usize = 4096;

/// Whatever buffers a pool has, filled with 0xAA, as an owner would who trusts in being the only one.
fn take_and_fill(pool: &BufferPool, held: &mut Vec<Lease>) {
    while let Ok(mut lease) = pool.try_acquire() {
        lease.fill(0xAA);
        held.push(lease);
    }
}

fn assert_untouched(held: &[Lease]) {
    let foreign = foreign_bytes(held, 0xAA);
    assert!(foreign.is_empty(), "written by somebody else: leases {foreign:?} of {}", held.len());
}

/// Sixty-four receives, all given up; whoever has their buffers next keeps what he wrote, whatever the peers send.
pub fn given_up_receives_write_into_no_lease(run: &Run) {
    for polls in [0, 1, 5] {
        let rig = run.rig();
        let pool = rig.pool(WAITING, SIZE);
        let pairs: Vec<_> =
            (0..WAITING).map(|index| pair(if index % 2 == 0 { Kind::Tcp } else { Kind::Unix })).collect();
        let receives: Vec<_> = pairs
            .iter()
            .map(|(ours, _)| rig.handle.receive_into(ours, pool.try_acquire().unwrap()))
            .collect();
        for _ in 0..5 {
            rig.turn();
        }
        drop(receives);
        let mut held = Vec::new();
        take_and_fill(&pool, &mut held);
        for _ in 0..polls {
            rig.turn();
            take_and_fill(&pool, &mut held);
        }
        for (_, peer) in &pairs {
            let mut peer = peer;
            peer.write_all(&[0x55; SIZE]).unwrap();
        }
        assert!(rig.until(|| {
            take_and_fill(&pool, &mut held);
            held.len() == WAITING
        }));
        for _ in 0..20 {
            rig.turn();
        }
        assert_untouched(&held);
        assert_eq!(rig.handle.in_flight(), 0);
    }
}

/// The same with receives of a pool: their buffers come back with the pool, and the slab can be used anew.
pub fn given_up_streams_write_into_no_lease(run: &Run) {
    let rig = run.rig();
    let memory = slab(WAITING, SIZE);
    let region = rig.proactor.register_slab(&memory, Access::READ_WRITE).unwrap();
    let pool = rig.proactor.receive_pool(&region).unwrap();
    let pairs: Vec<_> = (0..8).map(|_| pair(Kind::Tcp)).collect();
    let streams: Vec<_> = pairs.iter().map(|(ours, _)| rig.handle.receive(ours, &pool)).collect();
    for _ in 0..5 {
        rig.turn();
    }
    drop((streams, pool));
    for (_, peer) in &pairs {
        let mut peer = peer;
        peer.write_all(&[0x55; 3 * SIZE]).unwrap();
    }
    let mut again = None;
    assert!(rig.until(|| {
        again = BufferPool::new(&region).ok();
        again.is_some()
    }));
    let (again, mut held) = (again.unwrap(), Vec::new());
    assert!(rig.until(|| {
        take_and_fill(&again, &mut held);
        held.len() == WAITING
    }));
    for _ in 0..20 {
        rig.turn();
    }
    assert_untouched(&held);
}

/// What a proactor works on, to be dropped one by one.
struct Parts {
    proactor: Option<Proactor>,
    handle: Option<Handle>,
    sockets: Vec<Socket>,
    pools: Option<(BufferPool, ReceivePool)>,
    slabs: Vec<Slab>,
    futures: Vec<Box<dyn std::any::Any>>,
}

/// In many random orders, and while bytes go in both directions on all sockets.
pub fn everything_goes_in_any_order(run: &Run) {
    for seed in 0..30 {
        let mut random = Random(seed);
        let rig = run.rig();
        let slabs = vec![slab(8, 50_000), slab(8, 1000)];
        let sending = rig.proactor.register_slab(&slabs[0], Access::READ_WRITE).unwrap();
        let receiving = rig.proactor.register_slab(&slabs[1], Access::WRITE).unwrap();
        let pools = (BufferPool::new(&sending).unwrap(), rig.proactor.receive_pool(&receiving).unwrap());
        drop((sending, receiving));
        let (mut sockets, mut futures, mut peers) =
            (Vec::new(), Vec::<Box<dyn std::any::Any>>::new(), Vec::new());
        for index in 0..4 {
            let (ours, peer) = pair(if index % 2 == 0 { Kind::Tcp } else { Kind::Unix });
            futures.push(Box::new(rig.handle.send(&ours, lease(&pools.0, Pattern(index), 0, 50_000))));
            if index % 2 == 0 {
                futures.push(Box::new(rig.handle.receive(&ours, &pools.1)));
            } else {
                futures.push(Box::new(rig.handle.receive_into(&ours, pools.0.try_acquire().unwrap())));
            }
            futures.push(Box::new(rig.handle.readable(&ours)));
            sockets.push(ours);
            peers.push(peer);
        }
        futures.push(Box::new(rig.handle.timeout(Duration::from_hours(1))));
        let writers: Vec<_> = peers.into_iter().map(|peer| thread::spawn(move || pester(peer))).collect();
        for _ in 0..random.below(4) {
            rig.turn();
        }
        let Rig { proactor, handle } = rig;
        let parts = Parts {
            proactor: Some(proactor),
            handle: Some(handle),
            sockets,
            pools: Some(pools),
            slabs,
            futures,
        };
        drop_in_order(parts, &mut random);
        for writer in writers {
            writer.join().unwrap();
        }
    }
}

/// Sends as long as somebody is there.
fn pester(mut peer: TcpStream) {
    peer.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
    while peer.write_all(&[0x55; 700]).is_ok() {}
}

fn drop_in_order(mut parts: Parts, random: &mut Random) {
    let mut left = vec![0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5];
    while !left.is_empty() {
        match left.swap_remove(random.below(left.len())) {
            0 => parts.proactor = None,
            1 => parts.handle = None,
            2 => parts.sockets.clear(),
            3 => parts.pools = None,
            4 => parts.slabs.clear(),
            _ if parts.futures.is_empty() => {}
            _ => drop(parts.futures.swap_remove(random.below(parts.futures.len()))),
        }
        if random.below(3) == 0
            && let Some(proactor) = &parts.proactor
        {
            proactor.poll(Some(Duration::ZERO)).unwrap();
        }
    }
}

/// A handle is kept: what is submitted after the end is over at once, with its memory.
pub fn after_the_end_memory_comes_back(run: &Run) {
    for by_drop in [false, true] {
        let rig = run.rig();
        let (pool, receive_pool) = (rig.pool(6, 100), rig.receive_pool(2, 100));
        let (ours, _peer) = pair(Kind::Tcp);
        let file = File::from(tempfile::tempfile().unwrap());
        let region = rig.region(1, 1, Access::WRITE);
        // One before the end, that nobody has looked at.
        let before = rig.handle.receive_into(&ours, pool.try_acquire().unwrap());
        let Rig { proactor, handle } = rig;
        if by_drop {
            drop(proactor);
        } else {
            assert_eq!(proactor.shut_down(Duration::from_secs(5)).quarantined, 0);
        }
        let is_over = |error| matches!(error, IoError::ShutDown { .. });
        let is_over_or_cancelled = |error| is_over(error) || matches!(error, IoError::Cancelled { .. });
        wait_for(async {
            let before = before.await;
            assert!(before.result.is_err_and(is_over_or_cancelled));
            assert!(before.buffers.into_lease().is_some());

            let sent = handle.send(&ours, lease(&pool, Pattern(110), 0, 100)).await;
            assert!(sent.result.is_err_and(is_over));
            assert!(sent.returned().await.buffers.into_lease().is_some());
            let received = handle.receive_into(&ours, pool.try_acquire().unwrap()).await;
            assert!(received.result.is_err_and(is_over));
            assert!(received.buffers.into_lease().is_some());
            let written = handle.write_at(&file, lease(&pool, Pattern(110), 0, 1), 0).await;
            assert!(written.result.is_err_and(is_over));
            assert!(written.buffers.into_lease().is_some());
            assert!(handle.nop().await.is_err_and(is_over));
            assert!(handle.timeout(Duration::ZERO).await.is_err_and(is_over));
            assert!(handle.close(ours.clone()).await.is_err_and(is_over));
            let mut receive = handle.receive(&ours, &receive_pool);
            assert!(receive.delivery().await.unwrap().is_err_and(is_over));
            assert!(receive.delivery().await.is_none());
            let mut accept = handle.accept(&ours);
            assert!(accept.connection().await.unwrap().is_err_and(is_over));
            assert!(handle.register_slab(region.slab(), Access::READ).await.is_err());
            assert!(handle.receive_pool(&region).await.is_err());
            let mut sequence = handle.sequence();
            let last = sequence.write_at(&file, lease(&pool, Pattern(110), 0, 1), 0);
            sequence.start();
            assert!(last.await.result.is_err_and(is_over_or_cancelled));
        });
        assert_eq!((pool.available(), handle.in_flight()), (6, 0));
        let statistics = handle.statistics();
        assert_eq!(statistics.submitted, statistics.finished, "everything has an outcome");
        drop((receive_pool, region));
    }
}

/// What a silent peer keeps waiting ends with the proactor, soon, and with its memory.
pub fn a_shut_down_ends_what_waits(run: &Run) {
    let rig = run.rig();
    let (pool, receive_pool) = (rig.pool(2, 100), rig.receive_pool(4, 100));
    let (ours, mut peer) = pair(Kind::Tcp);
    let into = rig.handle.receive_into(&ours, pool.try_acquire().unwrap());
    let mut receive = rig.handle.receive(&pair(Kind::Tcp).0, &receive_pool);
    let (other, other_peer) = pair(Kind::Unix);
    let mut held = rig.handle.receive(&other, &receive_pool);
    let writing = writer(other_peer, Pattern(111), 300);
    let mut checker = Checker::new(Pattern(111));
    rig.take_until(&mut held, &mut checker, 300);
    rig.turn();
    assert_eq!(rig.proactor.shut_down(Duration::from_secs(20)).quarantined, 0);
    wait_for(async {
        let into = into.await;
        assert!(into.result.is_err());
        let mut lease = into.buffers.into_lease().expect("the kernel has let go");
        lease.fill(0xAA);
        peer.write_all(&[0x55; 100]).unwrap();
        assert_untouched(&[lease]);
        // The peer of the second has gone: an end, or the shut-down.
        while receive.delivery().await.is_some() {}
        loop {
            match held.delivery().await {
                Some(Ok(Received::Data(_))) => panic!("no byte comes twice"),
                Some(Ok(Received::End) | Err(_)) => {}
                None => break,
            }
        }
    });
    drop(writing.join().unwrap());
    assert_eq!(pool.available(), 2);
}

/// What cannot be cancelled is waited for as long as was said, and then kept from everybody.
pub fn what_is_stuck_is_quarantined(run: &Run) {
    let rig = run.rig();
    let pool = rig.pool(2, 100);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    // Open for both: a read finds nothing, and no end.
    let fifo = open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let write = fifo.try_clone().unwrap();
    let file = File::from(fifo);
    let mut read = rig.handle.read_at(&file, pool.try_acquire().unwrap(), 0);
    for _ in 0..20 {
        rig.turn();
    }
    if let std::task::Poll::Ready(read) = look(&mut read) {
        // A file that cannot seek may be refused at once.
        assert_eq!(read.result.unwrap_err().raw_os_error(), Some(libc::ESPIPE));
        return;
    }
    let handle = rig.handle.clone();
    let ended = rig.proactor.shut_down(Duration::from_millis(200));
    assert!(ended.quarantined <= 1);
    let read = wait_for(read);
    assert!(read.result.is_err(), "{:?}", read.result);
    if ended.quarantined == 1 {
        assert_eq!(handle.statistics().quarantined, 1);
        assert_eq!(read.buffers.len_bytes(), 0, "the memory is the kernel's for ever");
        assert_eq!(pool.available(), 1);
    } else {
        assert_eq!(pool.available() + usize::from(read.buffers.len_bytes() > 0), 2);
    }
    let mut held = Vec::new();
    take_and_fill(&pool, &mut held);
    // Whoever was stuck reads now, into memory that is still there.
    rustix::io::write(&write, &[0x55; 100]).unwrap();
    thread::sleep(Duration::from_millis(20));
    assert_untouched(&held);
}

/// Sends that a proactor's end finds half done: no byte of theirs changes under the network's hands.
pub fn a_send_outlives_its_proactor(run: &Run) {
    const LARGE: usize = 8 << 20;
    let rig = run.rig();
    let pool = rig.pool(1, LARGE);
    let (ours, mut peer) = pair(Kind::Tcp);
    let zero_copy = transload::proactor::ZeroCopy::On;
    let send = rig.handle.send_with(&ours, lease(&pool, Pattern(112), 0, LARGE), zero_copy);
    for _ in 0..10 {
        rig.turn();
    }
    drop((send, ours));
    drop(rig);
    let mut held = Vec::new();
    take_and_fill(&pool, &mut held);
    // Whatever arrives is what was sent.
    patient(&peer);
    let (mut buffer, mut checker) = (vec![0; 1 << 20], Checker::new(Pattern(112)));
    peer.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    while let Ok(count) = std::io::Read::read(&mut peer, &mut buffer) {
        checker.feed(&buffer[..count]);
        if count == 0 {
            break;
        }
    }
    assert_untouched(&held);
}
