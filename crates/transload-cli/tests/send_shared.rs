//! `transload send --to shm:NAME`: into a region that the test, or nobody, takes from.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

mod common;

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::region::{DENSE, Names, PREFIXED, Shape, TestPump, generated};
use common::{Done, Run, Running, arg, count, privilege, skip, transload, wait_until};
use rustix::process::Signal;
use serde_json::Value;

fn send(to: &str, args: &[&str]) -> Run {
    transload(["send", "--to", to, "--json"]).args(args)
}

/// The document, and what always holds of it.
fn report(done: &Done) -> Value {
    assert_eq!(done.text().trim_end().lines().count(), 1, "{}", done.text());
    let document: Value = serde_json::from_str(done.text()).unwrap();
    let fields: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    for field in [
        "schema",
        "to",
        "messages",
        "bytes",
        "seconds",
        "messages_per_second",
        "bytes_per_second",
        "reconnects",
        "left_behind",
        "waited_seconds",
        "region",
        "stopped_by",
        "error",
    ] {
        assert!(fields.contains(&field), "no {field} in {document}");
    }
    assert_eq!((fields.len(), &document["schema"]), (13, &1.into()), "{document}");
    document
}

fn error(document: &Value) -> (&str, &str) {
    let text = |field: &str| document["error"][field].as_str().unwrap_or_else(|| panic!("{document}"));
    (text("kind"), text("message"))
}

/// Waits until it takes part.
fn until_it_sends(running: &Running, pump: &TestPump) {
    let pid = running.child.id();
    wait_until("a member", || pump.region.holders().iter().any(|holder| holder.pid == pid));
}

#[test]
fn generated_messages_arrive_whole_in_each_layout() {
    let names = Names::new();
    for (name, shape) in [("prefixed", PREFIXED), ("dense", DENSE)] {
        let mut pump = names.pump(name, shape);
        pump.soil();
        let running = send(&names.address(name), &["--messages", "1000"]).start();
        let all = pump.take_all(1000);
        let done = running.done().code(0).quiet();
        for (nth, payload) in all.iter().enumerate() {
            assert_eq!((payload.len(), generated(payload).1), (24, nth as u64));
        }
        let document = report(&done);
        assert_eq!((count(&document, "messages"), count(&document, "bytes")), (1000, 24_000));
        assert_eq!(
            (&document["stopped_by"], &document["to"]),
            (&"messages".into(), &names.address(name).into())
        );
        let region = &document["region"];
        assert_eq!((&region["layout"], count(region, "slots")), (&name.into(), 16));
        assert_eq!(region["id"], format!("{:032x}", pump.region.id()));
        assert_eq!(count(region, "member"), generated(&all[0]).0, "by which its messages are told apart");
        assert_eq!((count(&document, "reconnects"), pump.pool.statistics().free), (0, 16));
    }
}

/// A framing, a region, an input, and its messages.
type Case<'a> = (&'a str, Shape, Vec<u8>, Vec<&'a [u8]>);

#[test]
fn an_input_is_cut_as_its_framing_says() {
    let folder = tempfile::tempdir().unwrap();
    let names = Names::new();
    let long = [b'x'; 24];
    let cases: Vec<Case<'_>> = vec![
        ("lines", PREFIXED, b"a\n\nbcd\nunended".to_vec(), vec![b"a", b"", b"bcd", b"unended"]),
        ("u32le", PREFIXED, b"\x02\0\0\0ab\0\0\0\0\x01\0\0\0c".to_vec(), vec![b"ab", b"", b"c"]),
        ("u32be", PREFIXED, b"\0\0\0\x02ab".to_vec(), vec![b"ab"]),
        ("stream", PREFIXED, [&long[..], b"rest"].concat(), vec![&long, b"rest"]),
        ("fixed", PREFIXED, [long, long].concat(), vec![&long, &long]),
        ("fixed", DENSE, [long, long].concat(), vec![&long, &long]),
        ("stream", DENSE, [long, long].concat(), vec![&long, &long]),
    ];
    for (nth, (framing, shape, bytes, expected)) in cases.into_iter().enumerate() {
        let from = folder.path().join("from");
        fs::write(&from, &bytes).unwrap();
        for from in ["-", &arg(&from)] {
            let name = format!("{nth}-{}", from.len());
            let mut pump = names.pump(&name, shape);
            pump.soil();
            let args = ["--from", from, "--framing", framing];
            let running = send(&names.address(&name), &args).input(bytes.clone()).start();
            assert_eq!(pump.take_all(expected.len()), expected, "{framing}");
            let document = report(&running.done().code(0));
            assert_eq!(
                (&document["stopped_by"], count(&document, "messages")),
                (&"end".into(), expected.len() as u64)
            );
        }
    }
}

