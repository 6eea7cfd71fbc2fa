//! Many threads at few buffers, each of which is stamped by its owner: two owners would see each other's stamp.
//!
//! With `TRANSLOAD_LONG` set (`cargo xtask test --long`) 200 million turns in all instead of some hundred thousand.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod pool_kit;

use std::thread;
use std::time::{Duration, Instant};

use pool_kit::pool;
use transload::pool::BufferPool;

/// How many turns in all, and for how long at most: a busy machine does fewer.
fn turns() -> (u64, Duration) {
    if std::env::var_os("TRANSLOAD_LONG").is_some() {
        (200_000_000, Duration::from_hours(1))
    } else {
        (400_000, Duration::from_secs(6))
    }
}

/// One turn: the buffer must be unstamped, then ours until we say so.
fn stamp(bytes: &mut [u8], id: u8, pause: bool) {
    assert_eq!(bytes, [0; 8], "somebody has this buffer too");
    bytes.fill(id);
    if pause {
        thread::yield_now();
    }
    assert_eq!(bytes, [id; 8], "somebody wrote into this buffer");
    bytes.fill(0);
}

fn stress(buffers: usize, by_handle: bool) {
    let pool: BufferPool = pool(buffers, 8);
    let threads = 4 * thread::available_parallelism().map_or(2, usize::from);
    let (turns, time) = turns();
    let (each, end) = (turns / threads as u64, Instant::now() + time);
    let threads: Vec<_> = (0..threads)
        .map(|id| {
            let pool = pool.clone();
            thread::spawn(move || {
                let id = u8::try_from(id % 250 + 1).unwrap();
                let mut handle = pool.handle();
                let mut done = 0;
                while done < each && (done % 256 != 0 || Instant::now() < end) {
                    let found = if by_handle { handle.try_acquire() } else { pool.try_acquire() };
                    let Ok(mut lease) = found else {
                        thread::yield_now();
                        continue;
                    };
                    stamp(&mut lease, id, done % 97 == 0);
                    if by_handle {
                        handle.release(lease);
                    } else if done % 3 == 0 {
                        pool.release_raw(lease.into_raw()).unwrap();
                    } else {
                        drop(lease);
                    }
                    done += 1;
                }
                done
            })
        })
        .collect();
    let done: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    let statistics = pool.statistics();
    assert_eq!((statistics.acquired, statistics.released, pool.available()), (done, done, buffers));
    assert!(done >= turns / 2 || Instant::now() >= end, "{done} of {turns} turns");
}

#[test]
fn a_buffer_has_one_owner_by_handles() {
    stress(3, true);
}

#[test]
fn a_buffer_has_one_owner_from_any_thread() {
    stress(3, false);
}

/// Leases go from thread to thread: some only take, others only give back.
#[test]
fn buffers_go_round_between_takers_and_givers() {
    let pool = pool(700, 8);
    let (sender, receiver) = std::sync::mpsc::sync_channel::<transload::pool::Lease>(64);
    let receiver = std::sync::Arc::new(std::sync::Mutex::new(receiver));
    let end = Instant::now() + Duration::from_secs(3);
    let takers: Vec<_> = (0..2u64)
        .map(|_| {
            let (pool, sender) = (pool.clone(), sender.clone());
            thread::spawn(move || {
                let mut done = 0u64;
                while done < 100_000 && Instant::now() < end {
                    let Ok(mut lease) = pool.try_acquire() else {
                        thread::yield_now();
                        continue;
                    };
                    stamp(&mut lease, 1, false);
                    sender.send(lease).unwrap();
                    done += 1;
                }
                done
            })
        })
        .collect();
    drop(sender);
    let givers: Vec<_> = (0..2)
        .map(|_| {
            let receiver = receiver.clone();
            thread::spawn(move || {
                let mut done = 0u64;
                loop {
                    let next = receiver.lock().unwrap().recv();
                    let Ok(mut lease) = next else { return done };
                    stamp(&mut lease, 2, false);
                    done += 1;
                }
            })
        })
        .collect();
    let count = |threads: Vec<thread::JoinHandle<u64>>| {
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    };
    assert_eq!(count(takers), count(givers));
    assert_eq!(pool.available(), 700);
}
