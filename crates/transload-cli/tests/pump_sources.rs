//! `transload pump`: every source and every framing, there and back.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

mod common;

use std::io::{Read, Write};
use std::path::Path;
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use common::{Done, arg, assert_same, count, noise, opencl_or_skip, pump, skip};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn generated_messages_of_any_size_from_any_number_of_producers() {
    for producers in ["1", "2", "3", "4"] {
        for message_size in ["1", "3", "7", "8", "9", "24", "63", "256", "4097"] {
            for capacity in ["2", "64"] {
                let args = ["--producers", producers, "--message-size", message_size, "--capacity", capacity];
                let document = pump(&args)
                    .args(["--messages", "301", "--verify", "--json"])
                    .args(["--batch-bytes", "1KiB", "--in-flight", "3"])
                    .done()
                    .code(0)
                    .json();
                assert_eq!((count(&document, "verified"), count(&document, "delivered")), (301, 301));
                assert_eq!(count(&document, "corrupt"), 0);
                assert_eq!(count(&document, "bytes"), 301 * message_size.parse::<u64>().unwrap());
                assert_eq!(document["stopped_by"], "messages", "{args:?}");
            }
        }
    }
}

#[test]
fn generated_messages_can_be_few_and_are_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = arg(folder.path().join("back"));
    for (messages, producers) in [("0", "1"), ("0", "4"), ("1", "4"), ("3", "4"), ("5", "4")] {
        let args = ["--messages", messages, "--producers", producers, "--message-size", "100", "--json"];
        let document = pump(&args).args(["--read-back", &path]).done().code(0).json();
        let messages: u64 = messages.parse().unwrap();
        assert_eq!((count(&document, "accepted"), &document["stopped_by"]), (messages, &"messages".into()));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), messages * 100);
        assert!(document["verified"].is_null(), "nobody asked");
    }
}

/// What goes in has to come out: from a file and from the standard input, into a file and to the standard output.
#[track_caller]
fn there_and_back(folder: &Path, args: &[&str], bytes: &[u8], messages: u64) {
    let [from, to] = ["from", "to"].map(|name| arg(folder.join(name)));
    std::fs::write(&from, bytes).unwrap();
    let check = |document: &Value| {
        assert_eq!(count(document, "accepted"), messages, "{args:?} {document}");
        assert_eq!((count(document, "verified"), count(document, "corrupt")), (messages, 0), "{args:?}");
        assert_eq!(document["stopped_by"], "end", "{args:?}");
    };
    let run = |source: &[&str]| {
        pump(source).args(args).args(["--verify", "--json", "--capacity", "4", "--batch-bytes", "40"])
    };
    for source in [&from, "-"] {
        let run = || {
            let run = run(&["--from", source]);
            if source == "-" { run.input(bytes) } else { run }
        };
        let done = run().args(["--read-back", "-"]).done().code(0);
        assert_same(&done.stdout, bytes, &done.what);
        check(&done.json_of_stderr());

        // An older and longer file is replaced.
        std::fs::write(&to, vec![b'x'; bytes.len() + 1]).unwrap();
        let done = run().args(["--read-back", &to]).done().code(0);
        assert_same(&std::fs::read(&to).unwrap(), bytes, &done.what);
        check(&done.json());
    }
}

#[test]
fn streams_of_any_length() {
    let folder = tempfile::tempdir().unwrap();
    for len in [0, 1, 2, 15, 16, 17, 31, 32, 33, 1000, 1600] {
        let bytes = noise(len);
        for framing in [&["--message-size", "16"][..], &["--message-size", "16", "--framing", "stream"]] {
            there_and_back(folder.path(), framing, &bytes, len.div_ceil(16) as u64);
        }
        there_and_back(folder.path(), &["--message-size", "1"], &bytes, len as u64);
    }
    // The default size; zeros are bytes like others.
    there_and_back(folder.path(), &[], &[0; 5000], 20);
}

