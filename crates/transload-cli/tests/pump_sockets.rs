//! `transload pump --from tcp:...` and `unix:...`: real sockets, both back ends.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::listening::{Listening, backends, listen, until_it_listens};
use common::{arg, assert_same, count, noise, pump, skip, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Kinds of addresses to listen on.
fn addresses(folder: &Path) -> [String; 3] {
    let path = arg(folder.join("socket"));
    ["tcp:127.0.0.1:0".to_owned(), "tcp:localhost:0".to_owned(), format!("unix:{path}")]
}

/// What one connection sends has to come out, byte for byte.
#[track_caller]
fn there_and_back(args: &[&str], bytes: &[u8], chunk_bytes: usize) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let back = arg(folder.path().join("back"));
    let mut last = Value::Null;
    for &io in backends() {
        for address in addresses(folder.path()) {
            let args =
                [&["--io", io, "--connections", "1", "--verify", "--json", "--read-back", &back], args]
                    .concat();
            let pump = listen(&address, &args);
            let mut peer = pump.connect();
            for chunk in bytes.chunks(chunk_bytes) {
                peer.write_all(chunk).unwrap();
            }
            drop(peer);
            let done = pump.done().code(0).quiet();
            assert_same(&std::fs::read(&back).unwrap(), bytes, &done.what);
            let document = done.json();
            assert_eq!(document["stopped_by"], "connections", "{}", done.what);
            assert_eq!(document["io"]["backend"], io);
            assert_eq!((count(&document, "connections"), count(&document, "bad_peers")), (1, 0));
            assert_eq!(count(&document, "verified"), count(&document, "accepted"), "{}", done.what);
            assert_eq!((count(&document, "corrupt"), count(&document, "skipped")), (0, 0));
            last = document;
        }
    }
    last
}

#[test]
fn streams_go_straight_into_slots() {
    for len in [0, 1, 255, 256, 257, 100_000] {
        let document = there_and_back(&[], &noise(len), 10_007);
        assert_eq!(count(&document, "staged_bytes"), 0);
    }
    there_and_back(&["--framing", "stream", "--message-size", "1", "--capacity", "2"], &noise(500), 7);
    there_and_back(&["--message-size", "100KiB", "--capacity", "4"], &noise(1_000_001), 300_000);
}

#[test]
fn whole_messages_go_straight_into_slots() {
    let document = there_and_back(&["--framing", "fixed"], &noise(256 * 400), 256 * 400);
    assert!(count(&document, "staged_bytes") < 256 * 40, "{document}");
    // Never whole in one piece.
    there_and_back(&["--framing", "fixed", "--message-size", "24", "--capacity", "4"], &noise(24 * 50), 7);
    there_and_back(
        &["--framing", "fixed", "--message-size", "100KiB", "--capacity", "4"],
        &noise(120 * (100 << 10)),
        9999,
    );
}

#[test]
fn lines_and_measured_messages_are_copied_once() {
    let text = (0..3000).map(|number| "x".repeat(number % 41)).collect::<Vec<_>>().join("\n");
    for text in ["", "\n", "a", "a\n", "one\n\ntwo\nthree", &text] {
        for pool_buffers in ["1", "16"] {
            let args = ["--framing", "lines", "--pool-buffers", pool_buffers];
            let document = there_and_back(&args, text.as_bytes(), 1000);
            let payload = text.bytes().filter(|&byte| byte != b'\n').count();
            assert_eq!(count(&document, "staged_bytes"), payload as u64);
        }
    }
    for (framing, big) in [("u32le", false), ("u32be", true)] {
        let mut bytes = Vec::new();
        for length in (0..500_u32).map(|number| number % 257) {
            bytes.extend_from_slice(&if big { length.to_be_bytes() } else { length.to_le_bytes() });
            bytes.extend(noise(length as usize));
        }
        for (chunk_bytes, pool_buffers) in [(7, "1"), (100_000, "16")] {
            there_and_back(&["--framing", framing, "--pool-buffers", pool_buffers], &bytes, chunk_bytes);
        }
    }
}

