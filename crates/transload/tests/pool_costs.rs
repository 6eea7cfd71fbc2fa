//! What a lease costs besides time: no allocation after a thread's first use, also when there is none.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod counting;
mod pool_kit;

use std::thread;

use counting::allocations;
use pool_kit::pool;

#[test]
fn nothing_allocates_after_the_first_use() {
    for buffers in [3, 1000, 100_000] {
        let (pool, other) = (pool(buffers, 8), pool(2, 8));
        let mut handle = pool.handle();
        let mut leases = Vec::with_capacity(buffers);
        drop((pool.try_acquire(), other.try_acquire()));
        let work = || {
            for _ in 0..1000 {
                drop(pool.try_acquire().unwrap());
                drop(other.try_acquire().unwrap());
                let lease = handle.try_acquire().unwrap();
                handle.release(lease);
            }
            while let Ok(lease) = pool.try_acquire() {
                leases.push(lease);
            }
            for _ in 0..1000 {
                assert!(pool.try_acquire().is_err() && handle.try_acquire().is_err());
            }
            // Hints overflow, numbers come and go.
            for lease in leases.drain(..) {
                let raw = lease.into_raw();
                pool.release_raw(raw).unwrap();
            }
            std::hint::black_box((pool.available(), pool.lease_from_raw(raw_of_nobody()).is_err()));
        };
        assert_eq!(allocations(work), 0, "{buffers} buffers");
    }
}

fn raw_of_nobody() -> transload::pool::RawLease {
    transload::pool::RawLease { pool: 0, generation: 0, index: 0 }
}

#[test]
fn giving_back_on_another_thread_allocates_at_its_first_use_only() {
    let pool = pool(64, 8);
    let leases: Vec<_> = (0..64).map(|_| pool.try_acquire().unwrap()).collect();
    thread::spawn(move || {
        let mut leases = leases.into_iter();
        drop(leases.next());
        let rest = allocations(|| leases.by_ref().for_each(drop));
        assert_eq!(rest, 0);
    })
    .join()
    .unwrap();
}