#[test]
fn many_messages_through_few_slots() {
    let names = Names::new();
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    let lines: Vec<String> = (0..5000).map(|number| format!("line {number}")).collect();
    fs::write(&from, lines.join("\n")).unwrap();
    let few = Shape { slots: 3, ring_slots: 2, ..PREFIXED };
    let mut pump = names.pump("a", few);
    let running = send(&names.address("a"), &["--from", &arg(from), "--framing", "lines"]).start();
    let all = pump.take_all(lines.len());
    assert!(all.iter().zip(&lines).all(|(payload, line)| payload == line.as_bytes()));
    let document = report(&running.done().code(0));
    assert!(document["waited_seconds"].as_f64().unwrap() > 0.0, "{document}");
    assert_eq!(pump.pool.statistics().free, 3);
}

#[test]
fn so_many_messages_as_were_wanted_and_the_rest_is_left() {
    let names = Names::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("from");
    fs::write(&path, "a\nb\nc\nd\n").unwrap();
    let mut file = File::open(&path).unwrap();
    let mut pump = names.pump("a", PREFIXED);
    let args = ["--from", "-", "--framing", "lines", "--messages", "2"];
    let running = send(&names.address("a"), &args).input_from(file.try_clone().unwrap()).start();
    assert_eq!(pump.take_all(2), [b"a", b"b"]);
    assert_eq!(report(&running.done().code(0))["stopped_by"], "messages");
    let mut rest = String::new();
    file.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "c\nd\n");
    assert_eq!(file.stream_position().unwrap(), 8);
}

#[test]
fn it_ends_when_all_is_done_and_not_before() {
    let names = Names::new();
    let mut pump = names.pump("a", PREFIXED);
    let mut running = send(&names.address("a"), &["--messages", "3"]).start();
    wait_until("three messages", || pump.pool.ring().len() == 3);
    thread::sleep(Duration::from_millis(300));
    assert!(running.child.try_wait().unwrap().is_none(), "nobody has taken them");
    pump.take_all(3);
    assert_eq!(count(&report(&running.done().code(0)), "messages"), 3);
}

#[test]
fn it_waits_for_a_pump_that_comes_later() {
    let names = Names::new();
    let running = send(&names.address("a"), &["--messages", "5"]).start();
    wait_until("it says so", || running.stderr_so_far().contains("waits for it"));
    let mut pump = names.pump("a", PREFIXED);
    assert!(pump.is_new);
    assert_eq!(pump.take_all(5).len(), 5);
    let document = report(&running.done().code(0));
    assert!(document["waited_seconds"].as_f64().unwrap() > 0.0, "{document}");
}

#[test]
fn without_a_pump_it_fails_if_it_is_not_to_wait() {
    let names = Names::new();
    let done = send(&names.address("a"), &["--no-reconnect"]).done().code(1);
    let document = report(&done);
    let (kind, message) = error(&document);
    assert_eq!(kind, "connect");
    assert!(message.contains("no process has a region named"), "{message}");
    assert!(document["error"]["fix"].as_str().unwrap().contains("transload pump --from shm:"), "{document}");
    // Or when the time is over, or by a signal.
    let document = report(&send(&names.address("a"), &["--duration", "100ms"]).done().code(1));
    assert_eq!((error(&document).0, &document["region"]), ("connect", &Value::Null));
    let running = send(&names.address("a"), &["--messages", "1"]).start();
    wait_until("it waits", || running.stderr_so_far().contains("waits for it"));
    running.signal(Signal::INT);
    assert_eq!(report(&running.done().code(0))["stopped_by"], "signal");
}