#[test]
fn a_hundred_megabytes_arrive_in_order() {
    let bytes = noise(100 << 20);
    let folder = tempfile::tempdir().unwrap();
    let back = arg(folder.path().join("back"));
    for &io in backends() {
        let args =
            ["--io", io, "--connections", "1", "--json", "--message-size", "1000", "--read-back", &back];
        let pump = listen("tcp:127.0.0.1:0", &args);
        pump.connect().write_all(&bytes).unwrap();
        let done = pump.done().code(0);
        assert_same(&std::fs::read(&back).unwrap(), &bytes, &done.what);
        let document = done.json();
        assert_eq!((count(&document, "staged_bytes"), count(&document, "dropped")), (0, 0));
    }
}

#[test]
fn many_connections_each_in_its_own_order() {
    const PEERS: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let back = arg(folder.path().join("back"));
    for &io in backends() {
        for framing in ["fixed", "lines", "u32le"] {
            let connections = PEERS.to_string();
            let args =
                ["--io", io, "--framing", framing, "--message-size", "8", "--connections", &connections];
            let pump = listen(
                "tcp:127.0.0.1:0",
                &[&args[..], &["--verify", "--json", "--read-back", &back]].concat(),
            );
            let peers: Vec<_> = (0..PEERS)
                .map(|peer| {
                    let mut connection = pump.connect();
                    thread::spawn(move || {
                        for number in 0..200 {
                            let text = format!("{peer:03}.{number:04}");
                            let text = match framing {
                                "lines" => text + "\n",
                                "u32le" => format!("\x08\0\0\0{text}"),
                                _ => text,
                            };
                            connection.write_all(text.as_bytes()).unwrap();
                        }
                    })
                })
                .collect();
            for peer in peers {
                peer.join().unwrap();
            }
            let document = pump.done().code(0).json();
            assert_eq!(count(&document, "accepted"), 200 * PEERS as u64);
            assert_eq!((count(&document, "connections"), count(&document, "corrupt")), (PEERS as u64, 0));
            let bytes = std::fs::read(&back).unwrap();
            let (skipped, stride) = match framing {
                "lines" => (0, 9),
                "u32le" => (4, 12),
                _ => (0, 8),
            };
            let mut next = [0; PEERS];
            for message in bytes.chunks(stride) {
                let text = std::str::from_utf8(&message[skipped..skipped + 8]).unwrap();
                let (peer, number) = text.split_once('.').unwrap();
                let peer: usize = peer.parse().unwrap();
                assert_eq!(number.parse::<usize>().unwrap(), next[peer], "{io} {framing}: peer {peer}");
                next[peer] += 1;
            }
            assert_eq!(next, [200; PEERS]);
        }
    }
}

#[test]
fn half_a_message_holds_up_nobody() {
    for &io in backends() {
        for framing in ["fixed", "u32be", "lines"] {
            let args = ["--io", io, "--framing", framing, "--message-size", "8", "--capacity", "4"];
            let pump = listen(
                "tcp:127.0.0.1:0",
                &[&args[..], &["--connections", "3", "--pool-buffers", "1", "--json"]].concat(),
            );
            let (whole, half) = match framing {
                "fixed" => (&b"wholeone"[..], &b"hal"[..]),
                "lines" => (&b"whole\n"[..], &b"hal"[..]),
                _ => (&b"\0\0\0\x05whole"[..], &b"\0\0\0\x08hal"[..]),
            };
            let mut idle = pump.connect();
            idle.write_all(half).unwrap();
            let silent = pump.connect();
            thread::sleep(Duration::from_millis(30));
            let mut busy = pump.connect();
            busy.write_all(&whole.repeat(5000)).unwrap();
            busy.end();
            // Its end is answered: all of it has been taken while the others were there.
            assert_eq!(busy.read(&mut [0; 1]).unwrap(), 0, "{io} {framing}");
            idle.write_all(if framing == "lines" { b"f\n" } else { b"fwhol" }).unwrap();
            drop((idle, silent));
            let document = pump.done().code(0).json();
            assert_eq!(count(&document, "accepted"), 5001, "{io} {framing}");
            assert_eq!((count(&document, "connections"), count(&document, "bad_peers")), (3, 0));
        }
    }
}

