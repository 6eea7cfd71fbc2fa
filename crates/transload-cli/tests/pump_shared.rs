//! `transload pump --from shm:NAME`: made, taken over, refused, ended; each message there once, or counted.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::Duration;

use common::listening::{Listening, until_it_listens};
use common::region::{generate, generated};
use common::{arg, count, device_or_skip, pump};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use tempfile::TempDir;
use transload::shared::SharedPool;
use transload::shared::handover::{Name, Steward, Terms, attach};

const SIZE: usize = 24;
const PATIENCE: Duration = Duration::from_secs(50);

/// A folder, and the name of a region in it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn name(&self) -> String {
        arg(self.folder.path().join("region"))
    }

    fn file(&self, name: &str) -> String {
        arg(self.folder.path().join(name))
    }

    /// A pump that has the region.
    fn pump(&self, args: &[&str]) -> Listening {
        let from = format!("shm:{}", self.name());
        let run = pump(&["--from", &from, "--message-size", "24", "--framing", "fixed", "--json"]);
        until_it_listens(run.args(["--capacity", "64"]).args(args))
    }

    fn member(&self) -> Member {
        let name: Name = self.name().parse().unwrap();
        let (region, post) = attach(&name, &Terms::new()).unwrap();
        let pool = SharedPool::join(&region, "a test").unwrap();
        let looking = pool.clone();
        let steward = Steward::start(post, move || {
            looking.recover();
        })
        .unwrap();
        Member { _steward: steward, pool, next: 0 }
    }
}

/// One who sends.
struct Member {
    _steward: Steward,
    pool: SharedPool,
    next: u64,
}

impl Member {
    fn send(&mut self, messages: u64) {
        for _ in 0..messages {
            assert!(self.try_send(PATIENCE));
        }
    }

    fn try_send(&mut self, timeout: Duration) -> bool {
        let message = generate(self.pool.member().into(), self.next, SIZE);
        let sent = self.pool.ring().send_copy_timeout(&message, timeout).is_ok();
        self.next += u64::from(sent);
        sent
    }
}

/// The numbers of the messages in a file.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    assert_eq!(bytes.len() % SIZE, 0);
    bytes.chunks_exact(SIZE).map(|message| generated(message).1).collect()
}

#[test]
fn it_delivers_what_members_send_and_ends_with_the_messages() {
    for device in ["host", "opencl", "vulkan"] {
        if !device_or_skip(device, "pump_shared::it_delivers_what_members_send_and_ends_with_the_messages") {
            continue;
        }
        let place = Place::new();
        let copy = place.file("copy");
        let args = ["--to", device, "--messages", "5000", "--verify", "--read-back", &copy];
        let running = place.pump(&args);
        assert!(
            running.address.starts_with("shm:/") && !running.address.contains(','),
            "{}",
            running.address
        );
        let mut member = place.member();
        member.send(5000);
        let document = running.done().code(0).json();
        assert_eq!(count(&document, "delivered"), 5000);
        assert_eq!((count(&document, "verified"), count(&document, "corrupt")), (5000, 0));
        assert_eq!(
            (&document["stopped_by"], &document["device"]["backend"]),
            (&"messages".into(), &device.into())
        );
        let region = &document["region"];
        assert_eq!((&region["created"], &region["taken_over_from"]), (&true.into(), &().into()));
        assert_eq!(
            (count(region, "redelivered"), count(region, "pending"), count(region, "members")),
            (0, 0, 2)
        );
        assert_eq!(numbers(&fs::read(&copy).unwrap()), (0..5000).collect::<Vec<_>>());
        assert_eq!(member.pool.statistics().free, 64);
    }
}

#[test]
fn it_ends_when_so_many_members_have_left() {
    let place = Place::new();
    let running = place.pump(&["--connections", "2"]);
    let (mut first, mut second) = (place.member(), place.member());
    first.send(100);
    drop(first);
    second.send(200);
    drop(second);
    let document = running.done().code(0).json();
    assert_eq!((count(&document, "delivered"), count(&document, "connections")), (300, 2));
    assert_eq!(document["stopped_by"], "connections");
    assert!(!Path::new(&place.name()).exists(), "the last one takes the name away");
}