#[test]
fn a_pump_that_leaves_is_followed_by_another_which_gets_everything() {
    let names = Names::new();
    let mut pump = names.pump("a", PREFIXED);
    let running = send(&names.address("a"), &["--messages", "1000"]).start();
    let mut all = pump.take_all(100);
    let id = pump.region.id();
    for round in 0..3 {
        drop(pump);
        if round == 0 {
            wait_until("it says so", || running.stderr_so_far().contains("no pump takes from"));
        }
        // Long enough for it to look.
        thread::sleep(Duration::from_millis(500));
        pump = names.pump("a", PREFIXED);
        assert!(!pump.is_new && pump.region.id() == id, "the sender has kept it");
        all.extend(pump.take_all(100));
        thread::sleep(Duration::from_millis(500));
    }
    all.extend(pump.take_all(600));
    let numbers: Vec<u64> = all.iter().map(|payload| generated(payload).1).collect();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    let document = report(&running.done().code(0));
    assert_eq!(count(&document, "reconnects"), 3, "{document}");
}

#[test]
fn a_pump_that_leaves_fails_it_if_it_is_not_to_wait() {
    let names = Names::new();
    let mut pump = names.pump("a", PREFIXED);
    let running = send(&names.address("a"), &["--duration", "1m", "--no-reconnect"]).start();
    pump.take_all(100);
    drop(pump);
    let done = running.done().code(1);
    let document = report(&done);
    let (kind, message) = error(&document);
    assert!(kind == "connect" && message.contains("no pump takes from"), "{document}");
    let sent = count(&document, "messages");
    assert!(message.ends_with(&format!("{sent} messages were sent before")), "{message}");
}

#[test]
fn killed_senders_lose_nothing_that_they_had_sent() {
    let names = Names::new();
    let mut pump = names.pump("a", PREFIXED);
    let mut expected = std::collections::HashMap::new();
    let mut take = |pump: &mut TestPump| {
        for payload in pump.take(16) {
            let (member, number) = generated(&payload);
            let next = expected.entry(member).or_insert(0);
            // Another that has its number begins anew.
            assert!(number == *next || number == 0, "{member}: {number} instead of {next}");
            *next = number + 1;
        }
    };
    let start = || send(&names.address("a"), &["--duration", "5m"]).start();
    let mut senders = [start(), start()];
    for round in 0..20_usize {
        until_it_sends(&senders[round % 2], &pump);
        for _ in 0..50 {
            take(&mut pump);
        }
        senders[round % 2].signal(Signal::KILL);
        senders[round % 2].child.wait().unwrap();
        pump.pool.recover();
        senders[round % 2] = start();
    }
    for sender in &senders {
        until_it_sends(sender, &pump);
        sender.signal(Signal::KILL);
    }
    drop(senders);
    wait_until("the dead are recovered", || {
        pump.pool.recover();
        take(&mut pump);
        pump.pool.statistics().free == 16
    });
    assert_eq!(pump.region.holders().len(), 1);
}

