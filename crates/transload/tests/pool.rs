//! The buffer pool from outside: leases, exhaustion, threads, the end.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod pool_kit;

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pool_kit::{pool, region};
use transload::device::host::HostDevice;
use transload::memory::{Policy, Slab, SlabError};
use transload::pool::{AcquireError, BufferPool, Lease, PoolError};
use transload::region::{Access, Region, Registrar, Registration};
use transload::staging::PinnedStagingBuffer;

fn all(pool: &BufferPool) -> Vec<Lease> {
    std::iter::from_fn(|| pool.try_acquire().ok()).collect()
}

#[test]
fn a_new_pool_is_all_there() {
    let pool = pool(16, 4096);
    assert_eq!((pool.capacity(), pool.available(), pool.buffer_size()), (16, 16, 4096));
    let statistics = pool.statistics();
    assert_eq!((statistics.capacity, statistics.leased, statistics.acquired), (16, 0, 0));
    assert!(!pool.is_closed());
}

#[test]
fn available_follows_leases() {
    let pool = pool(4, 1024);
    let lease = pool.try_acquire().unwrap();
    assert_eq!((pool.available(), lease.len(), lease.capacity()), (3, 1024, 1024));
    assert!(lease.region().slab().same_memory(pool.region().slab()));
    lease.release();
    assert_eq!(pool.available(), 4);
    let mut leases = all(&pool);
    assert_eq!(leases.len(), 4);
    while leases.pop().is_some() {
        assert_eq!(pool.available(), 4 - leases.len());
    }
}

#[test]
fn buffers_are_disjoint_and_where_their_spans_say() {
    for count in [1, 2, 3, 7, 63, 64, 65, 1000] {
        let pool = pool(count, 24);
        let mut leases = all(&pool);
        assert_eq!(leases.len(), count);
        for lease in &mut leases {
            let mark = u8::try_from(lease.index() % 251).unwrap();
            lease.fill(mark);
        }
        let base = pool.region().slab().as_ptr();
        for lease in &leases {
            assert!(lease.iter().all(|&byte| u32::from(byte) == lease.index() % 251));
            assert_eq!(lease.span().offset(), lease.index() as usize * 24);
            assert_eq!(lease.as_ptr(), base.wrapping_add(lease.span().offset()));
        }
        let indices: BTreeSet<_> = leases.iter().map(Lease::index).collect();
        assert_eq!(
            indices.into_iter().collect::<Vec<_>>(),
            (0..u32::try_from(count).unwrap()).collect::<Vec<_>>()
        );
    }
}

#[test]
fn many_buffers_are_all_handed_out_and_come_back() {
    for count in [65_534, 65_535, 100_000, 1_000_000] {
        let pool = pool(count, 1);
        for _ in 0..2 {
            let leases = all(&pool);
            assert_eq!(leases.len(), count);
            assert_eq!(leases.iter().map(Lease::index).collect::<BTreeSet<_>>().len(), count);
            assert_eq!(pool.available(), 0);
            // By a thread that only gives back: its hints overflow, and then it ends.
            thread::spawn(move || drop(leases)).join().unwrap();
            assert_eq!(pool.available(), count);
        }
    }
}

#[test]
fn exhausted_says_how_many_there_are_and_ends_with_a_release() {
    let pool = pool(2, 64);
    let (first, _second) = (pool.try_acquire().unwrap(), pool.try_acquire().unwrap());
    let error = pool.try_acquire().unwrap_err();
    assert_eq!(error, AcquireError::Exhausted { capacity: 2 });
    assert!(error.is_exhausted() && error.to_string().contains("all 2 buffers"), "{error}");
    assert_eq!(pool.statistics().exhausted, 1);
    let index = first.index();
    drop(first);
    assert_eq!(pool.try_acquire().unwrap().index(), index);
}

#[test]
fn a_lease_moves_without_its_bytes_and_goes_home_from_any_thread() {
    fn movable<T: Send + Sync + Unpin + 'static>() {}
    movable::<Lease>();
    let pool = pool(3, 64);
    let mut lease = pool.try_acquire().unwrap();
    lease.copy_from_slice(&[9; 64]);
    let (address, boxed) = (lease.as_ptr().addr(), Box::new(lease));
    let other = thread::spawn(move || (boxed.as_ptr().addr(), boxed.to_vec()));
    assert_eq!(other.join().unwrap(), (address, vec![9; 64]));
    assert_eq!(pool.available(), 3);
}

