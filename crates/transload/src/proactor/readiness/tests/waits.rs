//! When a wait ends, and what the end of the back end does.

use std::io::Write;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::super::super::backend::{Attempt, Backend};
use super::super::super::capability::Capabilities;
use super::super::super::file::File;
use super::fixture::{Bench, LONG, SHORT, filled, key, listener, pair, piece, pool, tcp};
use crate::memory::{Policy, Slab};

#[test]
fn a_wait_ends_with_its_time() {
    let mut bench = Bench::new();
    let start = Instant::now();
    assert!(bench.wait(SHORT).is_empty());
    assert!(start.elapsed() >= SHORT);
    assert!(bench.wait(Duration::ZERO).is_empty());
    assert!(bench.wait(Duration::from_nanos(1)).is_empty());
}

#[test]
fn a_wait_with_completions_does_not_sleep() {
    let mut bench = Bench::new();
    for number in 0..40 {
        bench.backend.start(key(number), Attempt::Nop);
        let mut completions = Vec::new();
        bench.backend.wait(None, &mut completions).unwrap();
        assert_eq!(completions.len(), 1);
    }
}

#[test]
fn the_alarm_ends_a_wait_from_another_thread_and_one_that_comes_later() {
    let mut bench = Bench::new();
    let alarm = bench.backend.alarm();
    let ringer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        alarm.ring();
    });
    let mut completions = Vec::new();
    bench.backend.wait(None, &mut completions).unwrap();
    ringer.join().unwrap();
    bench.backend.alarm().ring();
    bench.backend.wait(None, &mut completions).unwrap();
    assert!(completions.is_empty());
}

#[test]
fn an_alarm_outlives_its_back_end() {
    let alarm = Bench::new().backend.alarm();
    alarm.ring();
}

#[test]
fn a_cancellation_ends_what_waits_and_nothing_else() {
    let (socket, mut far) = pair();
    let (pool, mut bench) = (pool(2, 8), Bench::new());
    let leases = [pool.try_acquire().unwrap(), pool.try_acquire().unwrap()];
    bench.receive(1, &socket, &[piece(&leases[0])]);
    bench.receive(2, &socket, &[piece(&leases[1])]);
    bench.nothing();
    bench.backend.cancel(key(1));
    bench.backend.cancel(key(1));
    bench.backend.cancel(key(77));
    assert_eq!(bench.done(1), Err(Errno::CANCELED));
    far.write_all(b"second").unwrap();
    assert_eq!((bench.done(2), &leases[1][..6]), (Ok(6), &b"second"[..]));
    // Too late: it has ended as it would have.
    far.write_all(b"third").unwrap();
    bench.receive(3, &socket, &[piece(&leases[0])]);
    bench.backend.cancel(key(3));
    assert_eq!(bench.done(3), Ok(5));
    bench.nothing();
}

#[test]
fn an_attempt_keeps_its_socket_open_and_lets_go_of_it() {
    let (socket, mut far) = pair();
    let (pool, mut bench) = (pool(1, 8), Bench::new());
    let lease = pool.try_acquire().unwrap();
    bench.receive(1, &socket, &[piece(&lease)]);
    drop(socket);
    bench.nothing();
    far.write_all(b"x").unwrap();
    assert_eq!(bench.done(1), Ok(1));
    bench.nothing();
    assert_eq!(std::io::Read::read(&mut far, &mut [0]).unwrap(), 0);
}

#[test]
fn numbers_of_descriptors_are_used_again() {
    let (pool, mut bench) = (pool(1, 8), Bench::new());
    let lease = pool.try_acquire().unwrap();
    for round in 0..100 {
        let (socket, mut far) = tcp();
        bench.receive(round, &socket, &[piece(&lease)]);
        drop(socket);
        assert!(bench.wait(Duration::ZERO).is_empty());
        far.write_all(b"x").unwrap();
        assert_eq!(bench.done(round), Ok(1));
    }
}

#[test]
fn it_pins_nothing_and_says_what_that_means() {
    let mut bench = Bench::new();
    assert_eq!(bench.backend.capabilities(), Capabilities::NONE);
    let slab = Slab::builder(4, 64).lock(Policy::Never).build().unwrap();
    let reason = bench.backend.register(&slab, 256).unwrap_err();
    assert!(reason.contains("pins no memory"), "{reason}");
    bench.backend.unregister(&[]);
    assert_eq!(bench.backend.overflows(), 0);
}

#[test]
fn it_ends_with_everything_in_flight() {
    let pool = pool(40, 4096);
    let mut bench = Bench::with_pool(0, &pool);
    let ends: Vec<_> = (0..8).map(|_| tcp()).collect();
    let (listener, dir) = (super::super::super::socket::Socket::from(listener()), std::env::temp_dir());
    let lease = filled(&pool, &[1; 4096]);
    for (number, (socket, far)) in (0..).step_by(8).zip(&ends) {
        (&*far).write_all(&[5; 100]).unwrap();
        bench.receive_many(number, socket, 0);
        bench.backend.start(key(number + 2), Attempt::Readable { socket });
        bench.send(number + 3, socket, &[piece(&lease)]);
    }
    bench.wait(LONG);
    bench.receive(1000, &ends[0].0, &[piece(&lease)]);
    bench.backend.start(key(1001), Attempt::Accept { socket: &listener });
    let file = File::from(std::fs::File::open(dir).unwrap());
    for number in 2000..2032 {
        bench.backend.start(key(number), Attempt::Sync { file: &file, data_only: false });
    }
    let alarm = bench.backend.alarm();
    drop(bench);
    alarm.ring();
    assert_eq!(pool.available(), 39);
    drop(lease);
    // Nobody holds the sockets any more: the peers see the end.
    for (socket, mut far) in ends {
        drop(socket);
        let _ = std::io::Read::read_to_end(&mut far, &mut Vec::new());
    }
}