#[test]
fn signals_and_time_end_it_in_order() {
    let names = Names::new();
    let mut pump = names.pump("a", PREFIXED);
    for signal in [Signal::INT, Signal::TERM] {
        let running = send(&names.address("a"), &["--duration", "10m"]).start();
        let before = pump.take_all(50).len() as u64;
        running.signal(signal);
        let mut taken = before;
        wait_until("its end", || {
            taken += pump.take(64).len() as u64;
            pump.region.holders().len() == 1
        });
        taken += pump.take(64).len() as u64;
        let document = report(&running.done().code(0));
        assert_eq!((&document["stopped_by"], count(&document, "messages")), (&"signal".into(), taken));
    }
    // Nobody takes: the time to drain, or the second signal, ends it.
    let running = send(&names.address("a"), &["--duration", "50ms", "--drain-timeout", "50ms"]).start();
    let document = report(&running.done().code(1));
    assert_eq!((&document["stopped_by"], error(&document).0), (&"duration".into(), "unsent"));
    assert!(error(&document).1.contains("at most 16 messages"), "{document}");
    pump.take_all(16);
    let running = send(&names.address("a"), &["--messages", "1000", "--drain-timeout", "10m"]).start();
    until_it_sends(&running, &pump);
    wait_until("signals are caught", || running.has_thread("transload-signa"));
    running.signal(Signal::INT);
    thread::sleep(Duration::from_millis(100));
    running.signal(Signal::INT);
    let document = report(&running.done().code(1));
    assert_eq!((&document["stopped_by"], error(&document).0), (&"signal".into(), "unsent"));
    pump.take(64);

    // An input without an end.
    let mut running = send(&names.address("a"), &["--from", "-", "--framing", "lines"]).open_input().start();
    let mut input = running.child.stdin.take().unwrap();
    input.write_all(b"one\nhalf").unwrap();
    assert_eq!(pump.take_all(1), [b"one"]);
    running.signal(Signal::INT);
    let document = report(&running.done().code(0));
    assert_eq!((&document["stopped_by"], count(&document, "messages")), (&"signal".into(), 1));
}

#[test]
fn a_region_that_was_replaced_is_left_for_the_new_one() {
    let names = Names::new();
    let folder = names.path("folder");
    let remake = || {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    };
    remake();
    let mut old = names.pump("folder/a", PREFIXED);
    let running = send(&names.address("folder/a"), &["--duration", "10m"]).start();
    old.take_all(100);
    let id = old.region.id();
    drop(old);
    // It serves the region now, and does not see what becomes of the folder once it has really stopped.
    running.stop();
    let stat = format!("/proc/{}/stat", running.child.id());
    wait_until("its stop", || fs::read_to_string(&stat).unwrap().contains(") T "));
    remake();
    let mut new = names.pump("folder/a", PREFIXED);
    assert!(new.is_new && new.region.id() != id);
    running.signal(Signal::CONT);
    new.take_all(100);
    wait_until("its words", || running.stderr_so_far().contains("is another region by now"));
    running.signal(Signal::INT);
    wait_until("its end", || {
        new.take(64);
        new.region.holders().len() == 1
    });
    // Nobody takes what is in the old one: it says so, and does not call that a success.
    let document = report(&running.done().code(1));
    assert!(count(&document, "reconnects") >= 1 && count(&document, "left_behind") >= 1, "{document}");
    assert_eq!(error(&document).0, "left-behind");
}

#[test]
fn input_that_is_not_framed_as_it_is_said_to_be() {
    let names = Names::new();
    let mut pump = names.pump("a", PREFIXED);
    let from = |bytes: &[u8], framing: &str| {
        send(&names.address("a"), &["--from", "-", "--framing", framing]).input(bytes).start()
    };
    let long = format!("a\n{}", "x".repeat(25));
    for (bytes, framing, words) in [
        (long.as_bytes(), "lines", "message 2, at offset 2, has 25 bytes"),
        (b"\x01\0\0\0a\xFF\0\0\0", "u32le", "message 2, at offset 5, has 255 bytes"),
        (b"\x01\0\0\0a\x02\0\0\0b", "u32le", "5 of 6 bytes are there"),
    ] {
        let running = from(bytes, framing);
        assert_eq!(pump.take_all(1), [b"a"]);
        let document = report(&running.done().code(1));
        let (kind, message) = error(&document);
        assert!(kind == "source" && message.contains(words), "{message}");
        assert!(message.ends_with("1 messages were sent before"), "{message}");
    }
}

