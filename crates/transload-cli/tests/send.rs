//! `transload send`: what it sends is what arrives, whatever the source, the framing and the back end.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

mod common;

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::Path;

use common::listening::backends;
use common::receiver::{Receiver, listen};
use common::{Done, Run, arg, assert_same, count, noise, transload};
use serde_json::Value;

fn send(to: &str, args: &[&str]) -> Run {
    transload(["send", "--to", to]).args(args)
}

/// The document, whose fields are checked.
fn report(done: &Done) -> Value {
    common::send_document::parse(done.text())
}

fn pattern_of(number: u64, size: usize) -> Vec<u8> {
    let words = (0..size.div_ceil(8) as u64).map(|index| {
        let mixed = (number ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if index == 0 { number } else { mixed ^ (mixed >> 32) }
    });
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(size);
    bytes
}

#[test]
fn generated_messages_of_each_framing_on_each_back_end() {
    const MESSAGES: u64 = 1001;
    for &io in backends() {
        for zero_copy in ["auto", "on", "off"] {
            for (framing, size) in [
                ("stream", 24_usize),
                ("fixed", 4097),
                ("u32le", 1),
                ("u32be", 300),
                ("lines", 33),
                ("lines", 700),
            ] {
                let receiver = Receiver::tcp(1);
                let args = ["--framing", framing, "--message-size", &size.to_string(), "--json"];
                let done = send(&receiver.address, &args)
                    .args(["--io", io, "--zero-copy", zero_copy, "--messages", &MESSAGES.to_string()])
                    .done()
                    .code(0)
                    .quiet();
                let mut expected = Vec::new();
                // A byte holds the number of a message up to 255.
                let stamp = |number: u64| if size == 1 { number & 0xFF } else { number };
                for number in 0..MESSAGES {
                    let length = u32::try_from(size).unwrap();
                    match framing {
                        "u32le" => expected.extend_from_slice(&length.to_le_bytes()),
                        "u32be" => expected.extend_from_slice(&length.to_be_bytes()),
                        _ => {}
                    }
                    if framing == "lines" {
                        let bytes = pattern_of(number, size.div_ceil(2));
                        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
                        let digits = digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]);
                        expected.extend(digits.take(size));
                        expected.push(b'\n');
                    } else {
                        expected.extend_from_slice(&pattern_of(stamp(number), size));
                    }
                }
                assert_same(&receiver.one(), &expected, &done.what);
                let document = report(&done);
                assert_eq!(count(&document, "bytes"), expected.len() as u64, "{}", done.what);
                assert_eq!(count(&document, "messages"), MESSAGES);
                assert_eq!(
                    (&document["stopped_by"], &document["io"]["backend"]),
                    (&"messages".into(), &io.into())
                );
            }
        }
    }
}

#[test]
fn connections_share_the_messages() {
    for &io in backends() {
        for connections in [2, 7, 40] {
            let receiver = Receiver::tcp(connections);
            let args =
                ["--connections", &connections.to_string(), "--messages", "1000", "--json", "--io", io];
            let done = send(&receiver.address, &args).done().code(0);
            let document = report(&done);
            assert_eq!(count(&document, "connections"), connections as u64);
            assert_eq!((count(&document, "messages"), count(&document, "bytes")), (1000, 256_000));
            let bits = usize::BITS - (connections - 1).leading_zeros();
            let mut lens = Vec::new();
            for (producer, bytes) in receiver.all().into_iter().enumerate() {
                for (number, message) in bytes.chunks(256).enumerate() {
                    let stamp = (number << bits | producer) as u64;
                    assert_same(message, &pattern_of(stamp, 256), &done.what);
                }
                lens.push(bytes.len());
            }
            assert_eq!(lens.iter().sum::<usize>(), 256_000);
            assert!(lens.iter().max().unwrap() - lens.iter().min().unwrap() <= 256, "{lens:?}");
        }
    }
}

