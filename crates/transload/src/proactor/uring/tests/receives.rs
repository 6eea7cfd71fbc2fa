use std::io::Write;

use super::super::completions::Completions;
use super::super::ring::Reaped;
use super::*;
use crate::proactor::capability::Capability;

/// With the kernel choosing buffers, and without.
const BOTH: [Capabilities; 2] = [Capabilities::ALL, Capabilities::NONE];

fn many(socket: &Socket) -> Attempt<'_> {
    Attempt::ReceiveMany { socket, group: 0 }
}

fn data(completion: Completion) -> (Lease, bool) {
    match completion {
        Completion { event: Event::Data(lease), more, .. } => (lease, more),
        other => panic!("{other:?}"),
    }
}

fn starved(bench: &mut Bench, key: Key) {
    let completion = bench.next(key);
    assert!(matches!(completion, Completion { event: Event::Starved, more: false, .. }), "{completion:?}");
}

#[test]
fn into_one_piece_and_several() {
    let (mut bench, pool) = (Bench::new(), pool(3, 4));
    let (socket, mut peer) = unix_pair();
    let leases: Vec<_> = (0..3).map(|_| pool.try_acquire().unwrap()).collect();
    let pieces: Vec<_> = leases.iter().map(piece).collect();
    let key = bench.start(Attempt::Receive { socket: &socket, pieces: &pieces[..1] });
    bench.nothing(key);
    peer.write_all(b"abc").unwrap();
    assert_eq!(bench.done(key), Ok(3));
    assert_eq!(&leases[0][..3], b"abc");
    peer.write_all(b"0123456789").unwrap();
    let key = bench.start(Attempt::Receive { socket: &socket, pieces: &pieces });
    assert_eq!(bench.done(key), Ok(10));
    assert_eq!((&leases[0][..], &leases[1][..], &leases[2][..2]), (&b"0123"[..], &b"4567"[..], &b"89"[..]));
}

#[test]
fn readable_when_there_is_something() {
    let mut bench = Bench::new();
    let (socket, mut peer) = unix_pair();
    let key = bench.start(Attempt::Readable { socket: &socket });
    bench.nothing(key);
    peer.write_all(b"x").unwrap();
    assert_eq!(bench.done(key), Ok(0));
    let (socket, peer) = unix_pair();
    let key = bench.start(Attempt::Readable { socket: &socket });
    drop(peer);
    assert_eq!(bench.done(key), Ok(0));
}

#[test]
fn every_byte_arrives_once_and_then_the_end() {
    for allowed in BOTH {
        let (mut bench, pool) = (Bench::with(64, allowed), pool(5, 1000));
        bench.backend.add_pool(0, &pool).unwrap();
        let (socket, mut peer) = tcp_pair();
        let sent = pattern(300_000);
        let bytes = sent.clone();
        let writer = std::thread::spawn(move || peer.write_all(&bytes).unwrap());
        let (mut received, mut starved) = (Vec::new(), 0);
        let mut key = bench.start(many(&socket));
        loop {
            let completion = bench.next(key);
            let more = completion.more;
            match completion.event {
                Event::Data(lease) => received.extend_from_slice(&lease),
                Event::Starved => starved += 1,
                Event::Done(result) => {
                    assert_eq!((result, more), (Ok(0), false));
                    break;
                }
                other => panic!("{other:?}"),
            }
            if !more {
                key = bench.start(many(&socket));
            }
        }
        writer.join().unwrap();
        assert!(received == sent, "{} bytes, starved {starved} times, {allowed:?}", received.len());
        assert_eq!(bench.backend.requests.in_flight(), 0);
        bench.backend.remove_pool(0);
        assert_eq!(pool.available(), 5);
    }
}