#[test]
fn what_does_not_fit_into_the_slots_is_refused() {
    let names = Names::new();
    let (_prefixed, _dense) = (names.pump("prefixed", PREFIXED), names.pump("dense", DENSE));
    for (name, args, words) in [
        ("prefixed", &["--message-size", "25"][..], "holds 24"),
        ("dense", &["--message-size", "23"], "has exactly 24"),
        ("dense", &["--message-size", "25"], "holds 24"),
        ("dense", &["--from", "-", "--framing", "lines"], "--framing fixed"),
    ] {
        let document = report(&send(&names.address(name), args).done().code(1));
        let (kind, message) = error(&document);
        assert!(kind == "region" && message.contains(words), "{message}");
    }
    let done = send(&names.address("prefixed"), &["--message-size", "1"]).done().code(2);
    assert!(done.stderr.contains("tell the members"), "{}", done.stderr);
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    fs::write(&from, "abc").unwrap();
    let args = ["--from", &arg(from), "--framing", "fixed", "--message-size", "2"];
    let document = report(&send(&names.address("prefixed"), &args).done().code(1));
    assert!(error(&document).1.contains("1 messages of 2 and 1 bytes more"), "{document}");
}

#[test]
fn a_region_of_another_program_is_refused() {
    let names = Names::new();
    let make = || transload::shared::SharedRegion::builder(4, 64).user_word(77).create();
    let terms = transload::shared::handover::Terms::new();
    let (_region, post) = transload::shared::handover::create(&names.name("a"), &terms, make).unwrap();
    let _steward = transload::shared::handover::Steward::start(post, || {}).unwrap();
    let document = report(&send(&names.address("a"), &[]).done().code(1));
    assert!(error(&document).1.contains("0x4d"), "{document}");
}

#[test]
fn usage() {
    let refused = |args: &[&str], words: &[&str]| {
        let done = transload(["send"]).args(args).done().code(2);
        assert!(done.stdout.is_empty(), "{}", done.text());
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        for word in words {
            assert!(done.stderr.contains(word), "{args:?}: no {word} in {}", done.stderr);
        }
    };
    for to in ["shm:", "shm:.a", "shm:a/b", "shm:ä", "shm:/"] {
        refused(&["--to", to], &["--to"]);
    }
    for (option, value) in [
        ("--connections", "2"),
        ("--zero-copy", "on"),
        ("--io", "readiness"),
        ("--pool-buffers", "4"),
        ("--buffer-size", "4KiB"),
    ] {
        refused(&["--to", "shm:a", option, value], &[option, "for sockets"]);
    }
    refused(&["--to", "tcp:127.0.0.1:1", "--no-reconnect"], &["--no-reconnect", "shm:NAME"]);
    refused(&["--to", "tcp:127.0.0.1:1", "--allow-uid", "5"], &["--allow-uid", "shm:NAME"]);
    refused(&["--to", "shm:a", "--allow-uid", "x"], &["--allow-uid"]);
}

#[test]
fn another_user_is_refused_at_once_with_owner_and_mode() {
    const TEST: &str = "send_shared::another_user_is_refused_at_once_with_owner_and_mode";
    let Some(nobody) = privilege::Nobody::new() else { return skip(TEST, privilege::WHY) };
    let names = Names::new();
    fs::set_permissions(names.0.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let pump = names.pump("a", PREFIXED);
    let program = arg(nobody.folder.path().join("transload"));
    let run = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", &program, "send", "--json"]);
        command.args(["--to", &names.address("a")]).args(args).current_dir("/");
        Run::of(command)
    };
    let document = report(&run(&["--allow-uid", "0"]).done().code(1));
    let (kind, message) = error(&document);
    assert!(kind == "connect" && message.contains("uid 0 and has mode 0600"), "{message}");
    fs::set_permissions(names.path("a"), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let document = report(&run(&[]).done().code(1));
    assert!(error(&document).1.contains("a process of uid 0"), "{document}");
    let document = report(&run(&["--allow-uid", "0"]).done().code(1));
    assert!(error(&document).1.contains("served for uid 0 only"), "{document}");
    assert_eq!(pump.region.holders().len(), 1);
}