#[test]
fn whole_messages() {
    let folder = tempfile::tempdir().unwrap();
    for messages in [0, 1, 2, 3, 4, 5, 100] {
        let bytes = noise(messages * 24);
        let args = ["--framing", "fixed", "--message-size", "24"];
        there_and_back(folder.path(), &args, &bytes, messages as u64);
    }
    there_and_back(folder.path(), &["--framing", "fixed", "--message-size", "1"], b"\0\n\xff", 3);
}

#[test]
fn lines_of_any_kind() {
    let folder = tempfile::tempdir().unwrap();
    let many = (0..200).map(|number| "x".repeat(number % 17)).collect::<Vec<_>>().join("\n") + "\n";
    for (text, messages) in [
        ("", 0),
        ("\n", 1),
        ("\n\n\n\n\n", 5),
        ("a", 1),
        ("a\n", 1),
        ("a\nb", 2),
        ("a\nb\n", 2),
        ("\na", 2),
        ("\n\na\n\n", 4),
        ("\r", 1),
        ("one\r\ntwo\r\n", 2),
        ("one\r\ntwo\r", 2),
        ("zero\0zero\n\0\n\0", 3),
        ("fifteen bytes..\n", 1),
        ("sixteen bytes ..\nsixteen bytes ..", 2),
        (&many, 200),
        (many.trim_end(), 200),
    ] {
        let args = ["--framing", "lines", "--message-size", "16"];
        there_and_back(folder.path(), &args, text.as_bytes(), messages);
    }
    let bytes = [0xFF, 0xFE, b'\n', 0x80];
    there_and_back(folder.path(), &["--framing", "lines"], &bytes, 2);
}

/// The payloads as a file, with a length before each.
fn with_lengths(framing: &str, payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for payload in payloads {
        let length = u32::try_from(payload.len()).unwrap();
        let header = if framing == "u32le" { length.to_le_bytes() } else { length.to_be_bytes() };
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(payload);
    }
    bytes
}

#[test]
fn messages_with_their_lengths() {
    let folder = tempfile::tempdir().unwrap();
    let sets: [&[usize]; 7] =
        [&[], &[0], &[0, 0, 0, 0, 0], &[1], &[15, 16, 0, 1], &[16; 50], &[0, 16, 0, 16, 0]];
    for framing in ["u32le", "u32be"] {
        for lengths in sets {
            let payloads: Vec<_> = lengths.iter().map(|&length| noise(length)).collect();
            let bytes = with_lengths(framing, &payloads);
            let args = ["--framing", framing, "--message-size", "16"];
            there_and_back(folder.path(), &args, &bytes, lengths.len() as u64);
        }
    }
}

#[test]
fn framings_come_back_from_opencl_too() {
    if !opencl_or_skip("pump_sources::framings_come_back_from_opencl_too") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let payloads = [0, 1, 15, 16, 0, 7].map(noise);
    let lengths = |framing| with_lengths(framing, &payloads);
    for (framing, bytes, messages) in [
        ("stream", noise(1001), 63),
        ("fixed", noise(1600), 100),
        ("lines", b"\none\r\n\ntwo".to_vec(), 4),
        ("u32le", lengths("u32le"), 6),
        ("u32be", lengths("u32be"), 6),
    ] {
        let args = ["--to", "opencl", "--framing", framing, "--message-size", "16"];
        there_and_back(folder.path(), &args, &bytes, messages);
    }
}

/// Fails with an error that has each of `words`, after what came before has been delivered to the last byte.
#[track_caller]
fn broken(args: &[&str], input: &[u8], before: &[u8], words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let to = arg(folder.path().join("to"));
    let run = || pump(&["--from", "-", "--message-size", "16", "--read-back", &to]).args(args).input(input);
    let document = run().args(["--json", "--verify"]).done().code(1).json();
    assert_eq!((&document["error"]["kind"], &document["stopped_by"]), (&"source".into(), &"error".into()));
    assert_eq!(count(&document, "accepted"), count(&document, "delivered"), "{document}");
    assert_eq!(count(&document, "corrupt"), 0, "{document}");
    let message = document["error"]["message"].as_str().unwrap();
    for word in words {
        assert!(message.contains(word), "no {word} in {message}");
    }
    assert!(document["error"]["fix"].is_string(), "{document}");
    assert_same(&std::fs::read(&to).unwrap(), before, message);
    // In words the same, and the numbers of what came before.
    let done = run().done().code(1);
    assert!(done.stderr.contains(message) && done.text().contains("accepted"), "{}", done.stderr);
}