/// Sends the same bytes as a file, as a file on the standard input, and through a pipe.
fn as_they_are(folder: &Path, args: &[&str], bytes: &[u8], messages: Option<u64>) {
    let path = folder.join("from");
    fs::write(&path, bytes).unwrap();
    for &io in backends() {
        for source in ["file", "opened", "pipe"] {
            let receiver = Receiver::tcp(1);
            let run = match source {
                "file" => send(&receiver.address, &["--from", &arg(&path)]),
                "opened" => send(&receiver.address, &["--from", "-"]).input_from(File::open(&path).unwrap()),
                _ => send(&receiver.address, &["--from", "-"]).input(bytes),
            };
            let done = run.args(args).args(["--io", io, "--json"]).done().code(0);
            assert_same(&receiver.one(), bytes, &done.what);
            let document = report(&done);
            assert_eq!(count(&document, "bytes"), bytes.len() as u64, "{}", done.what);
            assert_eq!(document["messages"].as_u64(), messages, "{}", done.what);
            assert_eq!(document["stopped_by"], "end");
        }
    }
}

#[test]
fn bytes_of_any_length_go_out_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    for len in [0, 1, 2, 4095, 4096, 4097, 262_144, 262_145, 1 << 20] {
        as_they_are(folder.path(), &[], &noise(len), None);
    }
    // More than the pool has, in buffers of an odd size, and one buffer alone for reads and sends in turn.
    as_they_are(folder.path(), &[], &noise(9 << 20), None);
    for buffers in ["1", "2", "3"] {
        let args = ["--pool-buffers", buffers, "--buffer-size", "1001", "--zero-copy", "on"];
        as_they_are(folder.path(), &args, &noise(30_000), None);
    }
}

#[test]
fn framed_input_is_counted_and_goes_out_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "\n".repeat(3) + &"x".repeat(256) + "\nlast";
    let mut prefixed = Vec::new();
    for size in [0_usize, 1, 256, 7] {
        prefixed.extend_from_slice(&u32::try_from(size).unwrap().to_be_bytes());
        prefixed.extend_from_slice(&noise(size));
    }
    for buffer in ["1", "5", "64KiB"] {
        let with = |framing| ["--framing", framing, "--buffer-size", buffer];
        as_they_are(folder.path(), &with("lines"), lines.as_bytes(), Some(5));
        as_they_are(folder.path(), &with("fixed"), &noise(256 * 3), Some(3));
        as_they_are(folder.path(), &with("u32be"), &prefixed, Some(4));
        as_they_are(folder.path(), &with("u32le"), b"", Some(0));
    }
}

#[test]
fn so_many_messages_of_a_longer_input() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("from");
    fs::write(&path, "one\ntwo\nthree\n").unwrap();
    for (messages, expected) in [("0", ""), ("1", "one\n"), ("2", "one\ntwo\n"), ("9", "one\ntwo\nthree\n")] {
        for buffer_size in ["1", "5", "64KiB"] {
            let receiver = Receiver::tcp(1);
            let args = ["--framing", "lines", "--messages", messages, "--buffer-size", buffer_size, "--json"];
            let mut opened = File::open(&path).unwrap();
            let input = opened.try_clone().unwrap();
            let run = send(&receiver.address, &args).args(["--from", "-"]).input_from(input);
            let document = report(&run.done().code(0));
            assert_same(&receiver.one(), expected.as_bytes(), messages);
            let by = if messages == "9" { "end" } else { "messages" };
            assert_eq!(document["stopped_by"], by);
            // Who reads the same file next goes on behind it.
            assert_eq!(opened.stream_position().unwrap(), expected.len() as u64);
        }
    }
}

#[test]
fn an_opened_file_is_sent_from_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("from");
    fs::write(&path, "head and the rest").unwrap();
    let mut file = File::open(&path).unwrap();
    file.read_exact(&mut [0; 5]).unwrap();
    let receiver = Receiver::tcp(1);
    send(&receiver.address, &["--from", "-"]).input_from(file).done().code(0);
    assert_same(&receiver.one(), b"and the rest", "the rest");
}