#[test]
fn bad_peers_are_counted_and_the_others_go_on() {
    let long = [&b"good\n"[..], &[b'x'; 100]].concat();
    let cases: [(&str, &[u8], &str, u64); 6] = [
        ("fixed", b"whole000par", "ends within message 2, which begins at offset 8: 3 of 8 bytes", 1),
        ("lines", &long, "message 2, at offset 5, has", 1),
        ("u32le", b"\x01\0\0\0a\x09\0\0\0", "message 2, at offset 5, has 9 bytes", 1),
        ("u32be", b"\0\0\0\x01a\x09\0\0\0", "has 150994944 bytes", 1),
        ("u32be", b"\0\0\0\x01a\0\0\0\x08abc", "7 of 12 bytes are there", 1),
        ("u32le", b"\x01\0\0\0a\x09\0", "2 of 4 bytes are there", 1),
    ];
    for &io in backends() {
        for (framing, bytes, why, good) in cases {
            let args =
                ["--io", io, "--framing", framing, "--message-size", "8", "--connections", "2", "--json"];
            let pump = listen("tcp:127.0.0.1:0", &args);
            let mut other = pump.connect();
            let mut bad = pump.connect();
            bad.write_all(bytes).unwrap();
            if !why.contains("has") {
                bad.end();
            }
            let address = bad.local_address();
            // It is closed: the end comes, or a reset where bytes were left.
            assert_eq!(bad.read(&mut [0; 1]).unwrap_or(0), 0);
            other
                .write_all(match framing {
                    "fixed" => b"12345678",
                    "lines" => b"1234567\n",
                    "u32le" => b"\x04\0\0\0abcd",
                    _ => b"\0\0\0\x04abcd",
                })
                .unwrap();
            drop(other);
            let done = pump.done().code(3);
            assert!(done.stderr.contains(why), "{io} {framing}: {}", done.stderr);
            assert!(done.stderr.contains(&address), "{address}: {}", done.stderr);
            assert_eq!(done.stderr.matches("WARN").count(), 1, "{}", done.stderr);
            let document = done.json();
            assert_eq!((count(&document, "accepted"), count(&document, "dropped")), (good + 1, 0));
            assert_eq!((count(&document, "connections"), count(&document, "bad_peers")), (2, 1));
            assert!(document["error"].is_null(), "{document}");
        }
    }
}

#[test]
fn a_reset_is_counted() {
    for &io in backends() {
        for framing in ["stream", "lines"] {
            let args = ["--io", io, "--framing", framing, "--connections", "1", "--json"];
            let pump = listen("tcp:127.0.0.1:0", &args);
            let address = pump.address.strip_prefix("tcp:").unwrap();
            let peer = TcpStream::connect(address).unwrap();
            rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
            thread::sleep(Duration::from_millis(30));
            drop(peer);
            let done = pump.done().code(3);
            assert!(done.stderr.contains("reset"), "{io}: {}", done.stderr);
            assert_eq!(count(&done.json(), "bad_peers"), 1);
        }
    }
}

#[test]
fn a_killed_client_ends_its_connection_only() {
    for &io in backends() {
        let args = ["--io", io, "--framing", "lines", "--connections", "2", "--json"];
        let pump = listen("tcp:127.0.0.1:0", &args);
        let mut other = pump.connect();
        // A shell would stay between, so that what is killed is not who is connected.
        let mut killed = Command::new("bash");
        let (_, port) = pump.address.rsplit_once(':').unwrap();
        killed.args([
            "-c",
            &format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo one >&3; printf tw >&3; exec sleep 60"),
        ]);
        let Ok(mut killed) = killed.stdin(Stdio::null()).spawn() else {
            skip("pump_sockets::a_killed_client_ends_its_connection_only", "no bash to be the client");
            return;
        };
        thread::sleep(Duration::from_millis(200));
        killed.kill().unwrap();
        killed.wait().unwrap();
        other.write_all(b"three\n").unwrap();
        drop(other);
        let document = pump.done().code(0).json();
        // The kernel sends its end as if it had closed: half a line is a line then.
        assert_eq!((count(&document, "accepted"), count(&document, "connections")), (3, 2), "{io}");
    }
}