#[test]
fn a_pool_of_one_starves_and_goes_on() {
    for allowed in BOTH {
        let (mut bench, pool) = (Bench::with(64, allowed), pool(1, 100));
        bench.backend.add_pool(0, &pool).unwrap();
        let (socket, mut peer) = unix_pair();
        let mut key = bench.start(many(&socket));
        for round in 0..5u8 {
            peer.write_all(&[round; 10]).unwrap();
            let (lease, _) = data(bench.next(key));
            assert_eq!(&lease[..], [round; 10]);
            peer.write_all(&[round | 128; 10]).unwrap();
            starved(&mut bench, key);
            // Starved again, while there is no buffer.
            key = bench.start(many(&socket));
            starved(&mut bench, key);
            drop(lease);
            key = bench.start(many(&socket));
            let (lease, more) = data(bench.next(key));
            assert_eq!((&lease[..], more), (&[round | 128; 10][..], true));
            drop(lease);
        }
        drop(peer);
        assert_eq!(bench.done(key), Ok(0));
        bench.backend.remove_pool(0);
        assert_eq!(pool.available(), 1);
    }
}

#[test]
fn a_buffer_that_comes_back_before_the_kernel_misses_it_is_used() {
    let (mut bench, pool) = (Bench::new(), pool(1, 100));
    bench.backend.add_pool(0, &pool).unwrap();
    let (socket, mut peer) = unix_pair();
    let key = bench.start(many(&socket));
    for round in 0..20u8 {
        peer.write_all(&[round; 10]).unwrap();
        let (lease, more) = data(bench.next(key));
        assert_eq!((lease[0], more), (round, true));
        // The thread waits with an empty ring, and the buffer comes back under it: no starvation, no new attempt.
        let mut peer = peer.try_clone().unwrap();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(2));
            drop(lease);
            peer.write_all(b"more").unwrap();
        });
        let (lease, more) = data(bench.next(key));
        assert_eq!((&lease[..], more), (&b"more"[..], true));
        other.join().unwrap();
    }
}

#[test]
fn an_idle_connection_holds_no_buffer_where_the_kernel_does_not_choose() {
    let (mut bench, pool) =
        (Bench::with(64, Capabilities::ALL.without(Capability::MultishotReceive)), pool(2, 100));
    bench.backend.add_pool(0, &pool).unwrap();
    let pairs: Vec<_> = (0..10).map(|_| unix_pair()).collect();
    let keys: Vec<_> = pairs.iter().map(|(socket, _)| bench.start(many(socket))).collect();
    bench.nothing(keys[0]);
    assert_eq!(pool.available(), 2);
    for ((_, peer), key) in pairs.iter().zip(keys) {
        let mut peer = peer;
        peer.write_all(b"hello").unwrap();
        let (lease, more) = data(bench.next(key));
        assert_eq!((&lease[..], more), (&b"hello"[..], true));
    }
}

#[test]
fn buffers_that_come_back_are_lent_again_while_waiting() {
    let (mut bench, pool) = (Bench::new(), pool(3, 100));
    bench.backend.add_pool(0, &pool).unwrap();
    let lent = |bench: &mut Bench| bench.backend.groups.of(0).unwrap().ring.as_ref().unwrap().lent();
    assert_eq!((lent(&mut bench), pool.available()), (3, 0), "a ring of four entries for three buffers");
    let (socket, mut peer) = unix_pair();
    let key = bench.start(many(&socket));
    for round in 0..20u8 {
        peer.write_all(&[round; 7]).unwrap();
        let (lease, more) = data(bench.next(key));
        assert_eq!((lease[0], lease.len(), more), (round, 7, true));
    }
    assert!(lent(&mut bench) >= 2);
}

#[test]
fn a_reset_is_an_error() {
    for allowed in BOTH {
        let (mut bench, pool) = (Bench::with(64, allowed), pool(2, 100));
        bench.backend.add_pool(0, &pool).unwrap();
        let (socket, peer) = tcp_pair();
        let key = bench.start(many(&socket));
        rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
        drop(peer);
        assert_eq!(bench.done(key), Err(Errno::CONNRESET));
    }
}

#[test]
fn what_has_arrived_before_a_cancellation_is_handed_out() {
    for allowed in BOTH {
        let (mut bench, pool) = (Bench::with(64, allowed), pool(8, 100));
        bench.backend.add_pool(0, &pool).unwrap();
        let (socket, mut peer) = unix_pair();
        let key = bench.start(many(&socket));
        bench.nothing(key);
        for _ in 0..3 {
            peer.write_all(&[1; 10]).unwrap();
        }
        bench.backend.cancel(key);
        let mut received = 0;
        loop {
            let completion = bench.next(key);
            match completion.event {
                Event::Data(lease) => received += lease.len(),
                Event::Done(result) => assert_eq!((result, completion.more), (Err(Errno::CANCELED), false)),
                other => panic!("{other:?}"),
            }
            if !completion.more {
                break;
            }
        }
        // What was not is still in the socket.
        let key = bench.start(many(&socket));
        while received < 30 {
            received += data(bench.next(key)).0.len();
        }
        assert_eq!(received, 30);
        bench.backend.cancel(key);
        assert_eq!(bench.done(key), Err(Errno::CANCELED));
        bench.backend.remove_pool(0);
        assert_eq!(pool.available(), 8, "{allowed:?}");
    }
}

