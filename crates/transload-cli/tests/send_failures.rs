//! `transload send` when something is in the way: peers that are slow, gone or never there, limits, filters, signals.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::listening::backends;
use common::receiver::{Receiver, listen};
use common::{Done, Run, arg, assert_same, count, noise, privilege, skip, transload, wait_until};
use rustix::process::Signal;
use serde_json::Value;

fn send(to: &str, args: &[&str]) -> Run {
    transload(["send", "--to", to]).args(args)
}

fn report(done: &Done) -> Value {
    common::send_document::parse(done.text())
}

/// A listener whose connections take little at once, so that sends are short.
fn narrow() -> (TcpListener, String) {
    let (listener, address) = listen();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    (listener, address)
}

#[test]
fn a_slow_reader_gets_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    let bytes = noise(5 << 20);
    fs::write(&from, &bytes).unwrap();
    for &io in backends() {
        for zero_copy in ["on", "off"] {
            for buffers in ["1", "16"] {
                let (listener, address) = narrow();
                let args =
                    ["--from", &arg(&from), "--buffer-size", "1MiB", "--pool-buffers", buffers, "--json"];
                let running = send(&address, &args).args(["--io", io, "--zero-copy", zero_copy]).start();
                let (mut peer, _) = listener.accept().unwrap();
                let mut got = Vec::new();
                let mut part = vec![0; 100_000];
                loop {
                    if got.len() < 500_000 {
                        thread::sleep(Duration::from_millis(5));
                    }
                    match peer.read(&mut part).unwrap() {
                        0 => break,
                        len => got.extend_from_slice(&part[..len]),
                    }
                }
                let done = running.done().code(0);
                assert_same(&got, &bytes, &done.what);
                let document = report(&done);
                assert_eq!(count(&document, "bytes"), bytes.len() as u64);
                // The kernel may go on with a send by itself; readiness is told to.
                assert!(io == "uring" || count(&document, "short_sends") > 0, "{document}");
            }
        }
    }
}

#[test]
fn a_reader_that_pauses_gets_every_byte_of_a_pipe() {
    let bytes = noise(8 << 20);
    for &io in backends() {
        let (listener, address) = narrow();
        let args = ["--from", "-", "--buffer-size", "16KiB", "--pool-buffers", "4", "--json"];
        let running = send(&address, &args).args(["--io", io]).input(&bytes[..]).start();
        let (mut peer, _) = listener.accept().unwrap();
        // Longer than the reading thread waits for a buffer at a time.
        thread::sleep(Duration::from_millis(200));
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        let done = running.done().code(0);
        assert_same(&got, &bytes, &done.what);
    }
}

#[test]
fn a_peer_that_goes_is_an_error_with_what_was_sent() {
    for &io in backends() {
        for zero_copy in ["on", "off"] {
            for way in ["closed", "reset"] {
                let (listener, address) = listen();
                let args = ["--duration", "1m", "--io", io, "--zero-copy", zero_copy, "--json"];
                let running = send(&address, &args).start();
                let (mut peer, _) = listener.accept().unwrap();
                peer.read_exact(&mut vec![0; 100_000]).unwrap();
                if way == "reset" {
                    let at_once = Some(Duration::ZERO);
                    rustix::net::sockopt::set_socket_linger(&peer, at_once).unwrap();
                }
                drop(peer);
                let done = running.done().code(1);
                let document = report(&done);
                let error = &document["error"];
                assert_eq!((&error["kind"], &document["stopped_by"]), (&"peer".into(), &"error".into()));
                let message = error["message"].as_str().unwrap();
                let bytes = count(&document, "bytes");
                assert!(bytes >= 100_000, "{document}");
                assert!(message.ends_with(&format!("; {bytes} bytes were sent before")), "{message}");
                assert!(message.contains(&address) && message.contains("closed the connection"), "{message}");
            }
        }
    }
}

#[test]
fn one_peer_of_several_that_goes_stops_all() {
    for &io in backends() {
        let (listener, address) = listen();
        let running = send(&address, &["--duration", "1m", "--connections", "3", "--io", io]).start();
        let peers: Vec<TcpStream> = (0..3).map(|_| listener.accept().unwrap().0).collect();
        let mut peers = peers.into_iter();
        drop(peers.next());
        let readers: Vec<_> =
            peers.map(|mut peer| thread::spawn(move || peer.read_to_end(&mut Vec::new()).unwrap())).collect();
        let done = running.done().code(1);
        assert!(done.stderr.contains("closed the connection"), "{}", done.stderr);
        assert!(done.stderr.contains("to do:"), "{}", done.stderr);
        for reader in readers {
            assert_eq!(reader.join().unwrap() % 256, 0, "whole messages");
        }
    }
}

