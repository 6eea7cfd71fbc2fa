//! What the proactor suite checks with finds what is wrong: each fault that a back end may have, put in on purpose.

use std::os::unix::process::ExitStatusExt;
use std::panic::catch_unwind;
use std::process::Command;

use transload::proactor::{Incoming, Proactor};
use transload_conformance::confinement::restore_sigpipe;
use transload_conformance::proactor::rig::{self, Kind, Rig, pair};
use transload_conformance::proactor::{Checker, Pattern, foreign_bytes};
use transload_conformance::watchdog;

const PATTERN: Pattern = Pattern(1);

/// Whether a checker that expects 4000 bytes is content with this stream.
fn is_accepted(stream: impl IntoIterator<Item = Vec<u8>>) -> bool {
    let pieces: Vec<Vec<u8>> = stream.into_iter().collect();
    catch_unwind(move || {
        let mut checker = Checker::new(PATTERN);
        checker.feed_all(&pieces);
        checker.finish(4000);
    })
    .is_ok()
}

fn pieces() -> Vec<Vec<u8>> {
    (0..40).map(|index| PATTERN.bytes(index * 100, 100)).collect()
}

#[test]
fn the_right_stream_is_accepted_in_any_pieces() {
    assert!(is_accepted(pieces()));
    for size in [1, 3, 8, 13, 999, 4000] {
        assert!(is_accepted(pieces().concat().chunks(size).map(<[u8]>::to_vec)), "{size}");
    }
    assert!(is_accepted([vec![], PATTERN.bytes(0, 4000), vec![]]));
}

#[test]
fn pieces_out_of_order_are_found() {
    for (one, other) in [(0, 1), (0, 39), (17, 18), (38, 39)] {
        let mut stream = pieces();
        stream.swap(one, other);
        assert!(!is_accepted(stream), "{one} and {other}");
    }
    // Also by no more than one word.
    let mut stream = pieces().concat();
    stream[1000..1016].rotate_left(8);
    assert!(!is_accepted([stream]));
}

#[test]
fn lost_and_doubled_pieces_are_found() {
    for index in [0, 1, 20, 39] {
        let mut lost = pieces();
        lost.remove(index);
        assert!(!is_accepted(lost), "{index} is lost");
        let mut doubled = pieces();
        doubled.insert(index, PATTERN.bytes(index as u64 * 100, 100));
        assert!(!is_accepted(doubled), "{index} comes twice");
    }
    assert!(!is_accepted([]));
    assert!(!is_accepted([PATTERN.bytes(0, 3999)]));
    assert!(!is_accepted([PATTERN.bytes(0, 4001)]));
}

#[test]
fn torn_and_foreign_pieces_are_found() {
    // Half of a piece is of another stream, as when two sends mix, or a buffer is used too early.
    let mut torn = pieces();
    torn[7][50..].copy_from_slice(&Pattern(2).bytes(750, 50));
    assert!(!is_accepted(torn));
    // A buffer that was filled again before it was sent.
    let mut overwritten = pieces();
    overwritten[7].fill(0xAA);
    assert!(!is_accepted(overwritten));
    for at in [0, 1, 2047, 3999] {
        let mut flipped = pieces().concat();
        flipped[at] ^= 1;
        assert!(!is_accepted([flipped]), "byte {at}");
    }
}

#[test]
fn a_checker_that_starts_later_expects_what_is_there() {
    let mut checker = Checker::starting_at(PATTERN, 1234);
    checker.feed(&PATTERN.bytes(1234, 100));
    checker.finish(1334);
    assert!(catch_unwind(|| Checker::starting_at(PATTERN, 1234).feed(&PATTERN.bytes(1235, 100))).is_err());
}

#[test]
fn no_eight_bytes_come_twice() {
    let bytes = PATTERN.bytes(0, 80_000);
    let words: std::collections::HashSet<_> = bytes.chunks(8).collect();
    assert_eq!(words.len(), 10_000);
    for at in [0, 1, 7, 8, 12_345] {
        assert_eq!(PATTERN.byte(at), bytes[usize::try_from(at).unwrap()]);
    }
}

#[test]
fn memory_that_somebody_else_has_written_is_found() {
    let mut buffers = vec![vec![0xAA_u8; 100]; 5];
    assert_eq!(foreign_bytes(&buffers, 0xAA), Vec::<usize>::new());
    buffers[1][99] = 0x55;
    buffers[4][0] = 0x55;
    assert_eq!(foreign_bytes(&buffers, 0xAA), [1, 4]);
}

/// The peers of the suite check, too.
#[test]
fn a_peer_finds_what_is_wrong() {
    let (ours, peer) = pair(Kind::Unix);
    let reader = rig::reader(peer, PATTERN, 200);
    let mut wrong = PATTERN.bytes(0, 200);
    wrong[150] ^= 1;
    rustix::net::send(&ours, &wrong, rustix::net::SendFlags::empty()).unwrap();
    assert!(reader.join().is_err());

    let (ours, peer) = pair(Kind::Tcp);
    let reader = rig::reader(peer, PATTERN, 200);
    rustix::net::send(&ours, &PATTERN.bytes(0, 199), rustix::net::SendFlags::empty()).unwrap();
    drop(ours);
    assert!(reader.join().is_err(), "a byte is missing");
}

/// A reset is told from an end, and an end from silence.
#[test]
fn a_reset_is_no_end() {
    let (ours, mut peer) = pair(Kind::Tcp);
    let other: std::net::TcpStream = rustix::io::dup(&ours).unwrap().into();
    drop(ours);
    rig::reset(other);
    let error = std::io::Read::read(&mut peer, &mut [0]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
    let (ours, mut peer) = pair(Kind::Unix);
    drop(ours);
    assert!(rig::is_at_its_end(&mut peer));
}

/// What the lifetime cases look for, done on purpose: the kernel receives into memory that somebody else has.
#[test]
fn a_receive_into_the_memory_of_another_is_found() {
    let rig = Rig::new(Proactor::builder());
    let pool = rig.pool(3, 100);
    let mut held: Vec<_> = (0..3).map(|_| pool.try_acquire().unwrap()).collect();
    for lease in &mut held {
        lease.fill(0xAA);
    }
    assert_eq!(foreign_bytes(&held, 0xAA), Vec::<usize>::new());
    let (ours, mut peer) = pair(Kind::Tcp);
    // SAFETY: nobody looks at that lease before the receive is over.
    let stolen = unsafe { Incoming::from_spans(vec![held[1].span()]) };
    std::io::Write::write_all(&mut peer, &[0x55; 10]).unwrap();
    assert_eq!(rig.on(rig.handle.receive_into(&ours, stolen)).result, Ok(10));
    assert_eq!(foreign_bytes(&held, 0xAA), [1]);
}

/// A send that raises the signal ends a process that has not taken care of it, and that is seen from outside.
#[test]
fn a_signal_is_noticed() {
    const ALONE: &str = "TRANSLOAD_CONFORMANCE_SIGNAL";
    if std::env::var_os(ALONE).is_some() {
        restore_sigpipe().unwrap();
        let (ours, peer) = pair(Kind::Unix);
        drop(peer);
        let _never = rustix::io::write(&ours, b"to nobody");
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_signal_is_noticed"]).env(ALONE, "1");
    let output = watchdog::output(&mut command);
    assert_eq!(output.status.signal(), Some(libc::SIGPIPE), "{output:?}");
}