#[test]
fn a_partial_message_at_the_end_is_named() {
    let input = noise(40);
    let words = ["message 3", "offset 32", "8 of 16 bytes"];
    broken(&["--framing", "fixed"], &input, &input[..32], &words);
    broken(&["--framing", "fixed"], b"x", b"", &["message 1", "offset 0", "1 of 16 bytes"]);
    for framing in ["u32le", "u32be"] {
        let whole = with_lengths(framing, &[noise(3), noise(0)]);
        let cut = |rest: usize| [&whole[..], &with_lengths(framing, &[noise(9)])[..rest]].concat();
        for header in 1..4 {
            let there = format!("{header} of 4 bytes");
            broken(&["--framing", framing], &cut(header), &whole, &["message 3", "offset 11", &there]);
        }
        for rest in [4, 5, 12] {
            let there = format!("{rest} of 13 bytes");
            broken(&["--framing", framing], &cut(rest), &whole, &["message 3", "offset 11", &there]);
        }
    }
}

#[test]
fn a_message_that_is_too_long_is_named() {
    let (kept, long) = ("one\n\ntwo\n", "x".repeat(17));
    let words = ["message 4", "offset 9", "17 bytes", "at most 16"];
    for rest in ["", "\n", "\nmore\n"] {
        broken(&["--framing", "lines"], format!("{kept}{long}{rest}").as_bytes(), kept.as_bytes(), &words);
    }
    // Longer than what is read at once.
    let long = "x".repeat(3_000_000);
    broken(&["--framing", "lines"], long.as_bytes(), b"", &["message 1", "offset 0", "3000000 bytes"]);
    for (framing, header) in [("u32le", 17u32.to_le_bytes()), ("u32be", 17u32.to_be_bytes())] {
        let whole = with_lengths(framing, &[noise(16)]);
        let input = [&whole[..], &header, &noise(17)].concat();
        broken(
            &["--framing", framing],
            &input,
            &whole,
            &["message 2", "offset 20", "17 bytes", "at most 16"],
        );
        let input = [&whole[..], &[0xFF; 4]].concat();
        broken(&["--framing", framing], &input, &whole, &["message 2", "4294967295 bytes"]);
    }
}

#[test]
fn input_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| arg(folder.path().join(name));
    std::os::unix::fs::symlink("loop", path("loop")).unwrap();
    let unreadable = |from: &str, done: Done, word: &str| {
        let document = done.code(1).json();
        assert_eq!((&document["error"]["kind"], count(&document, "accepted")), (&"source".into(), 0));
        let message = document["error"]["message"].as_str().unwrap();
        assert!(message.contains(from) && message.contains(word), "{message}");
        assert!(document["error"]["fix"].is_string(), "{document}");
    };
    for (from, word) in [
        (path("missing"), "No such file"),
        (path("missing/file"), "No such file"),
        (arg(folder.path()), "directory"),
        (path("loop"), "symbolic links"),
    ] {
        unreadable(&from, pump(&["--json", "--from", &from]).done(), word);
    }
    unreadable("", pump(&["--json", "--from="]).done(), "No such file");
    let directory = std::fs::File::open(folder.path()).unwrap();
    let done = pump(&["--json", "--from", "-"]).input_from(directory).done();
    unreadable("standard input", done, "directory");
}