#[test]
fn a_length_is_within_the_buffer() {
    let pool = pool(1, 100);
    let mut lease = pool.try_acquire().unwrap();
    for (asked, got) in [(0, 0), (7, 7), (100, 100), (101, 100), (usize::MAX, 100)] {
        lease.resize(asked);
        assert_eq!((lease.len(), lease.span().len_bytes(), lease.capacity()), (got, got, 100));
    }
    lease.resize(1);
    drop(lease);
    assert_eq!(pool.try_acquire().unwrap().len(), 100, "a fresh lease has all");
}

#[test]
fn a_zeroed_pool_hands_nothing_on() {
    let pool = BufferPool::builder(&region(2, 256)).zeroed(true).build().unwrap();
    let mut handle = pool.handle();
    for _ in 0..10 {
        let (mut one, mut two) = (pool.try_acquire().unwrap(), handle.try_acquire().unwrap());
        assert!(one.iter().chain(two.iter()).all(|&byte| byte == 0));
        one.fill(1);
        two.fill(2);
    }
}

#[test]
fn frozen_leases_are_read_by_many_and_thaw_when_alone() {
    let pool = pool(1, 4);
    let mut lease = pool.try_acquire().unwrap();
    lease.copy_from_slice(b"read");
    let frozen = lease.freeze();
    let other = frozen.clone();
    assert_eq!((&*frozen, other.as_ref()), (&b"read"[..], &b"read"[..]));
    let frozen = frozen.thaw().unwrap_err();
    drop(other);
    assert_eq!(pool.available(), 0);
    let mut lease = frozen.thaw().unwrap();
    lease[0] = b'R';
    drop(lease.freeze());
    assert_eq!(pool.available(), 1);
}

#[test]
fn a_batch_is_as_many_as_there_are() {
    let pool = pool(5, 8);
    let mut leases = Vec::new();
    assert_eq!(pool.acquire_batch(0, &mut leases), Ok(0));
    assert_eq!(pool.acquire_batch(3, &mut leases), Ok(3));
    assert_eq!(pool.acquire_batch(3, &mut leases), Ok(2));
    assert_eq!(pool.acquire_batch(3, &mut leases), Err(AcquireError::Exhausted { capacity: 5 }));
    assert_eq!(leases.iter().map(Lease::index).collect::<BTreeSet<_>>().len(), 5);
}

#[test]
fn a_handle_gives_back_to_its_own_pool_only() {
    let (ours, theirs) = (pool(2, 8), pool(2, 8));
    let mut handle = ours.handle();
    let (own, foreign) = (handle.try_acquire().unwrap(), theirs.try_acquire().unwrap());
    handle.release(foreign);
    assert_eq!((ours.available(), theirs.available()), (1, 2));
    handle.release(own);
    assert_eq!(ours.available(), 2);
    let kept: Vec<_> = (0..2).map(|_| handle.try_acquire().unwrap()).collect();
    assert!(handle.try_acquire().unwrap_err().is_exhausted());
    drop(kept);
    drop(handle);
    assert_eq!(all(&ours).len(), 2);
}

#[test]
fn a_thread_that_ends_takes_nothing_with_it() {
    for count in [3, 200, 5000] {
        let pool = pool(count, 8);
        for _ in 0..4 {
            let other = pool.clone();
            // Ends with hints in its seat, and with a handle that it forgets to use.
            thread::spawn(move || {
                let mut handle = other.handle();
                let leases = all(&other);
                for lease in leases {
                    handle.release(lease);
                }
            })
            .join()
            .unwrap();
            assert_eq!(all(&pool).len(), count);
        }
    }
}

#[test]
fn a_thread_that_stands_still_keeps_only_its_leases() {
    let pool = pool(500, 8);
    let (ready, standing) = mpsc::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let other = pool.clone();
    let thread = thread::spawn(move || {
        let mut leases = all(&other);
        leases.truncate(1);
        ready.send(()).unwrap();
        let _ = wait.recv();
        drop(leases);
    });
    standing.recv().unwrap();
    assert_eq!(all(&pool).len(), 499);
    drop(go_on);
    thread.join().unwrap();
}

