use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use rustix::net::{AddressFamily, Shutdown, SocketAddrAny, SocketType, socket};
use transload_core::Flag;

use super::*;
use crate::proactor::capability::Capability;

fn send<'a>(socket: &'a Socket, pieces: &'a [Piece], zero_copy: bool) -> Attempt<'a> {
    Attempt::Send { socket, pieces, zero_copy, linked: false }
}

/// The result of a zero-copy send, and whether its notification is still to come.
fn sent(bench: &mut Bench, key: Key) -> (Result<usize, Errno>, bool) {
    match bench.next(key) {
        Completion { event: Event::Done(result), more, .. } => (result, more),
        other => panic!("{other:?}"),
    }
}

fn notified(bench: &mut Bench, key: Key) -> bool {
    match bench.next(key) {
        Completion { event: Event::Notified { copied }, more: false, .. } => copied,
        other => panic!("{other:?}"),
    }
}

/// Closes so that the other side sees a reset.
fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

#[test]
fn nothing_is_done() {
    let mut bench = Bench::new();
    let key = bench.start(Attempt::Nop);
    assert_eq!(bench.done(key), Ok(0));
}

#[test]
fn one_piece_and_several_are_sent_in_order() {
    let (mut bench, pool) = (Bench::new(), pool(4, 4096));
    let leases: Vec<_> = [b"one ".as_slice(), b"two ", b"three"].map(|part| filled(&pool, part)).into();
    let pieces: Vec<_> = leases.iter().map(piece).collect();
    let (unix, tcp) = (unix_pair(), tcp_pair());
    let pairs: [(Socket, Box<dyn Read>); 2] = [(unix.0, Box::new(unix.1)), (tcp.0, Box::new(tcp.1))];
    for (socket, mut peer) in pairs {
        let key = bench.start(send(&socket, &pieces[..1], false));
        assert_eq!(bench.done(key), Ok(4));
        let key = bench.start(send(&socket, &pieces, false));
        assert_eq!(bench.done(key), Ok(13));
        let mut bytes = [0; 17];
        peer.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"one one two three");
    }
}

#[test]
fn a_list_that_is_too_long_is_sent_in_part() {
    let (mut bench, pool) = (Bench::new(), pool(1500, 1));
    let leases: Vec<_> = pattern(1500).iter().map(|byte| filled(&pool, &[*byte])).collect();
    let pieces: Vec<_> = leases.iter().map(piece).collect();
    let (socket, mut peer) = unix_pair();
    let key = bench.start(send(&socket, &pieces, false));
    assert_eq!(bench.done(key), Ok(1024));
    let key = bench.start(send(&socket, &pieces[1024..], false));
    assert_eq!(bench.done(key), Ok(476));
    let mut bytes = [0; 1500];
    peer.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes[..], pattern(1500));
}

#[test]
fn a_send_to_nobody_is_an_error_and_no_signal() {
    let (mut bench, pool) = (Bench::new(), pool(1, 64));
    let lease = filled(&pool, b"lost");
    let (socket, peer) = unix_pair();
    drop(peer);
    let key = bench.start(send(&socket, &[piece(&lease)], false));
    assert_eq!(bench.done(key), Err(Errno::PIPE));
}

static SIGNALLED: std::sync::OnceLock<Flag> = std::sync::OnceLock::new();

extern "C" fn note_signal(_: libc::c_int) {
    if let Some(flag) = SIGNALLED.get() {
        flag.raise();
    }
}

#[test]
fn serial_no_send_raises_sigpipe() {
    let signalled = SIGNALLED.get_or_init(Flag::new);
    let handler = note_signal as extern "C" fn(libc::c_int) as *const () as libc::sighandler_t;
    // SAFETY: the handler only stores an atomic. Everybody else here takes the signal for ignored, as good as this.
    unsafe { libc::signal(libc::SIGPIPE, handler) };
    let (mut bench, pool) = (Bench::new(), pool(2, 64));
    let leases = [filled(&pool, b"lost"), filled(&pool, b"too")];
    let pieces = leases.each_ref().map(piece);
    for zero_copy in [false, true] {
        for count in [1, 2] {
            let (socket, peer) = tcp_pair();
            reset(peer);
            for _ in 0..3 {
                let key = bench.start(send(&socket, &pieces[..count], zero_copy));
                let (result, more) = sent(&mut bench, key);
                assert!(matches!(result, Err(Errno::CONNRESET | Errno::PIPE)), "{result:?}");
                if more {
                    notified(&mut bench, key);
                }
            }
        }
    }
    assert!(!signalled.is_raised());
    // A write does.
    let (socket, peer) = unix_pair();
    drop(peer);
    assert_eq!(rustix::io::write(&socket, b"lost"), Err(Errno::PIPE));
    assert!(signalled.is_raised());
}

#[test]
fn zero_copy_tells_the_result_and_then_that_the_memory_is_free() {
    let mut bench = Bench::new();
    let pool = pool(2, 4096);
    let slots = bench.backend.register(pool.region().slab(), 2 * 4096).unwrap();
    let (socket, mut peer) = tcp_pair();
    for slot in [None, Some(slots[0])] {
        let lease = filled(&pool, &pattern(3000));
        let key = bench.start(send(&socket, &[Piece { slot, ..piece(&lease) }], true));
        assert_eq!(sent(&mut bench, key), (Ok(3000), true));
        assert!(bench.backend.requests.of_key(key).is_none(), "nothing is left to be cancelled");
        bench.backend.cancel(key);
        let mut bytes = vec![0; 3000];
        peer.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, pattern(3000));
        assert!(notified(&mut bench, key), "the loop-back device always copies");
    }
    // Several pieces.
    let leases = [filled(&pool, b"ab"), filled(&pool, b"cd")];
    let pieces = leases.each_ref().map(piece);
    let key = bench.start(send(&socket, &pieces, true));
    assert_eq!(sent(&mut bench, key), (Ok(4), true));
    notified(&mut bench, key);
    let mut bytes = [0; 4];
    peer.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"abcd");
    bench.backend.unregister(&slots);
}

