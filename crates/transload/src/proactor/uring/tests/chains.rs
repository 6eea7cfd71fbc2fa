use std::io::Read;

use super::*;

fn link<'a>(socket: &'a Socket, pieces: &'a [Piece], linked: bool) -> Attempt<'a> {
    Attempt::Send { socket, pieces, zero_copy: false, linked }
}

#[test]
fn a_chain_keeps_its_order_and_is_cut_by_no_submission() {
    // A queue of 8, nearly full when the chain begins, with cancellations in between.
    let (mut bench, pool) = (Bench::with(8, Capabilities::ALL), pool(8, 65536));
    let (socket, mut peer) = tcp_pair();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        peer.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let mut expected = Vec::new();
    for _ in 0..20 {
        let nops: Vec<_> = (0..6).map(|_| bench.start(Attempt::Nop)).collect();
        let mut keys = Vec::new();
        let leases: Vec<_> = (0..8u8).map(|part| filled(&pool, &vec![part; 65536])).collect();
        for (part, lease) in leases.iter().enumerate() {
            expected.extend_from_slice(lease);
            keys.push(bench.start(link(&socket, &[piece(lease)], part < 7)));
            bench.backend.cancel(nops[0]);
        }
        let sent: Vec<_> = keys.iter().map(|&key| bench.done(key).unwrap()).collect();
        assert_eq!(sent[..7], [65536; 7]);
        // The last one may come up short, as any send.
        let mut rest = piece(&leases[7]).after(sent[7]);
        while rest.len_bytes > 0 {
            let key = bench.start(link(&socket, &[rest], false));
            rest = rest.after(bench.done(key).unwrap());
        }
        for nop in nops {
            assert!(matches!(bench.done(nop), Ok(0) | Err(Errno::CANCELED)));
        }
    }
    rustix::net::shutdown(&socket, rustix::net::Shutdown::Write).unwrap();
    assert!(reader.join().unwrap() == expected);
}

#[test]
fn a_chain_ends_where_one_fails() {
    let (mut bench, pool) = (Bench::new(), pool(1, 64));
    let lease = filled(&pool, b"lost");
    let (socket, peer) = unix_pair();
    drop(peer);
    let (idle, _idle_peer) = unix_pair();
    let mut idle = || bench.start(Attempt::Readable { socket: &idle });
    let mut others = [idle(), idle(), idle()].into_iter();
    let keys = [true, true, false].map(|linked| {
        let key = bench.start(link(&socket, &[piece(&lease)], linked));
        // What comes in between is no part of the chain.
        others.next().into_iter().for_each(|other| bench.backend.cancel(other));
        key
    });
    assert_eq!(
        keys.map(|key| bench.done(key)),
        [Err(Errno::PIPE), Err(Errno::CANCELED), Err(Errno::CANCELED)]
    );
}

#[test]
fn a_chain_without_copies_that_fails_leaves_no_completion_of_no_request() {
    let (mut bench, pool) = (Bench::new(), pool(1, 64));
    let lease = filled(&pool, b"lost");
    // Unix sockets refuse to send without a copy.
    let (socket, _peer) = unix_pair();
    for _ in 0..3 {
        let keys = [true, true, false].map(|linked| {
            let pieces = [piece(&lease)];
            bench.start(Attempt::Send { socket: &socket, pieces: &pieces, zero_copy: true, linked })
        });
        let results = keys.map(|key| match bench.next(key) {
            Completion { event: Event::Done(result), .. } => result,
            other => panic!("{other:?}"),
        });
        assert_eq!(results, [Err(Errno::OPNOTSUPP), Err(Errno::CANCELED), Err(Errno::CANCELED)]);
        // Time for the notifications; the bench looks for strays at its end.
        let idle = bench.key();
        bench.nothing(idle);
    }
}

#[test]
fn what_does_not_fit_into_a_chain_is_cancelled_after_it() {
    let (mut bench, pool) = (Bench::with(4, Capabilities::ALL), pool(1, 64));
    let lease = filled(&pool, b"part");
    let (socket, mut peer) = unix_pair();
    let keys: Vec<_> = (0..7).map(|part| bench.start(link(&socket, &[piece(&lease)], part < 6))).collect();
    let after = bench.start(Attempt::Nop);
    let mut order = Vec::new();
    while order.len() < 8 {
        bench.backend.wait(Some(LONG), &mut bench.seen).unwrap();
        assert!(!bench.seen.is_empty(), "{order:?}");
        order.extend(bench.seen.drain(..).map(|completion| completion.key));
    }
    let order: Vec<_> = order.into_iter().filter(|key| *key != after).collect();
    assert_eq!(order, keys);
    peer.set_nonblocking(true).unwrap();
    let mut bytes = [0; 64];
    assert_eq!(peer.read(&mut bytes).unwrap(), 16, "a queue of 4");
}

#[test]
fn a_cancellation_finds_a_send_that_waits_for_its_turn() {
    let (mut bench, pool) = (Bench::new(), pool(1, 16 << 20));
    let (socket, mut peer) = unix_pair();
    let lease = pool.try_acquire().unwrap();
    let first = bench.start(link(&socket, &[piece(&lease)], true));
    let second = bench.start(link(&socket, &[piece(&lease)], true));
    let third = bench.start(link(&socket, &[piece(&lease)], false));
    bench.nothing(first);
    // Not found yet: the first is stuck, since nobody reads.
    bench.backend.cancel(second);
    bench.nothing(second);
    let mut bytes = vec![0; 16 << 20];
    let reader = std::thread::spawn(move || {
        peer.read_exact(&mut bytes).unwrap();
        peer
    });
    assert_eq!(bench.done(first), Ok(16 << 20));
    // Now it has begun, and is found; it may have sent a part.
    let result = bench.done(second);
    assert!(matches!(result, Err(Errno::CANCELED) | Ok(..0x0100_0000)), "{result:?}");
    assert_eq!(bench.done(third), Err(Errno::CANCELED));
    reader.join().unwrap();
}