#[test]
fn a_signal_drains_while_peers_are_connected() {
    for &io in backends() {
        for framing in ["stream", "lines"] {
            let mut pump =
                listen("tcp:127.0.0.1:0", &["--io", io, "--framing", framing, "--verify", "--json"]);
            pump.running.pumps();
            let mut peers: Vec<_> = (0..3).map(|_| pump.connect()).collect();
            for peer in &mut peers {
                peer.write_all(b"one\ntwo\nthr").unwrap();
            }
            thread::sleep(Duration::from_millis(100));
            pump.running.signal(Signal::INT);
            let document = pump.done().code(0).quiet().json();
            assert_eq!(document["stopped_by"], "signal");
            assert_eq!(count(&document, "accepted"), if framing == "lines" { 6 } else { 3 }, "{io}");
            assert_eq!((count(&document, "connections"), count(&document, "corrupt")), (0, 0));
        }
    }
}

#[test]
fn a_signal_ends_a_wait_for_room() {
    for &io in backends() {
        // Whoever reads what comes back takes nothing, so the ring fills up.
        let args = ["--io", io, "--capacity", "4", "--read-back", "-", "--drain-timeout", "0s", "--json"];
        let mut pump = listen("tcp:127.0.0.1:0", &args);
        pump.running.pumps();
        let mut peer = pump.connect();
        let sender = thread::spawn(move || drop(peer.write_all(&noise(8 << 20))));
        thread::sleep(Duration::from_millis(100));
        pump.running.signal(Signal::TERM);
        let done = pump.done();
        assert!(done.status.code().is_some(), "{}", done.stderr);
        sender.join().unwrap();
    }
}

#[test]
fn messages_and_duration_end_it_too() {
    for &io in backends() {
        for framing in ["stream", "fixed", "lines"] {
            let args =
                ["--io", io, "--framing", framing, "--message-size", "4", "--messages", "10", "--json"];
            let pump = listen("tcp:127.0.0.1:0", &args);
            let mut peer = pump.connect();
            peer.write_all(&b"abc\n".repeat(100)).unwrap();
            let document = pump.done().code(0).json();
            assert_eq!((&document["stopped_by"], count(&document, "accepted")), (&"messages".into(), 10));
            drop(peer);
        }
        let document =
            listen("tcp:127.0.0.1:0", &["--io", io, "--messages", "0", "--json"]).done().code(0).json();
        assert_eq!(document["stopped_by"], "messages");
        let pump = listen("tcp:127.0.0.1:0", &["--io", io, "--duration", "100ms", "--json"]);
        let document = pump.done().code(0).json();
        assert_eq!((&document["stopped_by"], count(&document, "accepted")), (&"duration".into(), 0));
    }
}

#[test]
fn policies_for_a_full_ring() {
    for &io in backends() {
        for (policy, framing) in ["block", "reject", "drop-new", "drop-oldest"]
            .iter()
            .flat_map(|policy| ["fixed", "stream", "lines"].map(|framing| (policy, framing)))
        {
            let args = ["--io", io, "--on-full", policy, "--framing", framing, "--message-size", "64"];
            let more = ["--capacity", "2", "--connections", "1", "--verify", "--json"];
            let pump = listen("tcp:127.0.0.1:0", &[&args[..], &more].concat());
            let line = [&[b'x'; 63][..], b"\n"].concat();
            pump.connect().write_all(&line.repeat(20_000)).unwrap();
            let done = pump.done();
            let document = done.json();
            let [accepted, delivered, dropped, rejected] =
                ["accepted", "delivered", "dropped", "rejected"].map(|name| count(&document, name));
            // Where any number of bytes is a message there may be more and shorter ones.
            let all = accepted + rejected;
            assert!(
                all == 20_000 || framing == "stream" && all > 20_000,
                "{io} {policy} {framing}: {document}"
            );
            assert_eq!(accepted, delivered + dropped);
            assert_eq!(count(&document, "corrupt"), 0, "{io} {policy} {framing}: {document}");
            match *policy {
                "block" => assert_eq!((dropped, rejected), (0, 0)),
                "reject" => assert_eq!(dropped, 0),
                _ => assert_eq!(rejected, 0),
            }
            done.code(if dropped + rejected > 0 { 3 } else { 0 });
        }
    }
}