#[test]
fn a_signal_ends_it_and_what_was_sent_arrives() {
    let place = Place::new();
    let mut running = place.pump(&["--duration", "1h"]);
    running.running.pumps();
    let mut member = place.member();
    member.send(1000);
    running.running.signal(Signal::TERM);
    let document = running.done().code(0).json();
    assert_eq!((count(&document, "delivered"), &document["stopped_by"]), (1000, &"signal".into()));
}

/// A pump that nobody takes from what it brings back: held within a batch, with a ring that is full behind it.
fn held(place: &Place) -> (Listening, Member, fs::File) {
    let path = place.folder.path().join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    // Opened for both, so that neither end waits for the other, and not read.
    let pipe = fs::File::options().read(true).write(true).open(&path).unwrap();
    let running = place.pump(&["--read-back", &arg(&path), "--batch-bytes", "240"]);
    let mut member = place.member();
    while member.try_send(Duration::from_millis(500)) {}
    assert_eq!(member.pool.statistics().free, 0);
    (running, member, pipe)
}

/// Whatever the first pump had and was not done with comes to a second, which counts it.
fn follow(place: &Place, mut member: Member, mut pipe: fs::File, killed: Option<u32>) {
    let mut bytes = vec![0; 1 << 20];
    let written = pipe.read(&mut bytes).unwrap();
    let mut all = numbers(&bytes[..written / SIZE * SIZE]);
    let copy = place.file("copy");
    let second = place.pump(&["--read-back", &copy, "--verify"]);
    let told = killed.map(|pid| format!("{}, taken over from process {pid}, which has died", place.name()));
    let told = told.unwrap_or_else(|| format!("{}, which was there", place.name()));
    assert_eq!(second.address, format!("shm:{told}"));
    member.send(500);
    second.running.signal(Signal::TERM);
    let document = second.done().code(0).json();
    let region = &document["region"];
    assert_eq!(
        (&region["created"], region["taken_over_from"].as_u64()),
        (&false.into(), killed.map(u64::from))
    );
    let again = numbers(&fs::read(&copy).unwrap());
    assert_eq!((count(&document, "delivered"), count(&document, "corrupt")), (again.len() as u64, 0));
    assert!(again.is_sorted(), "in order");
    // What had arrived and was not said to be done came again, and was counted so.
    let twice = all.iter().filter(|number| again.contains(number)).count() as u64;
    let redelivered = count(region, "redelivered");
    assert!((1..=64).contains(&redelivered) && twice <= redelivered, "{twice}: {document}");
    all.extend(again);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, (0..member.next).collect::<Vec<_>>(), "each message that was sent");
    assert_eq!(member.pool.statistics().free, 64);
}

#[test]
fn a_pump_that_is_killed_is_followed_by_another_that_loses_nothing() {
    let place = Place::new();
    let (first, member, pipe) = held(&place);
    let pid = first.running.child.id();
    first.running.signal(Signal::KILL);
    drop(first.done());
    follow(&place, member, pipe, Some(pid));
}

#[test]
fn a_pump_that_is_told_to_end_at_once_leaves_what_it_had() {
    let place = Place::new();
    let (first, member, pipe) = held(&place);
    let pid = first.running.child.id();
    for _ in 0..2 {
        first.running.signal(Signal::TERM);
        thread::sleep(Duration::from_millis(300));
    }
    let document = first.done().code(0).json();
    assert_eq!((count(&document, "dropped"), &document["stopped_by"]), (0, &"signal".into()));
    assert!(count(&document["region"], "pending") > 0, "{document}");
    // Its pump was held, and let go of nothing by itself.
    follow(&place, member, pipe, Some(pid));
}