#[test]
fn nobody_there() {
    let folder = tempfile::tempdir().unwrap();
    let unix = format!("unix:{}", arg(folder.path().join("none")));
    // Bound, and not listening.
    let port = {
        let (listener, address) = listen();
        drop(listener);
        address
    };
    for &io in backends() {
        let done = send(&port, &["--io", io]).done().code(1);
        assert!(done.stderr.contains("refused") && done.stderr.contains("ss -lt"), "{}", done.stderr);
        let done = send(&unix, &["--io", io]).done().code(1);
        assert!(done.stderr.contains("No such file") && done.stderr.contains("receiver"), "{}", done.stderr);
    }
    let done = send("tcp:no.such.host.invalid:9", &["--json"]).done().code(1);
    let document = report(&done);
    assert_eq!(document["error"]["kind"], "connect");
    assert!(document["error"]["message"].as_str().unwrap().contains("no.such.host.invalid"), "{document}");
}

#[test]
fn input_that_is_none() {
    let folder = tempfile::tempdir().unwrap();
    for (from, words) in
        [(arg(folder.path().join("none")), "No such file"), (arg(folder.path()), "directory")]
    {
        // Before anybody is connected to.
        let done = send("tcp:127.0.0.1:1", &["--from", &from]).done().code(1);
        assert!(done.stderr.contains(words) && done.stderr.contains("to do:"), "{}", done.stderr);
    }
}

#[test]
fn input_that_is_not_framed_as_it_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    let input = |bytes: &[u8]| {
        fs::write(&from, bytes).unwrap();
        arg(&from)
    };
    // Of a file the length is known before.
    let args = ["--from", &input(b"abcdefg"), "--framing", "fixed", "--message-size", "3"];
    let done = send("tcp:127.0.0.1:1", &args).done().code(1);
    assert!(done.stderr.contains("2 messages of 3 and 1 bytes more"), "{}", done.stderr);

    for (framing, bytes, sent, words) in [
        ("fixed", &b"abcdefg"[..], &b"abcdefg"[..], "message 3, which begins at offset 6: 1 of 3 bytes"),
        ("lines", b"a\nbcde\nf", b"a\n", "message 2, at offset 2, has 4 bytes"),
        ("u32be", b"\0\0\0\x01a\0\0\0\x04abcd", b"\0\0\0\x01a", "message 2, at offset 5, has 4 bytes"),
        ("u32le", b"\x01\0\0\0a\x03\0\0\0a", b"\x01\0\0\0a\x03\0\0\0a", "offset 5: 5 of 7 bytes"),
    ] {
        let receiver = Receiver::tcp(1);
        let args = ["--from", "-", "--framing", framing, "--message-size", "3", "--json"];
        let document = report(&send(&receiver.address, &args).input(bytes).done().code(1));
        assert_same(&receiver.one(), sent, framing);
        let message = document["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
        assert!(message.ends_with(&format!("{} bytes were sent before", sent.len())), "{message}");
    }
}

#[test]
fn a_signal_stops_the_reading_and_sends_what_there_is() {
    for &io in backends() {
        for signal in [Signal::INT, Signal::TERM] {
            // Generated, without end.
            let receiver = Receiver::tcp(1);
            let running = send(&receiver.address, &["--duration", "10m", "--io", io, "--json"]).start();
            wait_until("signals are caught", || running.has_thread("transload-signa"));
            thread::sleep(Duration::from_millis(50));
            running.signal(signal);
            let document = report(&running.done().code(0));
            assert_eq!(document["stopped_by"], "signal");
            assert_eq!(receiver.one().len() as u64, count(&document, "bytes"));

            // An input without an end.
            let (listener, address) = listen();
            let mut running = send(&address, &["--from", "-", "--io", io, "--json"]).open_input().start();
            let mut input = running.child.stdin.take().unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            input.write_all(b"some").unwrap();
            peer.read_exact(&mut [0; 4]).unwrap();
            running.signal(signal);
            let mut rest = Vec::new();
            peer.read_to_end(&mut rest).unwrap();
            let document = report(&running.done().code(0));
            assert_eq!((&document["stopped_by"], count(&document, "bytes")), (&"signal".into(), 4));
            drop(input);
        }
    }
}