#[test]
fn a_cancellation_between_two_steps_ends_the_receives() {
    let mut bench = Bench::with(64, Capabilities::NONE);
    let pool = pool(2, 100);
    bench.backend.add_pool(0, &pool).unwrap();
    let (socket, mut peer) = unix_pair();
    let key = bench.start(many(&socket));
    bench.nothing(key);
    peer.write_all(b"abc").unwrap();
    // The wait ends with this one, when the receive into a buffer has not been submitted yet.
    let nop = bench.start(Attempt::Nop);
    assert_eq!(bench.done(nop), Ok(0));
    bench.backend.cancel(key);
    let (lease, more) = data(bench.next(key));
    assert_eq!((&lease[..], more), (&b"abc"[..], false));
    peer.write_all(b"def").unwrap();
    bench.nothing(key);
}

#[test]
fn a_buffer_comes_back_with_an_error_too() {
    let (mut bench, pool) = (Bench::new(), pool(4, 100));
    bench.backend.add_pool(0, &pool).unwrap();
    let (socket, _peer) = unix_pair();
    for (result, expected) in [(-libc::ECANCELED, Errno::CANCELED), (-libc::ECONNRESET, Errno::CONNRESET)] {
        // Never submitted: the kernel would only end in this way on a bad day.
        let key = bench.start(many(&socket));
        let before = pool.available();
        let (ticket, _) = bench.backend.requests.of_key(key).unwrap();
        let UringBackend { ring, requests, groups, .. } = &mut bench.backend;
        let buffer = u32::try_from(before).unwrap();
        let one = Reaped::invented(result, 1 | buffer << 16);
        Completions { ring, requests, groups, out: &mut bench.seen }.read(ticket, one);
        assert_eq!(pool.available(), before + 1);
        let completion = bench.seen.pop().unwrap();
        assert!(
            matches!(completion, Completion { event: Event::Done(Err(errno)), more: false, .. } if errno == expected)
        );
    }
}

#[test]
fn a_full_queue_of_completions_loses_nothing() {
    let (mut bench, pool) = (Bench::with(2, Capabilities::ALL), pool(64, 100));
    bench.backend.add_pool(0, &pool).unwrap();
    let (socket, mut peer) = unix_pair();
    let mut key = bench.start(many(&socket));
    bench.nothing(key);
    let sent = pattern(40 * 50);
    let (mut received, mut ended) = (Vec::new(), 0);
    for part in sent.chunks(50) {
        peer.write_all(part).unwrap();
    }
    while received.len() < sent.len() {
        let (lease, more) = data(bench.next(key));
        received.extend_from_slice(&lease);
        if !more {
            ended += 1;
            key = bench.start(many(&socket));
        }
    }
    assert!(received == sent);
    assert!(ended > 0 || bench.backend.overflows() > 0, "the queue has 8 places");
}

#[test]
fn a_pool_larger_than_a_ring_is_lent_in_part() {
    let (mut bench, pool) = (Bench::new(), pool((1 << 15) + 100, 16));
    bench.backend.add_pool(0, &pool).unwrap();
    assert_eq!(pool.available(), 100);
    assert_eq!(bench.backend.add_pool(0, &pool), Err(Errno::EXIST));
    bench.backend.remove_pool(0);
    assert_eq!(pool.available(), (1 << 15) + 100);
    // The number is free again.
    bench.backend.add_pool(0, &pool).unwrap();
}

