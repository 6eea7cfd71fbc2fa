//! Many descriptors, and a busy one beside others.

use std::io::{Read, Write};

use super::super::super::backend::{Attempt, Backend, Completion, Event};
use super::fixture::{Bench, key, pair, pattern, piece, pool, tcp};

#[test]
fn a_busy_descriptor_holds_up_no_quiet_one() {
    let (busy, mut source) = pair();
    let (quiet, mut far) = pair();
    let pool = pool(64, 512);
    let mut bench = Bench::with_pool(0, &pool);
    // The source never runs dry: it is filled up before every wait.
    source.set_nonblocking(true).unwrap();
    let mut refill = || while source.write(&[1; 4096]).is_ok() {};
    refill();
    bench.receive_many(1, &busy, 0);
    let lease = pool.try_acquire().unwrap();
    bench.receive(2, &quiet, &[piece(&lease)]);
    let (mut waits, mut most) = (0, 0);
    for round in 0..200 {
        if round == 20 {
            far.write_all(b"quiet").unwrap();
        }
        refill();
        let completions = bench.wait(super::fixture::LONG);
        most = most.max(completions.len());
        assert!(!completions.is_empty());
        if completions.iter().any(|completion| completion.key == key(2)) {
            waits = round - 19;
            break;
        }
    }
    assert!((1..=16).contains(&waits), "the quiet one waited for {waits} waits");
    assert!(most <= 33, "{most} completions in one wait");
}

#[test]
fn calls_that_end_at_once_hold_up_nobody_who_waits() {
    let (quiet, mut far) = pair();
    let (pool, mut bench) = (pool(1, 8), Bench::new());
    let lease = pool.try_acquire().unwrap();
    bench.receive(1, &quiet, &[piece(&lease)]);
    far.write_all(b"x").unwrap();
    let waits = (0..100).take_while(|_| {
        bench.backend.start(key(2), Attempt::Nop);
        let completions = bench.wait(super::fixture::LONG);
        completions.iter().all(|completion| completion.key != key(1))
    });
    assert!(waits.count() <= 16);
}

#[test]
fn two_hundred_connections_get_their_own_bytes() {
    let pool = pool(32, 256);
    let mut bench = Bench::with_pool(0, &pool);
    let (sockets, fars): (Vec<_>, Vec<_>) = (0..200).map(|_| tcp()).unzip();
    for (number, socket) in (0..).zip(&sockets) {
        bench.receive_many(number, socket, 0);
    }
    let writer = std::thread::spawn(move || {
        for chunk in 0..10 {
            for (number, far) in fars.iter().enumerate() {
                (&*far).write_all(&pattern(number * 7 + chunk * 300, 300)).unwrap();
            }
        }
    });
    let mut received = vec![Vec::new(); sockets.len()];
    let mut ended = 0;
    while ended < sockets.len() {
        let Completion { key: of, event, more } = bench.next();
        let number = of.index as usize;
        match event {
            Event::Data(lease) if more => received[number].extend_from_slice(&lease),
            Event::Starved if !more => bench.receive_many(of.index, &sockets[number], 0),
            Event::Done(Ok(0)) if !more => ended += 1,
            other => panic!("{other:?}"),
        }
    }
    writer.join().unwrap();
    for (number, bytes) in received.iter().enumerate() {
        assert!(*bytes == pattern(number * 7, 3000), "connection {number}: {} bytes", bytes.len());
    }
    assert_eq!(pool.available(), 32);
}

#[test]
fn a_conversation_goes_back_and_forth() {
    let (socket, mut far) = tcp();
    let (pool, mut bench) = (pool(1, 64), Bench::new());
    let lease = pool.try_acquire().unwrap();
    let peer = std::thread::spawn(move || {
        let mut message = [0; 64];
        for _ in 0..2000 {
            far.write_all(&message).unwrap();
            far.read_exact(&mut message).unwrap();
        }
    });
    for _ in 0..2000 {
        let mut received = 0;
        while received < 64 {
            bench.receive(1, &socket, &[piece(&lease).after(received)]);
            received += bench.done(1).unwrap();
        }
        bench.send(2, &socket, &[piece(&lease)]);
        assert_eq!(bench.done(2), Ok(64));
    }
    peer.join().unwrap();
}
