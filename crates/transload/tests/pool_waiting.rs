//! Waiting for a lease: by time, by future, given up, closed. Nothing is lost on the way.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod pool_kit;
mod staging_kit;

use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pool_kit::pool;
use staging_kit::{LIMIT, Signal, block_on, until, within_limit};
use transload::pool::{AcquireError, BufferPool};

#[test]
fn a_wait_that_is_too_short_says_what_to_do() {
    let pool = pool(4, 8);
    let leases: Vec<_> = (0..4).map(|_| pool.try_acquire().unwrap()).collect();
    let begun = Instant::now();
    let error = pool.acquire_timeout(Duration::from_millis(1300)).unwrap_err();
    assert!(begun.elapsed() >= Duration::from_millis(1300));
    let AcquireError::TimedOut { held_seconds: 1.., capacity: 4 } = error else { panic!("{error:?}") };
    assert!(error.is_exhausted());
    for part in ["4 of 4 are leased", "make the slab larger", "for at least "] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(pool.statistics().waited >= 1);
    let zero = pool.acquire_timeout(Duration::ZERO).unwrap_err();
    assert!(matches!(zero, AcquireError::TimedOut { .. }));
    drop(leases);
    drop(pool.acquire_timeout(Duration::ZERO).unwrap());
    assert_eq!(pool.available(), 4);
}

#[test]
fn a_release_wakes_a_thread() {
    let pool = pool(1, 8);
    for _ in 0..20 {
        let lease = pool.try_acquire().unwrap();
        let (other, before) = (pool.clone(), pool.statistics().waited);
        let waiter = thread::spawn(move || other.acquire_timeout(LIMIT).unwrap().index());
        until("a sleeper", || pool.statistics().waited > before);
        drop(lease);
        assert_eq!(waiter.join().unwrap(), 0);
        assert_eq!(pool.available(), 1);
    }
}

#[test]
fn a_raw_release_and_a_handle_wake_too() {
    let pool = pool(1, 8);
    let mut handle = pool.handle();
    for raw in [true, false] {
        let lease = handle.try_acquire().unwrap();
        let waiting = pool.acquire();
        let signal = Signal::new();
        let mut waiting = pin!(waiting);
        assert!(signal.poll(waiting.as_mut()).is_pending());
        if raw {
            pool.release_raw(lease.into_raw()).unwrap();
        } else {
            handle.release(lease);
        }
        assert_eq!(signal.count(), 1);
        assert!(signal.poll(waiting.as_mut()).is_ready());
    }
}

#[test]
fn closing_ends_every_wait() {
    let pool = pool(1, 8);
    let _lease = pool.try_acquire().unwrap();
    let (by_time, by_future) = (pool.clone(), pool.clone());
    let thread = thread::spawn(move || by_time.acquire_timeout(LIMIT).unwrap_err());
    let future = thread::spawn(move || block_on(by_future.acquire()).unwrap_err());
    until("two sleepers", || pool.statistics().waited >= 2);
    pool.close();
    assert_eq!(
        (thread.join().unwrap(), future.join().unwrap()),
        (AcquireError::Closed, AcquireError::Closed)
    );
}

#[test]
fn two_releases_wake_two() {
    let pool = pool(2, 8);
    let leases: Vec<_> = (0..2).map(|_| pool.try_acquire().unwrap()).collect();
    let (one, two) = (Signal::new(), Signal::new());
    let (mut first, mut second) = (pin!(pool.acquire()), pin!(pool.acquire()));
    assert!(one.poll(first.as_mut()).is_pending());
    assert!(two.poll(second.as_mut()).is_pending());
    drop(leases);
    assert_eq!((one.count(), two.count()), (1, 1));
    assert!(one.poll(first.as_mut()).is_ready() && two.poll(second.as_mut()).is_ready());
}

#[test]
fn a_wait_that_is_given_up_passes_its_call_on() {
    let pool = pool(1, 8);
    let lease = pool.try_acquire().unwrap();
    let (one, two) = (Signal::new(), Signal::new());
    let mut first = Box::pin(pool.acquire());
    let mut second = pin!(pool.acquire());
    assert!(one.poll(first.as_mut()).is_pending());
    assert!(two.poll(second.as_mut()).is_pending());
    drop(lease);
    assert_eq!((one.count(), two.count()), (1, 0), "the first is called");
    drop(first);
    assert_eq!(two.count(), 1, "and hands its call on");
    assert!(two.poll(second.as_mut()).is_ready());
    assert_eq!(pool.available(), 1);
}

#[test]
fn a_future_keeps_the_pool_and_needs_nothing_else() {
    fn free<T: Send + 'static>(value: T) -> T {
        value
    }
    let pool = pool(1, 8);
    let waiting = free(pool.acquire());
    drop(pool);
    drop(block_on(waiting).unwrap());
}

/// Many wait by all ways, some give up at random moments; every buffer comes back and everybody is served.
#[test]
fn nothing_is_lost_while_some_give_up() {
    within_limit(|| {
        let pool = pool(2, 8);
        let threads: Vec<_> = (0..6u64)
            .map(|id| {
                let pool: BufferPool = pool.clone();
                thread::spawn(move || {
                    for turn in 0..1500u64 {
                        let mut seed = (id << 32 | turn).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                        seed ^= seed >> 29;
                        match seed % 4 {
                            0 => drop(pool.acquire_timeout(LIMIT).unwrap()),
                            1 => drop(block_on(pool.acquire()).unwrap()),
                            2 => drop(pool.acquire_timeout(Duration::from_micros(seed % 50))),
                            _ => {
                                // Polled once or twice, then dropped, called or not.
                                let (signal, mut waiting) = (Signal::new(), Box::pin(pool.acquire()));
                                let lease = signal.poll(waiting.as_mut());
                                thread::yield_now();
                                if lease.is_pending() && seed % 8 < 4 {
                                    let _ = signal.poll(waiting.as_mut());
                                }
                                drop(lease);
                            }
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(pool.available(), 2);
        let statistics = pool.statistics();
        assert_eq!(statistics.acquired, statistics.released);
    });
}

/// A chain that needs a second buffer to give the first one back, in a pool that has no second: it ends with an error
/// that says so.
#[test]
fn a_chain_that_eats_its_own_pool_ends() {
    let pool = Arc::new(pool(4, 8));
    let held: Vec<_> = (0..4).map(|_| pool.try_acquire().unwrap()).collect();
    let error = pool.acquire_timeout(Duration::from_millis(50)).unwrap_err();
    assert!(error.to_string().contains("4 of 4"), "{error}");
    assert_eq!(pool.statistics().leased, 4);
    drop(held);
}
