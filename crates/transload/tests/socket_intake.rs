//! `SocketIntake`: from sockets straight into slots, in every cut and with every policy.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use transload::device::{Driver, host};
use transload::pump::{
    Drained, Intake, LENGTH_BYTES, OnFull, Pump, PumpHandle, PumpOptions, Remainder, Report, Sink,
    SlotLayout, SocketIntake, SocketIntakeError,
};
use transload::staging::PinnedStagingBuffer;

/// Keeps what comes back.
#[derive(Clone, Debug, Default)]
struct Back(Arc<Mutex<Vec<u8>>>);

impl Sink for Back {
    fn receive(&mut self, messages: &[u8], _: usize) -> io::Result<()> {
        self.0.lock().unwrap().extend_from_slice(messages);
        Ok(())
    }
}

/// A pump onto the host, and the receiving end before it.
struct Rig {
    sockets: SocketIntake,
    pump: Option<Pump>,
    running: Option<PumpHandle>,
    back: Back,
}

impl Rig {
    /// One that does not pump yet, so that the ring can be filled.
    fn still(layout: SlotLayout, slot_bytes: usize, capacity: usize, on_full: OnFull) -> Self {
        let device = host::Host.open(0).unwrap();
        let (producer, consumer) = PinnedStagingBuffer::new(capacity, slot_bytes).unwrap().split();
        let back = Back::default();
        let pump = Pump::open(&*device, consumer, PumpOptions::default()).unwrap();
        let pump = pump.read_back(&*device, back.clone()).unwrap();
        let intake = Intake::new(producer, on_full, &pump).unwrap();
        Self { sockets: SocketIntake::new(intake, layout), pump: Some(pump), running: None, back }
    }

    fn new(layout: SlotLayout, slot_bytes: usize, capacity: usize) -> Self {
        let mut rig = Self::still(layout, slot_bytes, capacity, OnFull::Block);
        rig.run();
        rig
    }

    fn run(&mut self) {
        self.running = self.pump.take().map(|pump| pump.spawn().unwrap());
    }

    fn finish(mut self) -> (Report, Vec<u8>) {
        if self.running.is_none() {
            self.run();
        }
        drop(self.sockets);
        let report = self.running.unwrap().join();
        assert!(report.error.is_none(), "{report:?}");
        assert_eq!(report.accepted, report.delivered + report.dropped);
        let back = std::mem::take(&mut *self.back.0.lock().unwrap());
        (report, back)
    }
}

fn tcp() -> (TcpStream, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.set_nodelay(true).unwrap();
    (peer, listener.accept().unwrap().0.into())
}

fn unix() -> (UnixStream, OwnedFd) {
    let (peer, end) = UnixStream::pair().unwrap();
    (peer, end.into())
}

/// The two kinds of connections.
fn connections() -> [(Box<dyn Write + Send>, OwnedFd); 2] {
    let ((tcp_peer, tcp_end), (unix_peer, unix_end)) = (tcp(), unix());
    [(Box::new(tcp_peer), tcp_end), (Box::new(unix_peer), unix_end)]
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()[7]
    };
    (0..len).map(|_| next()).collect()
}

/// What a call finds once something is there: bytes of a peer may take a moment.
fn next(
    sockets: &mut SocketIntake,
    end: &OwnedFd,
    remainder: &mut Remainder,
) -> Result<Drained, SocketIntakeError> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match sockets.receive(end, remainder, usize::MAX, |_| ()) {
            Ok(Drained::Nothing) => assert!(Instant::now() < until, "nothing comes"),
            found => return found,
        }
        std::thread::yield_now();
    }
}

/// Payloads out of slots with a length in front, which must have zeros behind.
fn payloads(back: &[u8], slot_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for slot in back.chunks(slot_bytes) {
        let (length, rest) = slot.split_first_chunk::<LENGTH_BYTES>().unwrap();
        let (payload, zeros) = rest.split_at(u32::from_le_bytes(*length) as usize);
        assert!(!payload.is_empty() && zeros.iter().all(|&byte| byte == 0));
        bytes.extend_from_slice(payload);
    }
    bytes
}

