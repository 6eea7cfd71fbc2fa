//! Single sends and receives.

use std::io::{Read, Write};
use std::net::UdpSocket;

use rustix::io::Errno;
use rustix::net::Shutdown;

use super::super::super::backend::{Attempt, Backend};
use super::super::super::socket::Socket;
use super::fixture::{Bench, SHORT, fill, filled, key, listener, pair, pattern, piece, pool, tcp};

#[test]
fn a_nop_is_done_in_the_next_wait() {
    let mut bench = Bench::new();
    bench.backend.start(key(1), Attempt::Nop);
    assert_eq!(bench.done(1), Ok(0));
    bench.nothing();
}

#[test]
fn sends_and_receives_over_several_pieces() {
    let pool = pool(8, 8);
    for (socket, far) in [pair_of_files(), tcp_of_files()] {
        let (mut far, mut bench) = (far, Bench::new());
        let out = [filled(&pool, b"one "), filled(&pool, b"two "), filled(&pool, b"three")];
        bench.send(1, &socket, &out.each_ref().map(piece));
        assert_eq!(bench.done(1), Ok(13));
        let mut received = [0; 13];
        far.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"one two three");

        let into = [pool.try_acquire().unwrap(), pool.try_acquire().unwrap()];
        bench.receive(2, &socket, &into.each_ref().map(piece));
        bench.nothing();
        far.write_all(b"twelve bytes").unwrap();
        assert_eq!(bench.done(2), Ok(12));
        assert_eq!((&into[0][..], &into[1][..4]), (&b"twelve b"[..], &b"ytes"[..]));
        bench.nothing();
    }
}

/// A stream of either kind as something to read and write.
fn pair_of_files() -> (Socket, std::fs::File) {
    let (near, far) = pair();
    (near, std::fs::File::from(std::os::fd::OwnedFd::from(far)))
}

fn tcp_of_files() -> (Socket, std::fs::File) {
    let (near, far) = tcp();
    (near, std::fs::File::from(std::os::fd::OwnedFd::from(far)))
}

#[test]
fn a_blocking_socket_stays_blocking_and_blocks_nobody() {
    let (socket, _far) = tcp();
    let (pool, mut bench) = (pool(1, 64), Bench::new());
    let lease = pool.try_acquire().unwrap();
    bench.receive(1, &socket, &[piece(&lease)]);
    bench.nothing();
    let flags = rustix::fs::fcntl_getfl(&socket).unwrap();
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
}

#[test]
fn a_short_send_says_how_much_and_the_next_waits_for_room() {
    const LEN: usize = 8 << 20;
    let (socket, mut far) = tcp();
    let (pool, mut bench) = (pool(1, LEN), Bench::new());
    let lease = filled(&pool, &pattern(0, LEN));
    bench.send(1, &socket, &[piece(&lease)]);
    let sent = bench.done(1).unwrap();
    assert!(0 < sent && sent < LEN, "{sent}");

    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        far.read_to_end(&mut received).unwrap();
        received
    });
    let mut done = sent;
    while done < LEN {
        bench.send(2, &socket, &[piece(&lease).after(done)]);
        done += bench.done(2).unwrap();
    }
    bench.backend.start(key(3), Attempt::Shutdown { socket: &socket, how: Shutdown::Write });
    assert_eq!(bench.done(3), Ok(0));
    assert!(reader.join().unwrap() == pattern(0, LEN), "the bytes differ");
}

#[test]
fn sends_that_wait_keep_their_order() {
    let (socket, mut far) = pair();
    let (pool, mut bench) = (pool(4, 4096), Bench::new());
    let filler = filled(&pool, &[0; 4096]);
    let before = fill(&mut bench, &socket, &filler);
    let messages = [filled(&pool, b"first "), filled(&pool, b"second "), filled(&pool, b"third")];
    for (number, message) in (1..).zip(&messages) {
        bench.send(number, &socket, &[piece(message)]);
    }
    bench.nothing();
    let mut received = vec![0; before];
    far.read_exact(&mut received).unwrap();
    assert_eq!([bench.done(1), bench.done(2), bench.done(3)], [Ok(6), Ok(7), Ok(5)]);
    let mut received = [0; 18];
    far.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"first second third");
}

