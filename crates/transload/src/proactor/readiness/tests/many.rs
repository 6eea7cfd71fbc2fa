//! Receiving again and again, into buffers of a pool.

use std::io::Write;
use std::net::UdpSocket;

use rustix::io::Errno;

use super::super::super::backend::{Backend, Completion, Event};
use super::super::super::socket::Socket;
use super::fixture::{Bench, filled, key, pair, pattern, piece, pool, tcp, write_from_thread};

#[test]
fn every_byte_comes_in_its_order() {
    const LEN: usize = 3_000_001;
    for number in [1, 2] {
        let (pool, pattern) = (pool(8, 1000), pattern(0, LEN));
        let mut bench = Bench::with_pool(0, &pool);
        let (socket, writer) = if number == 1 {
            let (socket, far) = pair();
            (socket, write_from_thread(far, pattern.clone()))
        } else {
            let (socket, far) = tcp();
            (socket, write_from_thread(far, pattern.clone()))
        };
        bench.receive_many(number, &socket, 0);
        let mut received = Vec::new();
        loop {
            match bench.next() {
                Completion { event: Event::Data(lease), more: true, .. } => {
                    assert!(!lease.is_empty());
                    received.extend_from_slice(&lease);
                }
                Completion { event: Event::Starved, more: false, .. } => {
                    bench.receive_many(number, &socket, 0);
                }
                Completion { event: Event::Done(Ok(0)), more: false, .. } => break,
                other => panic!("{other:?}"),
            }
        }
        writer.join().unwrap();
        assert!(received == pattern, "{} bytes, or others", received.len());
        assert_eq!(pool.available(), 8);
        bench.nothing();
    }
}

#[test]
fn starvation_leaves_the_bytes_where_they_are() {
    let (socket, mut far) = pair();
    let pool = pool(1, 4);
    let mut bench = Bench::with_pool(3, &pool);
    far.write_all(b"fourmore").unwrap();
    bench.receive_many(1, &socket, 3);
    let lease = bench.data(1);
    assert_eq!(&lease[..], b"four");
    bench.starved(1);
    bench.receive_many(1, &socket, 3);
    bench.starved(1);
    drop(lease);
    bench.receive_many(1, &socket, 3);
    let lease = bench.data(1);
    assert_eq!(&lease[..], b"more");
    // Nothing to receive is no starvation, and an end needs no buffer.
    bench.nothing();
    drop(far);
    assert_eq!(bench.done(1), Ok(0));
}

#[test]
fn no_buffer_is_held_while_nothing_comes() {
    let pool = pool(1, 16);
    let mut bench = Bench::with_pool(0, &pool);
    let mut ends: Vec<_> = (0..10).map(|_| pair()).collect();
    for (number, (socket, _)) in (0..).zip(&ends) {
        bench.receive_many(number, socket, 0);
    }
    bench.nothing();
    assert_eq!(pool.available(), 1);
    for (number, (_, far)) in (0..).zip(&mut ends) {
        far.write_all(&[u8::try_from(number).unwrap()]).unwrap();
        assert_eq!(&bench.data(number)[..], [u8::try_from(number).unwrap()]);
    }
    bench.nothing();
    assert_eq!(pool.available(), 1);
}

#[test]
fn data_from_before_a_cancellation_is_handed_out() {
    let (socket, mut far) = pair();
    let pool = pool(40, 4);
    let mut bench = Bench::with_pool(0, &pool);
    bench.receive_many(1, &socket, 0);
    bench.nothing();
    far.write_all(b"four").unwrap();
    let mut received = Vec::new();
    while received.is_empty() {
        received = bench.wait(super::fixture::LONG);
    }
    bench.backend.cancel(key(1));
    assert!(matches!(&received[0].event, Event::Data(lease) if &lease[..] == b"four"));
    assert_eq!(bench.done(1), Err(Errno::CANCELED));
    // What comes now is nobody's.
    far.write_all(b"late").unwrap();
    bench.nothing();
    let lease = filled(&pool, &[0; 4]);
    bench.receive(3, &socket, &[piece(&lease)]);
    assert_eq!((bench.done(3), &lease[..]), (Ok(4), &b"late"[..]));
}

#[test]
fn a_reset_is_an_error() {
    let (socket, far) = tcp();
    let pool = pool(1, 64);
    let mut bench = Bench::with_pool(0, &pool);
    bench.receive_many(1, &socket, 0);
    bench.nothing();
    rustix::net::sockopt::set_socket_linger(&far, Some(std::time::Duration::ZERO)).unwrap();
    drop(far);
    assert_eq!(bench.done(1), Err(Errno::CONNRESET));
    assert_eq!(pool.available(), 1);
}

#[test]
fn datagrams_stay_whole_one_a_buffer() {
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    let (pool, socket) = (pool(20, 64), Socket::from(near));
    let mut bench = Bench::with_pool(0, &pool);
    for len in 1..=15 {
        far.send(&pattern(0, len)).unwrap();
    }
    bench.receive_many(1, &socket, 0);
    // One wait takes them all: a short one says nothing about the next.
    let completions = bench.wait(super::fixture::LONG);
    assert_eq!(completions.len(), 15);
    for (len, completion) in (1..).zip(completions) {
        assert!(matches!(completion.event, Event::Data(lease) if lease[..] == pattern(0, len)));
    }
}