#[test]
fn bytes_in_any_pieces_arrive_in_order() {
    for layout in [SlotLayout::Dense, SlotLayout::Prefixed] {
        for (slot_bytes, capacity) in [(5, 4), (24, 8), (260, 64), (70_000, 4)] {
            for (mut peer, end) in connections() {
                let bytes = noise((slot_bytes * 400).min(500_000) + 3);
                let sent = bytes.clone();
                let sender = std::thread::spawn(move || {
                    let mut rest = &sent[..];
                    let mut piece = 1;
                    while !rest.is_empty() {
                        let (now, later) = rest.split_at(piece.min(rest.len()));
                        peer.write_all(now).unwrap();
                        rest = later;
                        piece = piece * 3 % 9973 + 1;
                    }
                });
                let mut rig = Rig::new(layout, slot_bytes, capacity);
                let (mut remainder, mut all, mut staged_bytes) = (Remainder::default(), 0, 0);
                loop {
                    match next(&mut rig.sockets, &end, &mut remainder).unwrap() {
                        Drained::Bytes { received, staged, .. } => {
                            all += received;
                            staged_bytes += staged;
                        }
                        Drained::End => break,
                        other => panic!("{other:?}"),
                    }
                }
                sender.join().unwrap();
                assert_eq!(all, bytes.len());
                let (report, back) = rig.finish();
                assert_eq!(report.skipped, 0, "what is reserved is there");
                if layout == SlotLayout::Dense {
                    assert_eq!(remainder.len(), bytes.len() % slot_bytes);
                    assert!(back == bytes[..bytes.len() - remainder.len()], "{slot_bytes} bytes a slot");
                } else {
                    assert_eq!((remainder.len(), staged_bytes), (0, 0));
                    assert!(payloads(&back, slot_bytes) == bytes, "{slot_bytes} bytes a slot");
                }
            }
        }
    }
}

#[test]
fn whole_messages_are_copied_once_and_halves_twice() {
    for (mut peer, end) in connections() {
        let mut rig = Rig::new(SlotLayout::Dense, 8, 64);
        let mut remainder = Remainder::default();
        for (sent, expected, held) in [
            (&b"11111111222"[..], Drained::Bytes { received: 11, messages: 1, staged: 0 }, 3),
            (b"22", Drained::Bytes { received: 2, messages: 0, staged: 0 }, 5),
            (b"222", Drained::Bytes { received: 3, messages: 1, staged: 5 }, 0),
            (b"3333333344444444", Drained::Bytes { received: 16, messages: 2, staged: 0 }, 0),
        ] {
            peer.write_all(sent).unwrap();
            assert_eq!(next(&mut rig.sockets, &end, &mut remainder), Ok(expected));
            assert_eq!((remainder.len(), remainder.is_empty()), (held, held == 0));
        }
        drop(peer);
        assert_eq!(next(&mut rig.sockets, &end, &mut remainder), Ok(Drained::End));
        assert_eq!(rig.finish().1, b"11111111222222223333333344444444");
    }
}

#[test]
fn no_more_messages_than_wanted_and_each_is_noted_before_it_goes() {
    for (mut peer, end) in connections() {
        let mut rig = Rig::new(SlotLayout::Prefixed, 8, 4);
        let mut remainder = Remainder::default();
        peer.write_all(b"aaaabbbbcc").unwrap();
        let mut noted = Vec::new();
        while noted.is_empty() {
            let _ = rig.sockets.receive(&end, &mut remainder, 2, |slot| noted.push(slot.to_vec())).unwrap();
        }
        assert_eq!(noted, [b"\x04\0\0\0aaaa", b"\x04\0\0\0bbbb"]);
        assert_eq!(rig.sockets.receive(&end, &mut remainder, 0, |_| ()), Ok(Drained::Nothing));
        let rest = next(&mut rig.sockets, &end, &mut remainder).unwrap();
        assert_eq!(rest, Drained::Bytes { received: 2, messages: 1, staged: 0 });
        assert_eq!(rig.finish().1, b"\x04\0\0\0aaaa\x04\0\0\0bbbb\x02\0\0\0cc\0\0");
    }
}