#[test]
fn receives_that_wait_are_served_in_their_order() {
    let (socket, mut far) = pair();
    let (pool, mut bench) = (pool(2, 4), Bench::new());
    let leases = [pool.try_acquire().unwrap(), pool.try_acquire().unwrap()];
    bench.receive(1, &socket, &[piece(&leases[0])]);
    // The second could begin at once, but it is not its turn.
    far.write_all(b"onetwo!!").unwrap();
    bench.receive(2, &socket, &[piece(&leases[1])]);
    assert_eq!([bench.done(1), bench.done(2)], [Ok(4), Ok(4)]);
    assert_eq!((&leases[0][..], &leases[1][..]), (&b"onet"[..], &b"wo!!"[..]));
}

#[test]
fn both_directions_wait_at_once() {
    let (socket, mut far) = pair();
    let (pool, mut bench) = (pool(3, 4096), Bench::new());
    let (filler, into) = (filled(&pool, &[0; 4096]), pool.try_acquire().unwrap());
    let before = fill(&mut bench, &socket, &filler);
    bench.receive(1, &socket, &[piece(&into)]);
    bench.send(2, &socket, &[piece(&filler)]);
    bench.nothing();
    far.write_all(b"in").unwrap();
    assert_eq!(bench.done(1), Ok(2));
    bench.nothing();
    far.read_exact(&mut vec![0; before]).unwrap();
    assert_eq!(bench.done(2), Ok(4096));
}

#[test]
fn the_end_of_the_stream_is_no_bytes() {
    let (socket, far) = tcp();
    let (pool, mut bench) = (pool(1, 64), Bench::new());
    let lease = pool.try_acquire().unwrap();
    bench.receive(1, &socket, &[piece(&lease)]);
    bench.nothing();
    drop(far);
    assert_eq!(bench.done(1), Ok(0));
}