#[test]
fn a_region_with_a_live_consumer_is_refused() {
    let place = Place::new();
    let running = place.pump(&[]);
    let from = format!("shm:{}", place.name());
    let options = ["--message-size", "24", "--framing", "fixed"];
    let refused = pump(&["--from", &from, "--json"]).args(options).done().code(1).json();
    assert_eq!(refused["error"]["kind"], "in-use");
    let said = refused["error"]["message"].as_str().unwrap();
    assert!(said.contains(&format!("process {}", running.running.child.id())), "{said}");
    for (args, words) in [
        (["--message-size", "25", "--framing", "fixed"], "buffers of 24 bytes"),
        (["--message-size", "20", "--framing", "stream"], "layout 1"),
    ] {
        let said = pump(&["--from", &from]).args(args).done().code(2).stderr;
        assert!(said.contains(words), "{said}");
    }
    // It was not disturbed.
    let mut member = place.member();
    assert_eq!(member.pool.statistics().left, 0, "who was refused had not taken part");
    member.send(10);
    running.running.signal(Signal::TERM);
    assert_eq!(count(&running.done().code(0).json(), "delivered"), 10);
}

#[test]
fn what_is_not_as_it_was_generated_is_found() {
    finds_what_is_wrong("host", "host");
}

/// The broken twin of messages that are right: on devices that check them themselves.
#[test]
fn what_is_not_as_it_was_generated_is_found_on_the_device() {
    for device in ["opencl", "vulkan"] {
        if device_or_skip(device, "pump_shared::what_is_not_as_it_was_generated_is_found_on_the_device") {
            finds_what_is_wrong(device, "device");
        }
    }
}

fn finds_what_is_wrong(to: &str, checked_on: &str) {
    let place = Place::new();
    let running = place.pump(&["--to", to, "--verify", "--messages", "100"]);
    let mut member = place.member();
    member.send(50);
    member.next += 1;
    member.send(40);
    let mut torn = generate(member.pool.member().into(), member.next, SIZE);
    torn[SIZE - 1] ^= 1;
    member.pool.ring().send_copy_timeout(&torn, PATIENCE).unwrap();
    member.next += 1;
    member.send(9);
    let document = running.done().code(1).json();
    assert_eq!(document["verified_on"], checked_on);
    // One is missing, one is torn, and behind the torn one it looks as if it were missing.
    assert_eq!((count(&document, "verified"), count(&document, "corrupt")), (97, 3));
    assert_eq!(document["error"]["kind"], "corrupt");
}

#[test]
fn framed_messages_come_out_as_they_went_in() {
    for (framing, expected) in
        [("stream", &b"onethree"[..]), ("lines", b"one\nthree\n"), ("u32be", b"\0\0\0\x03one\0\0\0\x05three")]
    {
        let place = Place::new();
        let from = format!("shm:{}", place.name());
        let run = pump(&["--from", &from, "--message-size", "8", "--framing", framing, "--read-back", "-"]);
        let running = until_it_listens(run.args(["--capacity", "4", "--messages", "2", "--quiet"]));
        let member = place.member();
        for payload in [&b"one"[..], b"three"] {
            let mut slot = [0; 12];
            slot[..4].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
            slot[4..4 + payload.len()].copy_from_slice(payload);
            member.pool.ring().send_copy_timeout(&slot, PATIENCE).unwrap();
        }
        assert_eq!(running.done().code(0).stdout, expected, "{framing}");
    }
}

#[test]
fn options_that_do_not_go_with_it_are_refused() {
    for (args, words) in [
        (&["--from", "shm:"][..], "empty name"),
        (&["--from", "shm:a/b"], "'/'"),
        (&["--from", "shm:x", "--on-full", "reject"], "--on-full"),
        (&["--from", "shm:x", "--direct"], "--direct"),
        (&["--from", "shm:x", "--io", "readiness"], "--io"),
        (&["--from", "shm:x", "--verify", "--framing", "lines"], "lines"),
        (&["--allow-uid", "1"], "--allow-uid"),
    ] {
        let said = pump(args).done().code(2).stderr;
        assert!(said.contains(words), "{args:?}: {said}");
    }
}
