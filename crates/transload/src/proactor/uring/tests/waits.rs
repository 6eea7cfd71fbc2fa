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
    for allowed in [Capabilities::ALL, Capabilities::NONE] {
        let (mut bench, pool) = (Bench::with(64, allowed), pool(1, 16));
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
}

#[test]
fn looks_find_what_another_thread_sends() {
    for allowed in [Capabilities::ALL, Capabilities::NONE] {
        let (mut bench, pool) = (Bench::with(64, allowed), pool(1, 16));
        let (socket, mut peer) = tcp_pair();
        let lease = pool.try_acquire().unwrap();
        let key = bench.start(Attempt::Receive { socket: &socket, pieces: &[piece(&lease)] });
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            peer.write_all(b"abc").unwrap();
            peer
        });
        let start = Instant::now();
        while bench.seen.is_empty() {
            assert!(start.elapsed() < LONG);
            bench.backend.wait(Some(Duration::ZERO), &mut bench.seen).unwrap();
        }
        assert_eq!(bench.done(key), Ok(3));
        writer.join().unwrap();
    }
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
fn completions_that_overflow_are_counted_and_not_lost() {
    for allowed in [Capabilities::ALL, Capabilities::NONE] {
        // A queue of 8 completions.
        let mut bench = Bench::with(2, allowed);
        let keys: Vec<_> = (0..200).map(|_| bench.start(Attempt::Nop)).collect();
        for &key in &keys {
            assert_eq!(bench.done(key), Ok(0));
        }
        assert!(bench.seen.is_empty());
        assert!(bench.backend.overflows() > 0);
    }
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

#[test]
fn serial_a_child_of_a_fork_ends_nothing_of_its_parents() {
    for allowed in [Capabilities::ALL, Capabilities::NONE] {
        let (mut bench, pool) = (Bench::with(8, allowed), pool(2, 16));
        bench.backend.add_pool(0, &pool).unwrap();
        let (socket, mut peer) = unix_pair();
        let key = bench.start(Attempt::ReceiveMany { socket: &socket, group: 0 });
        bench.nothing(key);
        // SAFETY: the child drops the back end, which takes no lock that another thread may hold, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(bench);
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(0) };
        }
        let child = rustix::process::Pid::from_raw(child).unwrap();
        let (_, status) =
            rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0), "{status:?}");
        peer.write_all(b"abc").unwrap();
        let completion = bench.next(key);
        assert!(matches!(&completion.event, Event::Data(lease) if lease[..] == *b"abc"), "{completion:?}");
    }
}
