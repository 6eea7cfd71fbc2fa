use std::io::Write;

use super::*;
use crate::proactor::capability::Capability;

#[test]
fn the_alarm_wakes_from_another_thread() {
    for allowed in [Capabilities::ALL, Capabilities::NONE] {
        let mut bench = Bench::with(8, allowed);
        for _ in 0..10 {
            let alarm = bench.backend.alarm();
            let ringer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(2));
                alarm.ring();
            });
            let start = Instant::now();
            bench.backend.wait(Some(LONG), &mut bench.seen).unwrap();
            assert!(start.elapsed() < LONG && bench.seen.is_empty());
            ringer.join().unwrap();
        }
        // Rung before the wait.
        bench.backend.alarm().ring();
        bench.backend.alarm().ring();
        bench.backend.wait(None, &mut bench.seen).unwrap();
        // Once for all: it does not go on ringing.
        let start = Instant::now();
        bench.backend.wait(Some(SHORT), &mut bench.seen).unwrap();
        assert!(start.elapsed() >= SHORT);
        // It may ring when there is nobody any more.
        let alarm = bench.backend.alarm();
        drop(bench);
        alarm.ring();
    }
}

#[test]
fn a_look_does_not_wait_and_finds_what_is_there() {
    let (mut bench, pool) = (Bench::new(), pool(1, 16));
    let (socket, mut peer) = unix_pair();
    let lease = pool.try_acquire().unwrap();
    bench.backend.wait(Some(Duration::ZERO), &mut bench.seen).unwrap();
    let key = bench.start(Attempt::Receive { socket: &socket, pieces: &[piece(&lease)] });
    bench.backend.wait(Some(Duration::ZERO), &mut bench.seen).unwrap();
    assert!(bench.seen.is_empty());
    peer.write_all(b"abc").unwrap();
    bench.backend.wait(Some(Duration::ZERO), &mut bench.seen).unwrap();
    assert_eq!(bench.seen.len(), 1);
    assert_eq!(bench.done(key), Ok(3));
}

#[test]
fn time_runs_out() {
    let mut bench = Bench::new();
    let start = Instant::now();
    bench.backend.wait(Some(SHORT), &mut bench.seen).unwrap();
    assert!(start.elapsed() >= SHORT && bench.seen.is_empty());
}

#[test]
fn cancelling_ends_and_a_full_queue_drops_no_cancellation() {
    let (mut bench, pool) = (Bench::with(4, Capabilities::ALL), pool(64, 16));
    let pairs: Vec<_> = (0..64).map(|_| unix_pair()).collect();
    let leases: Vec<_> = (0..64).map(|_| pool.try_acquire().unwrap()).collect();
    let keys: Vec<_> = pairs
        .iter()
        .zip(&leases)
        .map(|((socket, _), lease)| bench.start(Attempt::Receive { socket, pieces: &[piece(lease)] }))
        .collect();
    // The submissions in between fail, so that all of it piles up.
    bench.backend.ring.faults.extend([Errno::AGAIN; 100]);
    for &key in &keys {
        bench.backend.cancel(key);
    }
    bench.backend.ring.faults.clear();
    for key in keys {
        assert_eq!(bench.done(key), Err(Errno::CANCELED));
    }
    let gone = bench.key();
    bench.backend.cancel(gone);
    bench.nothing(gone);
}

#[test]
fn a_submission_that_fails_is_made_up_for() {
    for errno in [Errno::AGAIN, Errno::BUSY, Errno::INTR] {
        let (mut bench, pool) = (Bench::new(), pool(1, 16));
        let (socket, mut peer) = unix_pair();
        let lease = pool.try_acquire().unwrap();
        let key = bench.start(Attempt::Receive { socket: &socket, pieces: &[piece(&lease)] });
        bench.backend.ring.faults.push_back(errno);
        peer.write_all(b"abc").unwrap();
        assert_eq!(bench.done(key), Ok(3), "{errno:?}");
        assert!(bench.backend.ring.faults.is_empty());
    }
}

#[test]
fn an_attempt_keeps_its_descriptor_open() {
    let (mut bench, pool) = (Bench::new(), pool(1, 16));
    let (socket, mut peer) = unix_pair();
    let lease = pool.try_acquire().unwrap();
    // Not submitted yet, and the socket goes: its number must not become another's.
    let key = bench.start(Attempt::Receive { socket: &socket, pieces: &[piece(&lease)] });
    drop(socket);
    let _others: Vec<_> = (0..8).map(|_| unix_pair()).collect();
    peer.write_all(b"abc").unwrap();
    assert_eq!(bench.done(key), Ok(3));
}

#[test]
fn each_capability_can_be_masked() {
    let all = UringBackend::open(8, Capabilities::ALL).unwrap().capabilities();
    println!("this kernel: {all:?}");
    assert_eq!(super::super::probe().unwrap(), all);
    for capability in Capability::ALL {
        let backend = UringBackend::open(8, Capabilities::ALL.without(capability)).unwrap();
        assert_eq!(backend.capabilities(), all.without(capability));
    }
    let mut bench = Bench::with(8, Capabilities::NONE);
    assert_eq!(bench.backend.capabilities(), Capabilities::NONE);
    let error = bench.backend.register(&slab(1, 4096), 4096).unwrap_err();
    assert!(error.contains("fixed-buffers"), "{error}");
    let key = bench.start(Attempt::Nop);
    assert_eq!(bench.done(key), Ok(0));
}
