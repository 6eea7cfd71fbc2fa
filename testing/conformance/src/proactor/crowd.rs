//! Many connections on a queue that is too small for them.

use std::io::Write;
use std::thread;
use std::time::Duration;

use transload::proactor::Receive;

use super::pattern::{Checker, Pattern};
use super::rig::{Kind, Rig, lease, pair, reader};
use super::starvation::take_in_turn;
use super::subject::Run;

const COUNT: u64 = 200;
const EACH: u64 = 1024;

/// Two hundred peers at once, one queue of eight: each is heard to its end.
pub fn two_hundred_connections_on_eight_entries(run: &Run) {
    hear(run, false);
}

/// The same after a second in which nobody polls, so that all that came has to wait in the kernel.
pub fn two_hundred_connections_after_a_pause(run: &Run) {
    hear(run, true);
}

fn hear(run: &Run, pauses: bool) {
    let rig = Rig::new(run.builder().entries(8));
    let pool = rig.receive_pool(512, 256);
    let (mut streams, mut peers) = (Vec::new(), Vec::new());
    for index in 0..COUNT {
        let (ours, peer) = pair(if index % 2 == 0 { Kind::Tcp } else { Kind::Unix });
        streams.push((rig.handle.receive(&ours, &pool), Checker::new(Pattern(index))));
        peers.push(peer);
    }
    rig.turn();
    let write = move || {
        // Half of each first, so that each has something that came early.
        for half in 0..2 {
            for (index, peer) in (0..).zip(&mut peers) {
                peer.write_all(&Pattern(index).bytes(half * EACH / 2, 512)).unwrap();
            }
        }
    };
    let writer = thread::spawn(write);
    if pauses {
        thread::sleep(Duration::from_secs(1));
        writer.join().unwrap();
        finish(&rig, streams);
    } else {
        finish(&rig, streams);
        writer.join().unwrap();
    }
}

fn finish(rig: &Rig, streams: Vec<(Receive, Checker)>) {
    for (mut receive, checker) in take_in_turn(rig, streams, EACH) {
        rig.end(&mut receive);
        checker.finish(EACH);
    }
}

/// As many sends at once as a queue of eight has to take in many turns.
pub fn two_hundred_sockets_are_sent_to(run: &Run) {
    let rig = Rig::new(run.builder().entries(8));
    let pool = rig.pool(200, 10_000);
    let (mut sends, mut readers, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..COUNT {
        let (ours, peer) = pair(Kind::Unix);
        sends.push(rig.handle.send(&ours, lease(&pool, Pattern(index), 0, 10_000)));
        sockets.push(ours);
        readers.push(peer);
    }
    for send in sends {
        assert_eq!(rig.on(send).result, Ok(10_000));
    }
    for (index, peer) in (0..).zip(readers) {
        drop(reader(peer, Pattern(index), 10_000).join().unwrap());
    }
    assert!(rig.until(|| pool.available() == 200));
}