#[test]
fn input_that_one_may_not_read_is_named() {
    let Some(nobody) = common::privilege::Nobody::new() else {
        skip("pump_sources::input_that_one_may_not_read_is_named", common::privilege::WHY);
        return;
    };
    let path = nobody.folder.path().join("secret");
    std::fs::write(&path, "secret").unwrap();
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
    std::fs::set_permissions(&path, mode).unwrap();
    let document = nobody.pump(&[], &["--json", "--from", "secret"]).done().code(1).json();
    let message = document["error"]["message"].as_str().unwrap();
    assert!(message.contains("secret: Permission denied"), "{message}");
    // Nor may it write here.
    let document =
        nobody.pump(&[], &["--json", "--read-back", "back", "--messages", "1"]).done().code(1).json();
    let message = document["error"]["message"].as_str().unwrap();
    assert!(message.contains("back: Permission denied"), "{message}");
    assert_eq!(document["error"]["kind"], "write");
}

#[test]
fn a_number_of_messages_ends_the_input_early() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| arg(folder.path().join(name)));
    let lines = b"a\n\nbc\nd";
    let bytes = noise(1000);
    for (args, input, messages, expected) in [
        (&["--message-size", "16"][..], &bytes[..], "3", &bytes[..48]),
        (&["--message-size", "16"], &bytes, "0", b""),
        (&["--message-size", "10", "--framing", "fixed"], &bytes, "99", &bytes[..990]),
        // The partial message behind the last one is not reached.
        (&["--message-size", "16", "--framing", "fixed"], &bytes, "62", &bytes[..992]),
        (&["--framing", "lines"], lines, "1", b"a\n"),
        (&["--framing", "lines"], lines, "3", b"a\n\nbc\n"),
        (&["--framing", "lines"], lines, "4", b"a\n\nbc\nd"),
    ] {
        std::fs::write(&from, input).unwrap();
        let done = pump(&["--from", &from, "--read-back", &to, "--messages", messages, "--json"]).args(args);
        let document = done.done().code(0).json();
        assert_eq!(document["stopped_by"], "messages", "{args:?}");
        assert_eq!(count(&document, "delivered").to_string(), messages);
        assert_same(&std::fs::read(&to).unwrap(), expected, "read back");
    }
    // More than there are: the input's end comes first.
    let run = pump(&["--from", &from, "--framing", "lines", "--messages", "5", "--json"]);
    assert_eq!(run.done().code(0).json()["stopped_by"], "end");
}

#[test]
fn a_number_of_messages_ends_an_input_that_stays_open() {
    let mut running =
        pump(&["--from", "-", "--framing", "lines", "--messages", "2", "--json"]).open_input().start();
    let mut input = running.child.stdin.take().unwrap();
    input.write_all(b"one\ntwo\n").unwrap();
    let document = running.done().code(0).json();
    assert_eq!((count(&document, "delivered"), &document["stopped_by"]), (2, &"messages".into()));
    drop(input);
}

/// A writer and a reader that take turns.
struct Talk {
    input: ChildStdin,
    output: Receiver<u8>,
}

impl Talk {
    fn say(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).expect("it reads");
    }

    fn hear(&self, expected: &[u8]) {
        let heard: Vec<u8> =
            expected.iter().map_while(|_| self.output.recv_timeout(Duration::from_secs(30)).ok()).collect();
        assert_eq!(heard, expected, "while the input stays open");
    }
}

/// What is read back comes while the input goes on, not only at its end.
#[test]
fn slow_input_is_delivered_as_it_comes() {
    for (framing, turns) in [
        ("lines", [&b"one\n"[..], b"\n", b"three\n"]),
        ("fixed", [b"abcd", b"\0\0\0\0", b"efgh"]),
        ("u32le", [b"\x01\0\0\0a", b"\0\0\0\0", b"\x02\0\0\0bc"]),
        ("stream", [b"abcd", b"efgh", b"ijkl"]),
    ] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut running =
            pump(&["--from", "-", "--read-back", "-", "--json", "--batch-delay", "2ms", "--verify"])
                .args(["--framing", framing, "--message-size", if framing == "lines" { "16" } else { "4" }])
                .open_input()
                .output_to(writer)
                .start();
        let (send, output) = channel();
        thread::spawn(move || {
            let mut byte = [0];
            while reader.read(&mut byte).is_ok_and(|read| read > 0) && send.send(byte[0]).is_ok() {}
        });
        let mut talk = Talk { input: running.child.stdin.take().unwrap(), output };
        for turn in turns {
            // In pieces, with pauses between them, of which none is the end.
            for byte in turn {
                talk.say(&[*byte]);
            }
            thread::sleep(Duration::from_millis(5));
            talk.hear(turn);
        }
        drop(talk);
        let document = running.done().code(0).json_of_stderr();
        assert_eq!((count(&document, "verified"), count(&document, "corrupt")), (3, 0), "{framing}");
        // Each was on its way before the next was there.
        assert_eq!(document["batch_messages"]["max"], 1, "{framing}");
    }
}