#[test]
fn dropping_the_back_end_gives_the_buffers_back() {
    let pool = pool(4, 100);
    let mut bench = Bench::new();
    bench.backend.add_pool(0, &pool).unwrap();
    drop(bench);
    assert_eq!(pool.available(), 4);
    // With attempts in flight, which end then, and let go of their descriptors.
    for allowed in BOTH {
        let mut bench = Bench::with(64, allowed);
        bench.backend.add_pool(0, &pool).unwrap();
        let (socket, mut peer) = unix_pair();
        let key = bench.start(many(&socket));
        bench.nothing(key);
        peer.write_all(b"nobody's").unwrap();
        bench.start(Attempt::Readable { socket: &socket });
        drop((bench, socket));
        assert_eq!(pool.available(), 4);
        assert!(peer.write_all(b"nobody's").is_err());
    }
}

#[test]
fn dropping_the_back_end_keeps_what_the_kernel_may_still_use() {
    let (mut bench, pool) = (Bench::new(), pool(4, 100));
    bench.backend.add_pool(0, &pool).unwrap();
    // Nobody reads, so the kernel does not let go of the memory.
    let (socket, mut peer) = tcp_pair();
    let bytes = pattern(64 << 10);
    let pieces = [Piece { address: bytes.as_ptr().cast_mut(), len_bytes: bytes.len(), slot: None }];
    let mut sent = 0;
    loop {
        let attempt = Attempt::Send { socket: &socket, pieces: &pieces, zero_copy: true, linked: false };
        let key = bench.start(attempt);
        bench.backend.wait(Some(SHORT), &mut bench.seen).unwrap();
        let at = bench.seen.iter().position(|completion| completion.key == key);
        let Some(at) = at else { break };
        let Event::Done(result) = bench.seen.remove(at).event else { panic!("no result first") };
        sent += result.unwrap();
        bench.seen.clear();
    }
    drop((bench, socket));
    assert_eq!(pool.available(), 0);
    let mut received = Vec::new();
    std::io::Read::read_to_end(&mut peer, &mut received).unwrap();
    assert!(received.len() >= sent, "{} of {sent}", received.len());
}

#[test]
fn a_socket_that_does_not_block_is_waited_for_all_the_same() {
    for allowed in BOTH {
        let (mut bench, pool) = (Bench::with(64, allowed), pool(4, 100));
        bench.backend.add_pool(0, &pool).unwrap();
        let (socket, mut peer) = tcp_pair();
        rustix::io::ioctl_fionbio(&socket, true).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = Socket::from(listener);
        let mut bytes = [0; 3];
        let pieces = [Piece { address: bytes.as_mut_ptr(), len_bytes: 3, slot: None }];
        let receive = bench.start(Attempt::Receive { socket: &socket, pieces: &pieces });
        let accept = bench.start(Attempt::Accept { socket: &listener });
        bench.nothing(receive);
        bench.nothing(accept);
        peer.write_all(b"abc").unwrap();
        assert_eq!((bench.done(receive), bytes), (Ok(3), *b"abc"));
        let _connected = TcpStream::connect(address).unwrap();
        assert!(matches!(bench.next(accept).event, Event::Accepted(_)));
        let key = bench.start(many(&socket));
        bench.nothing(key);
        peer.write_all(b"def").unwrap();
        assert_eq!(data(bench.next(key)).0[..], *b"def");
        // A send waits for room.
        let large = vec![1; 64 << 20];
        let pieces = [Piece { address: large.as_ptr().cast_mut(), len_bytes: large.len(), slot: None }];
        let full = loop {
            let send = Attempt::Send { socket: &socket, pieces: &pieces, zero_copy: false, linked: false };
            let key = bench.start(send);
            bench.backend.wait(Some(SHORT), &mut bench.seen).unwrap();
            match bench.seen.pop() {
                Some(Completion { event: Event::Done(Ok(1..)), more: false, .. }) => {}
                None => break key,
                other => panic!("{other:?}"),
            }
        };
        bench.backend.cancel(full);
        assert_eq!(bench.done(full), Err(Errno::CANCELED));
    }
}

#[test]
fn buffers_that_the_kernel_keeps_are_kept_from_the_pool() {
    let (mut bench, pool) = (Bench::new(), pool(4, 100));
    bench.backend.add_pool(0, &pool).unwrap();
    // Behind its back, so that it will be refused.
    bench.backend.ring.remove_buffers(0).unwrap();
    bench.backend.remove_pool(0);
    assert_eq!(pool.available(), 0);
}