/// A program that runs out of descriptors accepts the others when some have ended.
#[test]
fn more_connections_than_descriptors() {
    for &io in backends() {
        let command = format!(
            "ulimit -n 32; exec $TRANSLOAD pump --to host --from tcp:127.0.0.1:0 --framing lines --io {io} --connections 40 --json"
        );
        let pump =
            until_it_listens(common::shell(&command).env("TRANSLOAD_LOG", "error,transload::pump=warn"));
        let mut peers: Vec<_> = (0..40).map(|_| pump.connect()).collect();
        for peer in &mut peers {
            peer.write_all(b"line\n").unwrap();
        }
        wait_until("a warning", || pump.running.stderr_so_far().contains("connections wait"));
        drop(peers);
        let done = pump.done().code(0);
        assert_eq!(done.stderr.matches("WARN").count(), 1, "{}", done.stderr);
        let document = done.json();
        assert_eq!((count(&document, "accepted"), count(&document, "connections")), (40, 40));
    }
}

#[test]
fn no_more_connections_than_wanted() {
    let pump = listen("tcp:127.0.0.1:0", &["--connections", "1", "--json"]);
    let mut first = pump.connect();
    first.write_all(b"one").unwrap();
    let address = pump.address.strip_prefix("tcp:").unwrap();
    // The next is refused, or closed at once if it was quick.
    wait_until("a refusal", || TcpStream::connect(address).is_err());
    first.write_all(b"two").unwrap();
    drop(first);
    assert_eq!(count(&pump.done().code(0).json(), "connections"), 1);
}

#[test]
fn a_socket_file_is_for_its_owner_and_goes_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    for mask in ["000", "022", "777"] {
        let script = format!(
            "umask {mask}; exec $TRANSLOAD pump --to host --from unix:{} --connections 1",
            path.display()
        );
        let running = common::shell(&script).start();
        wait_until("the socket", || {
            path.symlink_metadata().is_ok_and(|found| found.permissions().mode() & 0o777 == 0o600)
        });
        wait_until("the listener", || UnixStream::connect(&path).is_ok());
        running.done().code(0);
        assert!(!path.exists(), "it is removed");
    }
}

#[test]
fn a_stale_socket_file_is_replaced_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let address = format!("unix:{}", path.display());
    drop(UnixListener::bind(&path).unwrap());
    let pump = listen(&address, &["--connections", "1", "--json"]);
    drop(pump.connect());
    pump.done().code(0);

    let refused = |what: &str| {
        let done = common::pump(&["--from", &address, "--json"]).done().code(1);
        let document = done.json();
        let message = document["error"]["message"].as_str().unwrap();
        assert!(message.contains("in use") && message.contains(what), "{document}");
        assert!(document["error"]["fix"].is_string(), "{document}");
        assert!(path.symlink_metadata().is_ok(), "it is not removed");
    };
    let live = UnixListener::bind(&path).unwrap();
    refused("somebody listens there");
    drop(live);
    std::fs::remove_file(&path).unwrap();
    let datagrams = UnixDatagram::bind(&path).unwrap();
    refused("somebody may listen there");
    drop(datagrams);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    refused("a file that is no socket");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(folder.path().join("nowhere"), &path).unwrap();
    refused("a file that is no socket");
}

#[test]
fn the_file_of_another_is_left_alone_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let pump = listen(&format!("unix:{}", path.display()), &["--connections", "1"]);
    let peer = pump.connect();
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(peer);
    pump.done().code(0);
    assert!(path.symlink_metadata().unwrap().file_type().is_socket());
}

#[test]
fn addresses_of_any_kind() {
    let mut all = vec!["tcp:127.0.0.1:0", "tcp:localhost:0", "tcp:0.0.0.0:0"];
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        all.extend(["tcp:[::1]:0", "tcp:[::]:0"]);
    } else {
        skip("pump_sockets::addresses_of_any_kind", "no IPv6 here");
    }
    for address in all {
        let pump = listen(address, &["--connections", "1", "--json"]);
        let bound = pump.address.clone();
        assert!(bound.starts_with("tcp:") && !bound.ends_with(":0"), "{bound}");
        let port = bound.rsplit_once(':').unwrap().1;
        let host = if address.contains("[::") { "::1" } else { "127.0.0.1" };
        drop(TcpStream::connect((host, port.parse().unwrap())).unwrap());
        assert_eq!(pump.done().code(0).json()["listening"], bound.as_str());
    }
}