#[test]
fn more_threads_than_seats_share() {
    let pool = pool(10, 8);
    let (ready, standing) = mpsc::channel();
    let gates: Vec<_> = (0..70)
        .map(|_| {
            let (go_on, wait) = mpsc::channel::<()>();
            let (pool, ready) = (pool.clone(), ready.clone());
            let thread = thread::spawn(move || {
                drop(pool.try_acquire());
                ready.send(()).unwrap();
                let _ = wait.recv();
                for _ in 0..100 {
                    drop(pool.try_acquire());
                }
            });
            (go_on, thread)
        })
        .collect();
    for _ in 0..70 {
        standing.recv().unwrap();
    }
    let threads: Vec<_> = gates
        .into_iter()
        .map(|(go_on, thread)| {
            drop(go_on);
            thread
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(pool.available(), 10);
    assert_eq!(all(&pool).len(), 10);
    let statistics = pool.statistics();
    assert_eq!(statistics.acquired, statistics.released);
}

#[test]
fn a_lease_dropped_while_its_thread_ends_comes_back() {
    thread_local! {
        static KEPT: std::cell::RefCell<Vec<Lease>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let pool = pool(4, 8);
    let other = pool.clone();
    thread::spawn(move || {
        // Registered before the pool's own list, so it is dropped behind that.
        KEPT.with_borrow_mut(|kept| kept.extend(other.try_acquire().ok()));
        KEPT.with_borrow_mut(|kept| kept.extend(other.try_acquire().ok()));
    })
    .join()
    .unwrap();
    assert_eq!(pool.available(), 4);
}

#[test]
fn a_closed_pool_hands_out_nothing_and_takes_all_back() {
    let pool = pool(3, 8);
    let mut handle = pool.handle();
    let (lease, raw) = (pool.try_acquire().unwrap(), pool.try_acquire().unwrap().into_raw());
    pool.close();
    pool.close();
    assert!(pool.is_closed());
    assert_eq!(pool.try_acquire().unwrap_err(), AcquireError::Closed);
    assert_eq!(handle.try_acquire().unwrap_err(), AcquireError::Closed);
    assert_eq!(pool.acquire_timeout(Duration::MAX).unwrap_err(), AcquireError::Closed);
    drop(lease);
    pool.release_raw(raw).unwrap();
    assert_eq!(pool.available(), 3);
}

/// A region that says when its registration, and with it the pool, is gone.
fn watched(buffers: usize) -> (Region, mpsc::Receiver<()>) {
    struct Guard(mpsc::Sender<()>);
    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (sender, gone) = mpsc::channel();
    let slab = Slab::builder(buffers, 64).lock(Policy::Never).build().unwrap();
    (Region::new(slab, Access::READ_WRITE, Registration::Mapped, Box::new(Guard(sender))), gone)
}

#[test]
fn the_memory_goes_with_the_last_lease() {
    let (region, gone) = watched(4);
    let pool = BufferPool::new(&region).unwrap();
    let mut leases = all(&pool);
    leases.pop();
    let handle = pool.handle();
    drop((region, pool));
    assert!(gone.try_recv().is_err(), "a handle is left");
    drop(handle);
    let last = leases.pop().unwrap();
    drop(leases);
    assert!(gone.try_recv().is_err(), "a lease is out");
    thread::spawn(move || {
        assert_eq!(last.len(), 64);
        drop(last);
    })
    .join()
    .unwrap();
    gone.try_recv().unwrap();
}

#[test]
fn the_memory_goes_at_once_where_nothing_is_out() {
    let (region, gone) = watched(4);
    let pool = BufferPool::new(&region).unwrap();
    drop(pool.try_acquire());
    drop((region, pool));
    gone.try_recv().unwrap();
}

#[test]
fn last_handle_and_last_leases_go_together_and_the_memory_goes_once() {
    for round in 0..300 {
        let (region, gone) = watched(3);
        let pool = BufferPool::new(&region).unwrap();
        let leases = all(&pool);
        drop(region);
        let threads: Vec<_> = leases.into_iter().map(|lease| thread::spawn(move || drop(lease))).collect();
        if round % 2 == 0 {
            thread::yield_now();
        }
        drop(pool);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(gone.try_iter().count(), 1, "round {round}");
    }
}

#[test]
fn what_is_quarantined_keeps_its_memory_and_is_counted() {
    let (region, gone) = watched(3);
    let pool = BufferPool::new(&region).unwrap();
    let leases = all(&pool);
    let indices: Vec<_> = leases.iter().map(Lease::index).collect();
    leases.into_iter().next().unwrap().quarantine();
    let statistics = pool.statistics();
    assert_eq!((statistics.quarantined, statistics.leased, statistics.released), (1, 0, 2));
    let again: Vec<_> = all(&pool).iter().map(Lease::index).collect();
    assert!(again.len() == 2 && !again.contains(&indices[0]), "{again:?}");
    drop((region, pool));
    assert!(gone.try_recv().is_err());
}

#[test]
#[expect(clippy::mem_forget, reason = "that is the point")]
fn a_forgotten_lease_stays_out() {
    let (region, gone) = watched(2);
    let pool = BufferPool::new(&region).unwrap();
    std::mem::forget(pool.try_acquire().unwrap());
    assert_eq!((pool.available(), all(&pool).len()), (1, 1));
    drop((region, pool));
    assert!(gone.try_recv().is_err());
}

#[test]
fn a_slab_has_one_tenant_and_is_free_after_a_failure() {
    let slab = Slab::builder(8, 64).lock(Policy::Never).build().unwrap();
    let region = HostDevice::new().register(&slab, Access::READ).unwrap();
    let pool = BufferPool::new(&region).unwrap();
    let error = BufferPool::new(&region).unwrap_err();
    assert!(matches!(error, PoolError::Slab(SlabError::Occupied { .. })), "{error}");
    let lease = pool.try_acquire().unwrap();
    drop(pool);
    assert!(BufferPool::new(&region).is_err(), "a lease is out");
    drop(lease);
    let pool = BufferPool::new(&region).unwrap();
    assert!(PinnedStagingBuffer::builder(8, 64).slab(slab).build().is_err(), "a pool has it");
    assert_eq!(all(&pool).len(), 8);
}

#[test]
fn what_is_too_large_is_refused_and_leaves_the_slab_free() {
    // Never touched, so this is address space only; and no pool is made, so nothing of it is.
    let wrap = |count, size| {
        // SAFETY: nothing reads or writes through this slab: pools refuse it, and it is dropped at once.
        unsafe { Slab::wrap(std::ptr::NonNull::dangling(), count, size) }
    };
    for (count, size) in [((1 << 31) + 1, 1), (1, 1 << 32)] {
        let Ok(slab) = wrap(count, size) else { continue };
        let region = Region::new(slab, Access::READ, Registration::Mapped, Box::new(()));
        for _ in 0..2 {
            let error = BufferPool::new(&region).unwrap_err();
            let named = matches!(error, PoolError::TooManyBuffers { .. } | PoolError::BuffersTooLarge { .. });
            assert!(named, "twice the same, as the slab was not kept: {error}");
        }
    }
}

#[test]
fn statistics_know_the_oldest_lease_and_its_thread() {
    let pool = pool(4, 8);
    let other = pool.clone();
    let named = thread::Builder::new().name("worker-3".to_owned());
    let lease = named.spawn(move || other.try_acquire().unwrap()).unwrap().join().unwrap();
    assert!(pool.statistics().oldest.is_some());
    thread::sleep(Duration::from_millis(30));
    let first = pool.statistics();
    thread::sleep(Duration::from_millis(30));
    let _younger = pool.try_acquire().unwrap();
    let oldest = pool.statistics().oldest.unwrap();
    assert_eq!(oldest.index, lease.index());
    assert!(oldest.held >= Duration::from_millis(30), "{oldest:?}");
    assert_eq!(first.leased, 1);
    // The seat is free again; who sat there last is named until somebody else sits there.
    assert!(oldest.thread.is_some());
    drop(lease);
    assert_ne!(pool.statistics().oldest.map(|oldest| oldest.held), None);
}