/// The end of a batch's delay sends it off; without that it waits for more.
#[test]
fn a_long_delay_gathers_what_comes_slowly() {
    let mut running = pump(&["--from", "-", "--framing", "lines", "--json", "--batch-delay", "1h"])
        .args(["--duration", "10m"])
        .open_input()
        .start();
    running.pumps();
    let mut input = running.child.stdin.take().unwrap();
    for line in ["one\n", "two\n", "three\n"] {
        input.write_all(line.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    drop(input);
    let document = running.done().code(0).json();
    assert_eq!((count(&document, "delivered"), &document["batch_messages"]["max"]), (3, &3.into()));
    assert_eq!(document["stopped_by"], "end");
}

#[test]
fn a_named_pipe_is_a_file_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    for path in [&from, &to] {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    let bytes = noise(300_000);
    let running = pump(&["--json", "--verify"])
        .args([&arg("--from"), &arg(&from), &arg("--read-back"), &arg(&to)])
        .start();
    let reader = thread::spawn(move || std::fs::read(to).unwrap());
    std::fs::write(&from, &bytes).unwrap();
    let document = running.done().code(0).json();
    assert_eq!((count(&document, "corrupt"), &document["stopped_by"]), (0, &"end".into()));
    assert_same(&reader.join().unwrap(), &bytes, "read back");
}

#[test]
fn input_without_an_end_is_ended_by_time() {
    for framing in ["stream", "fixed", "lines", "u32le"] {
        // As lines, zeros are one that never ends; as lengths, empty messages.
        let run = pump(&["--from", "/dev/zero", "--framing", framing, "--duration", "100ms", "--json"]);
        assert_eq!(run.done().code(0).json()["stopped_by"], "duration", "{framing}");
    }
}

#[test]
fn a_closed_standard_input_is_an_empty_one() {
    let done = common::shell("exec $TRANSLOAD pump --to host --from - --json <&-").done().code(0);
    assert_eq!(count(&done.json(), "accepted"), 0);
}

#[test]
fn messages_larger_than_a_batch() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = noise(1_000_001);
    let [from, to] = ["from", "to"].map(|name| arg(folder.path().join(name)));
    std::fs::write(&from, &bytes).unwrap();
    for in_flight in ["1", "64"] {
        let run = pump(&["--from", &from, "--read-back", &to, "--message-size", "100000", "--capacity", "2"]);
        let run = run.args(["--batch-bytes", "1", "--in-flight", in_flight, "--verify", "--json"]);
        let document = run.done().code(0).json();
        assert_eq!((count(&document, "verified"), &document["batch_messages"]["max"]), (11, &1.into()));
        assert_same(&std::fs::read(&to).unwrap(), &bytes, "read back");
    }
}

/// Nothing is left behind that the next one would stumble over.
#[test]
fn a_killed_pump_has_written_what_it_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let to = arg(folder.path().join("to"));
    let mut running = pump(&["--from", "-", "--framing", "lines", "--read-back", &to]).open_input().start();
    running.child.stdin.as_mut().unwrap().write_all(b"one\ntwo\n").unwrap();
    common::wait_until("both lines", || std::fs::read(&to).is_ok_and(|bytes| bytes == b"one\ntwo\n"));
    running.signal(Signal::KILL);
    assert!(running.done().status.code().is_none());
    let document = pump(&["--from", &to, "--framing", "lines", "--verify", "--json"]).done().code(0).json();
    assert_eq!(count(&document, "verified"), 2);
}