/// Blocks SIGPIPE for this thread, where it then stays pending if it is raised, ignored or not.
fn block_broken_pipe() {
    // SAFETY: a set of signals is plain data.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGPIPE) };
    // SAFETY: the set is initialised, and the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

fn is_broken_pipe_pending() -> bool {
    // SAFETY: a set of signals is plain data.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigpending(&raw mut set) };
    // SAFETY: the set is initialised.
    unsafe { libc::sigismember(&raw const set, libc::SIGPIPE) == 1 }
}

#[test]
fn a_reset_is_an_error_and_a_send_after_it_raises_no_signal() {
    block_broken_pipe();
    let (socket, far) = tcp();
    let (pool, mut bench) = (pool(1, 64), Bench::new());
    let lease = pool.try_acquire().unwrap();
    bench.receive(1, &socket, &[piece(&lease)]);
    bench.nothing();
    rustix::net::sockopt::set_socket_linger(&far, Some(std::time::Duration::ZERO)).unwrap();
    drop(far);
    assert_eq!(bench.done(1), Err(Errno::CONNRESET));
    bench.send(2, &socket, &[piece(&lease)]);
    assert_eq!(bench.done(2), Err(Errno::PIPE));
    bench.send(3, &socket, &[piece(&lease), piece(&lease)]);
    assert_eq!(bench.done(3), Err(Errno::PIPE));
    assert!(!is_broken_pipe_pending());
}

#[test]
fn a_datagram_is_one_send_of_all_its_pieces() {
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    near.connect(far.local_addr().unwrap()).unwrap();
    far.set_read_timeout(Some(super::fixture::LONG)).unwrap();
    let (pool, mut bench, socket) = (pool(100, 8), Bench::new(), Socket::from(near));
    let leases: Vec<_> = (0..100).map(|_| filled(&pool, b"12345678")).collect();
    bench.send(1, &socket, &leases.iter().map(piece).collect::<Vec<_>>());
    assert_eq!(bench.done(1), Ok(800));
    assert_eq!(far.recv(&mut [0; 1000]).unwrap(), 800);
}

#[test]
fn readable_takes_nothing_and_waits_for_nobodys_turn() {
    let (socket, mut far) = pair();
    let (pool, mut bench) = (pool(1, 64), Bench::new());
    let lease = pool.try_acquire().unwrap();
    bench.receive(1, &socket, &[piece(&lease)]);
    bench.backend.start(key(2), Attempt::Readable { socket: &socket });
    bench.nothing();
    far.write_all(b"x").unwrap();
    let mut ended = [bench.next().key.index, bench.next().key.index];
    ended.sort_unstable();
    assert_eq!(ended, [1, 2]);

    far.write_all(b"y").unwrap();
    bench.backend.start(key(3), Attempt::Readable { socket: &socket });
    assert_eq!(bench.done(3), Ok(0));
    bench.receive(4, &socket, &[piece(&lease)]);
    assert_eq!(bench.done(4), Ok(1));
    drop(far);
    bench.backend.start(key(5), Attempt::Readable { socket: &socket });
    assert_eq!(bench.done(5), Ok(0));
}

#[test]
fn errors_are_the_kernels() {
    let (pool, mut bench) = (pool(1, 64), Bench::new());
    let lease = pool.try_acquire().unwrap();
    let listener = Socket::from(listener());
    bench.receive(1, &listener, &[piece(&lease)]);
    assert_eq!(bench.done(1), Err(Errno::NOTCONN));
    let file = Socket::from(std::fs::File::open("/dev/null").unwrap());
    bench.send(2, &file, &[piece(&lease)]);
    assert_eq!(bench.done(2), Err(Errno::NOTSOCK));
    bench.receive_many(3, &listener, 7);
    assert_eq!(bench.done(3), Err(Errno::INVAL));
}

#[test]
fn a_byte_of_urgent_data_does_not_keep_the_thread_busy() {
    for readable in [false, true] {
        let (socket, mut far) = tcp();
        let (pool, mut bench) = (pool(1, 64), Bench::new());
        let lease = pool.try_acquire().unwrap();
        if readable {
            bench.backend.start(key(1), Attempt::Readable { socket: &socket });
        } else {
            bench.receive(1, &socket, &[piece(&lease)]);
        }
        rustix::net::send(&far, b"!", rustix::net::SendFlags::OOB).unwrap();
        // One wait finds the urgent byte, and perhaps a second something of it; then they sleep.
        let returned_early = (0..10).filter(|_| {
            let start = std::time::Instant::now();
            assert!(bench.wait(SHORT).is_empty());
            start.elapsed() < SHORT
        });
        let returned_early = returned_early.count();
        assert!(returned_early < 5, "{returned_early} of 10 waits did not sleep");
        far.write_all(b"data").unwrap();
        assert_eq!(bench.done(1), Ok(if readable { 0 } else { 4 }));
    }
}

#[test]
fn two_descriptors_of_one_socket_wait_each_for_itself() {
    let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
    let (one, two) = (Socket::from(near.try_clone().unwrap()), Socket::from(near));
    let (pool, mut bench) = (pool(2, 4), Bench::new());
    let leases = [pool.try_acquire().unwrap(), pool.try_acquire().unwrap()];
    bench.receive(1, &one, &[piece(&leases[0])]);
    bench.receive(2, &two, &[piece(&leases[1])]);
    bench.nothing();
    far.write_all(b"four").unwrap();
    let first = bench.next().key.index;
    bench.nothing();
    // The descriptor of the one that has ended is closed: the other's poller entry stays.
    if first == 1 {
        drop(one);
    } else {
        drop(two);
    }
    bench.nothing();
    far.write_all(b"more").unwrap();
    assert_eq!(bench.done(3 - first), Ok(4));
}