#[test]
fn a_peer_that_takes_nothing_holds_nobody_for_ever() {
    for &io in backends() {
        for zero_copy in ["on", "off"] {
            // The second signal ends it; or the time to drain.
            let (listener, address) = narrow();
            let args = ["--io", io, "--zero-copy", zero_copy, "--json"];
            let running = send(&address, &args).args(["--duration", "10m"]).start();
            let (_peer, _) = listener.accept().unwrap();
            thread::sleep(Duration::from_millis(100));
            running.signal(Signal::INT);
            thread::sleep(Duration::from_millis(100));
            running.signal(Signal::INT);
            let document = report(&running.done().code(1));
            assert_eq!(
                (&document["stopped_by"], &document["error"]["kind"]),
                (&"signal".into(), &"unsent".into())
            );

            let (listener, address) = narrow();
            let run = send(&address, &args).args(["--duration", "50ms", "--drain-timeout", "50ms"]);
            let running = run.start();
            let (_peer, _) = listener.accept().unwrap();
            let document = report(&running.done().code(1));
            assert_eq!(document["stopped_by"], "duration");
            let fix = document["error"]["fix"].as_str().unwrap();
            assert!(fix.contains("--drain-timeout"), "{document}");
        }
    }
}

#[test]
fn a_signal_while_connecting_ends_it() {
    // A full backlog answers nobody.
    let (listener, address) = listen();
    let mut held = Vec::new();
    let target = listener.local_addr().unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    while let Ok(stream) = TcpStream::connect_timeout(&target, Duration::from_millis(200)) {
        held.push(stream);
        assert!(held.len() < 1000, "the backlog has no end");
    }
    for &io in backends() {
        let running = send(&address, &["--io", io, "--json"]).start();
        wait_until("signals are caught", || running.has_thread("transload-signa"));
        running.signal(Signal::INT);
        let document = report(&running.done().code(0));
        assert_eq!((&document["stopped_by"], count(&document, "connections")), (&"signal".into(), 0));
    }
}

#[test]
fn without_io_uring_it_sends_all_the_same_unless_that_was_asked_for() {
    for (errno, words) in [(libc::EPERM, "denied by policy"), (libc::ENOSYS, "no usable io_uring")] {
        let receiver = Receiver::tcp(1);
        let run = send(&receiver.address, &["--messages", "1000", "--json"]).env("TRANSLOAD_LOG", "warn");
        let done = run.without_uring(errno).done().code(0);
        assert_eq!(receiver.one().len(), 256_000);
        let document = report(&done);
        assert_eq!(document["io"]["backend"], "readiness");
        assert!(document["io"]["why"].as_str().unwrap().contains(words), "{document}");
        assert_eq!(done.stderr.matches("without io_uring").count(), 1, "{}", done.stderr);

        // At once: nobody listens there, and nobody was asked.
        let done = send("tcp:127.0.0.1:1", &["--io", "uring"]).without_uring(errno).done().code(4);
        assert!(done.stderr.contains(words) && done.stderr.contains("--io auto"), "{}", done.stderr);
        let done = send("tcp:127.0.0.1:1", &["--io", "uring", "--json"]).without_uring(errno).done().code(4);
        assert_eq!(report(&done)["error"]["kind"], "unavailable");
    }
}

/// As a user of its own, since the limit is one of all processes of a user together.
fn as_nobody(user: &str, memlock: &str, program: &str, args: &[&str]) -> Run {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", user, "--regid", user, "--clear-groups", "--inh-caps=-all"])
        .args(["--bounding-set=-all", "prlimit", &format!("--memlock={memlock}:{memlock}"), program])
        .args(args);
    Run::of(command)
}

#[test]
fn little_memory_may_be_locked() {
    let Some(nobody) = privilege::Nobody::new() else {
        skip("send_failures::little_memory_may_be_locked", privilege::WHY);
        return;
    };
    let program = arg(nobody.folder.path().join("transload"));
    for zero_copy in ["auto", "on"] {
        // Enough for the ring and not for the pool; not enough for a ring.
        for (memlock, io) in [("262144", *backends().last().unwrap()), ("4096", "readiness")] {
            let receiver = Receiver::tcp(1);
            let args = [
                "send",
                "--to",
                &receiver.address,
                "--messages",
                "20000",
                "--zero-copy",
                zero_copy,
                "--json",
            ];
            let done = as_nobody("64711", memlock, &program, &args).done().code(0);
            assert_eq!(receiver.one().len(), 5_120_000);
            let document = report(&done);
            assert_eq!(document["io"]["backend"], io, "{document}");
            assert_eq!(document["memory"]["registration"], "copy", "{document}");
            assert_eq!(document["memory"]["locked"], false);
            if io == "uring" {
                let reason = document["memory"]["reason"].as_str().unwrap();
                assert!(reason.contains("262144") && reason.contains("4194304"), "{reason}");
                assert!(reason.contains("ulimit -l"), "{reason}");
            }
        }
    }
    let args = ["send", "--to", "tcp:127.0.0.1:1", "--io", "uring"];
    let done = as_nobody("64711", "4096", &program, &args).done().code(4);
    assert!(done.stderr.contains("4096 bytes") && done.stderr.contains("ulimit -l"), "{}", done.stderr);
}