#[test]
fn a_key_is_used_again_before_the_notification() {
    let mut bench = Bench::new();
    let pool = pool(64, 65536);
    let (socket, mut peer) = tcp_pair();
    // Nobody reads, so notifications are late, and then the socket is full.
    let key = bench.key();
    let mut leases = Vec::new();
    let (mut total, mut awaited, mut stuck) = (0, 0, true);
    while leases.len() < 64 {
        let lease = pool.try_acquire().unwrap();
        bench.backend.start(key, send(&socket, &[piece(&lease)], true));
        leases.push(lease);
        bench.backend.wait(Some(SHORT), &mut bench.seen).unwrap();
        let mut results = 0;
        for completion in bench.seen.drain(..) {
            match completion.event {
                Event::Done(result) => {
                    (total, results) = (total + result.unwrap(), results + 1);
                    awaited += usize::from(completion.more);
                    assert!(bench.backend.requests.of_key(key).is_none(), "nothing is left to be cancelled");
                }
                Event::Notified { .. } => awaited -= 1,
                other => panic!("{other:?}"),
            }
        }
        if results == 0 {
            break;
        }
        stuck = false;
    }
    assert!(!stuck && awaited > 0, "{total} bytes sent, {awaited} notifications to come");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        peer.read_to_end(&mut bytes).unwrap();
        bytes.len()
    });
    // The one that is stuck goes on, may come up short, and all that was sent is let go of.
    let last = loop {
        match bench.next(key) {
            Completion { event: Event::Done(result), more, .. } => {
                awaited += usize::from(more);
                break result.unwrap();
            }
            Completion { event: Event::Notified { .. }, .. } => awaited -= 1,
            other => panic!("{other:?}"),
        }
    };
    while awaited > 0 {
        notified(&mut bench, key);
        awaited -= 1;
    }
    let end = bench.start(Attempt::Shutdown { socket: &socket, how: Shutdown::Write });
    assert_eq!(bench.done(end), Ok(0));
    assert_eq!(reader.join().unwrap(), total + last);
}

#[test]
fn an_error_of_a_zero_copy_send_is_kept_and_its_notification_follows() {
    let (mut bench, pool) = (Bench::new(), pool(1, 4096));
    let lease = filled(&pool, &pattern(4096));
    let (socket, peer) = tcp_pair();
    reset(peer);
    let key = bench.start(send(&socket, &[piece(&lease)], true));
    let (result, more) = sent(&mut bench, key);
    assert!(matches!(result, Err(Errno::CONNRESET | Errno::PIPE)), "{result:?}");
    if more {
        notified(&mut bench, key);
    }
    bench.nothing(key);
    assert_eq!(bench.backend.requests.in_flight(), 0);
}

#[test]
fn a_socket_that_cannot_send_without_a_copy_says_so() {
    let (mut bench, pool) = (Bench::new(), pool(1, 64));
    let lease = filled(&pool, b"bytes");
    let (socket, _peer) = unix_pair();
    let key = bench.start(send(&socket, &[piece(&lease)], true));
    let (result, more) = sent(&mut bench, key);
    assert_eq!(result, Err(Errno::OPNOTSUPP));
    if more {
        notified(&mut bench, key);
    }
    bench.nothing(key);
    assert_eq!(bench.backend.requests.in_flight(), 0);
}

#[test]
fn connects_accepts_and_shuts_down() {
    for allowed in [Capabilities::ALL, Capabilities::ALL.without(Capability::MultishotAccept)] {
        let mut bench = Bench::with(64, allowed);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = SocketAddrAny::from(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let listener = Socket::from(listener);
        let mut accepting = bench.start(Attempt::Accept { socket: &listener });
        for _ in 0..3 {
            let ours = Socket::from(socket(AddressFamily::INET, SocketType::STREAM, None).unwrap());
            let connecting = bench.start(Attempt::Connect { socket: &ours, address: &address });
            assert_eq!(bench.done(connecting), Ok(0));
            let accepted = bench.next(accepting);
            assert_eq!(accepted.more, allowed.has(Capability::MultishotAccept));
            if !accepted.more {
                accepting = bench.start(Attempt::Accept { socket: &listener });
            }
            let Event::Accepted(theirs) = accepted.event else { panic!("{accepted:?}") };
            let end = bench.start(Attempt::Shutdown { socket: &ours, how: Shutdown::Write });
            assert_eq!(bench.done(end), Ok(0));
            assert_eq!(TcpStream::from(theirs).read(&mut [0]).unwrap(), 0);
        }
        bench.backend.cancel(accepting);
        assert_eq!(bench.done(accepting), Err(Errno::CANCELED));
    }
}

#[test]
fn a_refused_connection_is_an_error() {
    let mut bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = SocketAddrAny::from(listener.local_addr().unwrap());
    drop(listener);
    let ours = Socket::from(socket(AddressFamily::INET, SocketType::STREAM, None).unwrap());
    let key = bench.start(Attempt::Connect { socket: &ours, address: &address });
    assert_eq!(bench.done(key), Err(Errno::CONNREFUSED));
}