#[test]
fn what_comes_is_sent_when_it_comes() {
    for &io in backends() {
        let (listener, address) = listen();
        let mut running = send(&address, &["--from", "-", "--io", io, "--json"]).open_input().start();
        let (mut peer, _) = listener.accept().unwrap();
        let mut input = running.child.stdin.take().unwrap();
        for text in ["a", "bc", "def"] {
            input.write_all(text.as_bytes()).unwrap();
            let mut got = vec![0; text.len()];
            peer.read_exact(&mut got).unwrap();
            assert_eq!(got, text.as_bytes());
        }
        drop(input);
        assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0, "the end of the input is the end of the stream");
        let document = report(&running.done().code(0));
        assert_eq!((count(&document, "bytes"), count(&document, "sends")), (6, 3));
    }
}

#[test]
fn sockets_of_unix() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = noise(3 << 20);
    let from = folder.path().join("from");
    fs::write(&from, &bytes).unwrap();
    for &io in backends() {
        for zero_copy in ["auto", "on", "off"] {
            let path = folder.path().join(format!("{io}-{zero_copy}"));
            let receiver = Receiver::unix(&path);
            let args = ["--from", &arg(&from), "--io", io, "--zero-copy", zero_copy, "--json"];
            let done = send(&receiver.address, &args).done().code(0);
            assert_same(&receiver.one(), &bytes, &done.what);
            let document = report(&done);
            assert_eq!(count(&document, "bytes"), bytes.len() as u64);
            assert_eq!(count(&document, "zero_copied"), 0, "{document}");
            let refused = count(&document, "zero_copy_refused");
            assert_eq!(refused > 0, io == "uring" && zero_copy != "off", "{document}");
        }
    }
}

#[test]
fn named_pipes_and_devices() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let receiver = Receiver::tcp(1);
    let running = send(&receiver.address, &["--from", &arg(&path), "--json"]).start();
    fs::write(&path, noise(200_000)).unwrap();
    assert_eq!(count(&report(&running.done().code(0)), "bytes"), 200_000);
    assert_same(&receiver.one(), &noise(200_000), "through the pipe");

    let receiver = Receiver::tcp(1);
    let args = ["--from", "/dev/zero", "--framing", "fixed", "--message-size", "1KiB", "--messages", "5000"];
    send(&receiver.address, &args).done().code(0);
    assert_same(&receiver.one(), &vec![0; 5000 * 1024], "of the device");
}

#[test]
fn zero_copy_on_the_loop_back_device_is_remarked_on() {
    let receiver = Receiver::tcp(1);
    let io = *backends().last().unwrap();
    let args = ["--messages", "100000", "--zero-copy", "on", "--json", "--io", io];
    let document = report(&send(&receiver.address, &args).done().code(0));
    assert_eq!(receiver.one().len(), 25_600_000);
    let remark = document["remark"].as_str().unwrap();
    if io == "uring" {
        assert!(count(&document, "copied") > 0, "{document}");
        assert!(remark.contains("loop-back"), "{remark}");
    } else {
        assert!(remark.contains("io_uring"), "{remark}");
    }
}

#[test]
fn the_report_in_words() {
    let receiver = Receiver::tcp(1);
    let done = send(&receiver.address, &["--messages", "1000"]).done().code(0).quiet();
    let text = done.text();
    for words in [
        "to           tcp:127.0.0.1:",
        "1 connection",
        "io           ",
        "memory       16 buffers of 256.00 KiB",
    ] {
        assert!(text.contains(words), "{text}");
    }
    assert!(text.contains("sent         256000 bytes, 1000 messages\n"), "{text}");
    let receiver = Receiver::tcp(1);
    assert_eq!(send(&receiver.address, &["--messages", "1000", "-q"]).done().code(0).text(), "");
    assert_eq!(receiver.one().len(), 256_000);
}

#[test]
fn nothing_is_said_of_a_socket_that_copies() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    let bytes = noise(5_000_000);
    fs::write(&from, &bytes).unwrap();
    for zero_copy in ["auto", "on"] {
        // Unix sockets refuse to send without a copy, whatever else waits behind such a send.
        let receiver = Receiver::unix(&folder.path().join(zero_copy));
        send(&receiver.address, &["--from", &arg(&from), "--zero-copy", zero_copy, "--quiet"])
            .done()
            .code(0)
            .quiet();
        assert_same(&receiver.one(), &bytes, zero_copy);
    }
}