#[test]
fn few_descriptors() {
    let (_listener, address) = listen();
    for &io in backends() {
        let mut command = Command::new("sh");
        let line = r#"ulimit -n 40; exec "$0" send --to "$1" --io "$2" --connections 100"#;
        command.args(["-c", line, env!("CARGO_BIN_EXE_transload"), &address, io]);
        let done = Run::of(command).done().code(1);
        assert!(done.stderr.contains("Too many open files"), "{}", done.stderr);
        assert!(done.stderr.contains("ulimit -n"), "{}", done.stderr);
    }
}

#[test]
fn a_report_that_cannot_be_written() {
    let receiver = Receiver::tcp(1);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let done = send(&receiver.address, &["--messages", "10"]).output_to(full).done().code(1);
    assert!(done.stderr.contains("No space left"), "{}", done.stderr);
    assert_eq!(receiver.one().len(), 2560, "sent all the same");
}

#[test]
fn usage() {
    let refused = |args: &[&str], words: &[&str]| {
        for json in [&[][..], &["--json"]] {
            let done = transload(["send"]).args(args).args(json).done().code(2);
            assert!(done.stdout.is_empty(), "{}", done.text());
            assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
            for word in words {
                assert!(done.stderr.contains(word), "{args:?}: no {word} in {}", done.stderr);
            }
        }
    };
    refused(&[], &["--to"]);
    for to in ["", "localhost", "udp:localhost:1", "tcp:localhost", "tcp:localhost:x", "tcp::1", "unix:"] {
        refused(&["--to", to], &["--to", "tcp:"]);
    }
    refused(&["--to", "tcp:127.0.0.1:0"], &["port 0"]);
    let with =
        |args: &[&str], words: &[&str]| refused(&[&["--to", "tcp:127.0.0.1:1"][..], args].concat(), words);
    with(&["--from", "-", "--connections", "2"], &["--connections"]);
    with(&["--from", "x", "--messages", "2"], &["--messages", "--framing"]);
    with(&["--framing", "csv"], &["stream", "fixed", "lines", "u32le", "u32be"]);
    with(&["--framing", "u32le", "--message-size", "4GiB"], &["--message-size"]);
    with(&["--message-size", "1", "--connections", "257"], &["--message-size", "connections"]);
    with(&["--pool-buffers", "65536", "--buffer-size", "1EiB"], &["--pool-buffers", "--buffer-size"]);
    with(&["--io", "epoll"], &["auto", "uring", "readiness"]);
    with(&["--zero-copy", "maybe"], &["auto", "on", "off"]);
    for (option, values) in [
        ("--connections", ["0", "1025", "x"]),
        ("--pool-buffers", ["0", "65537", "-1"]),
        ("--buffer-size", ["0", "8EiB", "x"]),
        ("--message-size", ["0", "8EiB", "x"]),
        ("--messages", ["-1", "1.5", "x"]),
        ("--duration", ["-1s", "5", "x"]),
    ] {
        for value in values {
            with(&[&format!("{option}={value}")], &[option]);
        }
    }
}

#[test]
fn sizes_beyond_memory_do_not_panic() {
    let receiver = Receiver::tcp(1);
    // A message far beyond the pool is made piece by piece.
    let args = ["--message-size", "7EiB", "--duration", "50ms", "--json"];
    let document = report(&send(&receiver.address, &args).done().code(0));
    assert_eq!(receiver.one().len() as u64, count(&document, "bytes"));
    assert_eq!((count(&document, "messages"), &document["stopped_by"]), (0, &"duration".into()));
    let done = send("tcp:127.0.0.1:1", &["--pool-buffers", "65536", "--buffer-size", "1GiB"]).done().code(1);
    assert!(done.stderr.contains("fewer --pool-buffers"), "{}", done.stderr);
}

#[test]
fn help_shows_each_option_with_its_variable() {
    let help = transload(["send", "--help"]).done().code(0);
    let text = help.text().split_whitespace().collect::<Vec<_>>().join(" ");
    for option in [
        "to",
        "from",
        "messages",
        "duration",
        "message-size",
        "framing",
        "connections",
        "zero-copy",
        "io",
        "pool-buffers",
        "buffer-size",
        "drain-timeout",
        "no-reconnect",
        "allow-uid",
        "json",
        "quiet",
    ] {
        let variable = format!("TRANSLOAD_SEND_{}", option.to_uppercase().replace('-', "_"));
        assert!(text.contains(&format!("--{option} ")), "--{option}");
        assert!(text.contains(&format!("[env: {variable}")), "{variable}");
    }
    let (_listener, to) = listen();
    let run = transload(["send"])
        .env("TRANSLOAD_SEND_TO", &to)
        .env("TRANSLOAD_SEND_MESSAGES", "3")
        .env("TRANSLOAD_SEND_JSON", "1");
    assert_eq!(count(&report(&run.done().code(0)), "messages"), 3);
}