#[test]
fn what_has_no_room_is_turned_away_and_counted() {
    for (on_full, dropped, rejected) in [(OnFull::Reject, 0, 3), (OnFull::DropNew, 3, 0)] {
        for (mut peer, end) in connections() {
            for layout in [SlotLayout::Dense, SlotLayout::Prefixed] {
                let size = if layout == SlotLayout::Dense { 4 } else { 8 };
                let mut rig = Rig::still(layout, size, 2, on_full);
                let mut remainder = Remainder::default();
                peer.write_all(b"0000111122223333444455").unwrap();
                let (mut all, mut messages) = (0, 0);
                while all < 22 {
                    let found = next(&mut rig.sockets, &end, &mut remainder).unwrap();
                    let Drained::Bytes { received, messages: more, .. } = found else { panic!("{found:?}") };
                    all += received;
                    messages += more;
                }
                // The two bytes at the end are a message where any number is.
                let extra = usize::from(layout == SlotLayout::Prefixed);
                assert_eq!((messages, remainder.len()), (5 + extra, if extra == 1 { 0 } else { 2 }));
                let (report, back) = rig.finish();
                let extra = extra as u64;
                let turned_away = |count: u64| if count > 0 { count + extra } else { 0 };
                assert_eq!(
                    (report.delivered, report.dropped, report.rejected),
                    (2, turned_away(dropped), turned_away(rejected))
                );
                let back = if layout == SlotLayout::Dense { back } else { payloads(&back, size) };
                assert_eq!(back, b"00001111");
            }
        }
    }
}

#[test]
fn halves_are_joined_also_where_they_are_turned_away() {
    let (mut peer, end) = unix();
    let mut rig = Rig::still(SlotLayout::Dense, 4, 2, OnFull::Reject);
    let mut remainder = Remainder::default();
    for sent in [&b"aaaabbbb"[..], b"c", b"ccc", b"dd", b"ddeeeef", b"f"] {
        peer.write_all(sent).unwrap();
        assert!(matches!(next(&mut rig.sockets, &end, &mut remainder), Ok(Drained::Bytes { .. })));
    }
    assert_eq!(remainder.len(), 2);
    let (report, back) = rig.finish();
    assert_eq!((report.delivered, report.rejected), (2, 3));
    assert_eq!(back, b"aaaabbbb");
}

#[test]
fn a_full_ring_is_waited_for_and_a_closed_one_ends_the_wait() {
    let (mut peer, end) = tcp();
    let mut rig = Rig::still(SlotLayout::Dense, 4, 2, OnFull::Block);
    let mut remainder = Remainder::default();
    peer.write_all(b"000011112222").unwrap();
    let first = next(&mut rig.sockets, &end, &mut remainder).unwrap();
    assert_eq!(first, Drained::Bytes { received: 8, messages: 2, staged: 0 });
    rig.run();
    let stopper = rig.running.as_ref().unwrap().stopper().clone();
    let second = next(&mut rig.sockets, &end, &mut remainder).unwrap();
    assert_eq!(second, Drained::Bytes { received: 4, messages: 1, staged: 0 });
    stopper.stop(Duration::from_secs(10));
    peer.write_all(b"3333").unwrap();
    assert_eq!(next(&mut rig.sockets, &end, &mut remainder), Err(SocketIntakeError::Closed));
    assert_eq!(rig.finish().0.delivered, 3);
}

#[test]
fn a_reset_is_an_error() {
    let (peer, end) = tcp();
    let linger = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&peer, linger).unwrap();
    drop(peer);
    let mut rig = Rig::new(SlotLayout::Prefixed, 8, 4);
    let reset = rustix::io::Errno::CONNRESET.raw_os_error();
    let found = next(&mut rig.sockets, &end, &mut Remainder::default());
    assert_eq!(found, Err(SocketIntakeError::Os { code: reset }));
    assert_eq!(rig.finish().0.accepted, 0);
}

#[test]
#[should_panic(expected = "slots of 4 bytes have no room behind a length of 4 bytes")]
fn slots_without_room_for_a_payload_are_refused() {
    drop(Rig::still(SlotLayout::Prefixed, 4, 2, OnFull::Block));
}