#[test]
fn addresses_that_cannot_be() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let in_use = format!("tcp:{}", taken.local_addr().unwrap());
    for (address, why, fix) in [
        (in_use.as_str(), "in use", "choose another port"),
        ("tcp:192.0.2.1:0", "cannot listen", "an address of this machine"),
        ("tcp:no-such-host.invalid:0", "cannot listen", "name a host"),
        ("unix:/no/such/folder/socket", "No such file", "a folder that you may write"),
    ] {
        let document = pump(&["--from", address, "--json"]).done().code(1).json();
        let error = &document["error"];
        assert!(error["message"].as_str().unwrap().contains(why), "{document}");
        assert!(error["fix"].as_str().unwrap().contains(fix), "{document}");
    }
    for (args, why) in [
        (&["--from", "tcp:1.2.3.4"][..], "no port"),
        (&["--from", "tcp:::1:80"], "the numbers of IPv6 stand in brackets"),
        (&["--from", "tcp:localhost:99999"], "no port from 0 to 65535"),
        (&["--from", "unix:"], "no path"),
        (&["--connections", "1"], "--connections counts who connects"),
        (&["--connections", "0", "--from", "tcp:localhost:0"], "0 is not in"),
        (&["--io", "uring"], "--io is for sockets"),
        (&["--direct"], "--direct reads a file"),
        (&["--from", "tcp:localhost:0", "--pool-buffers", "0"], "0 is not in"),
    ] {
        let done = pump(args).done().code(2);
        assert!(done.stderr.contains(why), "{args:?}: {}", done.stderr);
    }
}

#[test]
fn without_io_uring_auto_falls_back_and_tells_and_uring_ends_at_once() {
    for (errno, why) in [(libc::EPERM, "denied by policy"), (libc::ENOSYS, "no usable io_uring")] {
        let run = |io: &str| {
            pump(&["--from", "tcp:127.0.0.1:0", "--connections", "1", "--json", "--io", io])
                .env("TRANSLOAD_LOG", "error,transload::io_backend=warn")
                .without_uring(errno)
        };
        let listening = until_it_listens(run("auto"));
        listening.connect().write_all(b"one").unwrap();
        let done = listening.done().code(0);
        assert_eq!(done.stderr.matches("WARN").count(), 1, "{}", done.stderr);
        assert!(done.stderr.contains(why), "{}", done.stderr);
        let document = done.json();
        assert_eq!((&document["io"]["backend"], count(&document, "accepted")), (&"readiness".into(), 1));
        assert!(document["io"]["why"].as_str().unwrap().contains(why), "{document}");

        let document = run("uring").done().code(4).json();
        assert_eq!(document["error"]["kind"], "unavailable");
        assert!(document["error"]["message"].as_str().unwrap().contains(why), "{document}");
        assert!(document["error"]["fix"].as_str().unwrap().contains("--io readiness"), "{document}");
    }
}

#[test]
fn netcat_sends_lines() {
    if Command::new("nc").arg("-h").output().is_err() {
        skip("pump_sockets::netcat_sends_lines", "no nc here");
        return;
    }
    let pump = listen("tcp:127.0.0.1:0", &["--framing", "lines", "--connections", "1", "--json"]);
    let (_, port) = pump.address.rsplit_once(':').unwrap();
    let script = format!("printf 'one\\ntwo\\n' | nc -w 1 127.0.0.1 {port}");
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    assert_eq!(count(&pump.done().code(0).json(), "accepted"), 2);
}

#[test]
fn the_report_in_words() {
    let pump: Listening = listen("tcp:127.0.0.1:0", &["--connections", "1", "--io", "readiness"]);
    drop(pump.connect());
    let done = pump.done().code(0);
    for line in
        ["io           readiness (asked for)", "connections  1 ended, 0 of them bad", "staged       0 B"]
    {
        assert!(done.text().contains(line), "{}", done.text());
    }
}
