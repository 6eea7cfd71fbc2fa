//! `transload pump --on-full`: what happens when the ring is full, and that all of it is counted.
#![cfg(target_os = "linux")]

mod common;

use std::io::Read;

use common::{Done, arg, count, pump, wait_until};
use serde_json::Value;

const POLICIES: [&str; 4] = ["block", "reject", "drop-new", "drop-oldest"];

/// A ring that is nearly always full, behind which everything is done one message at a time.
const NARROW: [&str; 8] = ["--capacity", "2", "--batch-bytes", "1", "--in-flight", "1", "--verify", "--json"];

/// The numbers of a run that was offered so many messages.
#[track_caller]
fn counted(done: Done, document: &Value, policy: &str, offered: u64) {
    let [accepted, delivered, dropped, rejected] =
        ["accepted", "delivered", "dropped", "rejected"].map(|name| count(document, name));
    assert_eq!(accepted, delivered + dropped, "{policy}: {document}");
    assert_eq!(accepted + rejected, offered, "{policy}: {document}");
    assert_eq!(
        (count(document, "verified"), count(document, "corrupt")),
        (delivered, 0),
        "{policy}: {document}"
    );
    match policy {
        "block" => assert_eq!((dropped, rejected), (0, 0), "{document}"),
        "reject" => assert_eq!(dropped, 0, "{document}"),
        _ => assert_eq!(rejected, 0, "{policy}: {document}"),
    }
    assert!(document["error"].is_null(), "{document}");
    done.code(if dropped + rejected > 0 { 3 } else { 0 });
}

#[test]
fn each_policy_counts_every_message() {
    for policy in POLICIES {
        for (producers, message_size) in [("1", "64"), ("4", "64"), ("4", "4097"), ("2", "8")] {
            let run = pump(&["--on-full", policy, "--producers", producers, "--message-size", message_size]);
            let done = run.args(NARROW).args(["--messages", "1003"]).done();
            let document = done.json();
            counted(done, &document, policy, 1003);
            assert_eq!(document["stopped_by"], "messages");
        }
    }
}

/// A message that is too small for a number that always grows says nothing about those that were lost before it.
#[test]
fn losses_between_small_messages_are_no_corruption() {
    for policy in ["reject", "drop-new", "drop-oldest"] {
        for message_size in ["1", "2", "3"] {
            let run = pump(&["--on-full", policy, "--producers", "4", "--message-size", message_size]);
            let done = run.args(NARROW).args(["--messages", "20000"]).done();
            let document = done.json();
            counted(done, &document, policy, 20_000);
        }
    }
}

/// With a reader that takes nothing before all sources are done, the ring has to overflow.
#[test]
fn what_finds_no_room_is_lost_and_the_rest_is_not() {
    for policy in ["reject", "drop-new"] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let run =
            pump(&["--on-full", policy, "--producers", "2", "--message-size", "512", "--read-back", "-"]);
        let running = run.args(NARROW).args(["--messages", "1000"]).output_to(writer).start();
        wait_until("the end of the sources", || {
            !running.has_thread("transload-gen-0") && !running.has_thread("transload-gen-1")
        });
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        let done = running.done();
        let document = done.json_of_stderr();
        let lost = count(&document, "dropped") + count(&document, "rejected");
        assert!(lost > 0, "{document}");
        assert_eq!(bytes.len() as u64, count(&document, "delivered") * 512, "{policy}");
        counted(done, &document, policy, 1000);
    }
}

#[test]
fn the_oldest_make_room_for_the_newest() {
    // Whether the ring is full when the pump looks is a matter of chance, not often of bad luck.
    for attempt in 0..50 {
        let run = pump(&["--on-full", "drop-oldest", "--producers", "4", "--message-size", "64"]);
        let done = run.args(NARROW).args(["--messages", "2000"]).done();
        let document = done.json();
        let dropped = count(&document, "dropped");
        counted(done, &document, "drop-oldest", 2000);
        if dropped > 0 {
            return;
        }
        assert!(attempt < 49, "nothing was ever dropped");
    }
}

#[test]
fn files_are_subject_to_the_policy_too() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| arg(folder.path().join(name)));
    // Neighbours that are equal, and lines that are not.
    let mut lines: Vec<String> = (0..2999).map(|number| format!("line {}", number / 3)).collect();
    lines.push("the last".to_owned());
    std::fs::write(&from, lines.join("\n")).unwrap();
    for policy in POLICIES {
        let run = pump(&["--from", &from, "--framing", "lines", "--read-back", &to, "--on-full", policy]);
        let done = run.args(NARROW).args(["--message-size", "16"]).done();
        let document = done.json();
        counted(done, &document, policy, 3000);
        assert_eq!(document["stopped_by"], "end");
        let back = std::fs::read_to_string(&to).unwrap();
        assert_eq!(back.lines().count() as u64, count(&document, "delivered"));
        // Only the last line of the input has no end.
        assert!(back.is_empty() || back.ends_with("the last") || back.ends_with('\n'), "{policy}");
        // In order: each is found behind the one before it.
        let mut rest = lines.iter();
        assert!(back.lines().all(|line| rest.any(|other| other == line)), "{policy}: out of order");
        if policy == "block" {
            assert_eq!(back, lines.join("\n"));
        }
    }
}

#[test]
fn time_ends_a_lossy_run_as_well() {
    for policy in POLICIES {
        let run = pump(&["--on-full", policy, "--duration", "100ms"]).args(NARROW);
        let done = run.done();
        let document = done.json();
        assert_eq!(document["stopped_by"], "duration");
        let offered = count(&document, "accepted") + count(&document, "rejected");
        counted(done, &document, policy, offered);
    }
}

/// What cannot arrive in time is dropped and counted, whatever the policy.
#[test]
fn an_impatient_end_drops_what_is_left() {
    for policy in ["block", "reject"] {
        let args = ["--on-full", policy, "--duration", "50ms", "--drain-timeout", "0s", "--verify", "--json"];
        let done = pump(&args).done();
        let document = done.json();
        assert_eq!(count(&document, "corrupt"), 0, "{document}");
        let lost = count(&document, "dropped") + count(&document, "rejected");
        done.code(if lost > 0 { 3 } else { 0 });
    }
}
