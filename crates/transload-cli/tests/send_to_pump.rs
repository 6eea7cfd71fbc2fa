//! `transload send` into `transload pump`: what one sends, the other lands.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

mod common;

use common::listening::{backends, listen};
use common::{arg, assert_same, count, noise, transload};

#[test]
fn generated_messages_land_whole() {
    const MESSAGES: u64 = 20_001;
    for &io in backends() {
        for framing in ["fixed", "lines", "u32le", "u32be"] {
            for connections in ["1", "5"] {
                let both = ["--framing", framing, "--message-size", "200", "--io", io, "--json"];
                let args = ["--connections", connections, "--verify"];
                let pump = listen("tcp:127.0.0.1:0", &[&both[..], &args].concat());
                let sent = transload(["send", "--to", &pump.address, "--connections", connections])
                    .args(both)
                    .args(["--messages", &MESSAGES.to_string()])
                    .done()
                    .code(0);
                let sent = common::send_document::parse(sent.text());
                let landed = pump.running.done().code(0).json();
                assert_eq!(count(&sent, "messages"), MESSAGES, "{sent}");
                assert_eq!(
                    (count(&landed, "delivered"), count(&landed, "corrupt")),
                    (MESSAGES, 0),
                    "{landed}"
                );
            }
        }
    }
}

#[test]
fn a_file_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let [from, back] = ["from", "back"].map(|name| arg(folder.path().join(name)));
    let bytes = noise(3_000_001);
    std::fs::write(&from, &bytes).unwrap();
    for &io in backends() {
        let unix = format!("unix:{}", arg(folder.path().join(io)));
        for address in ["tcp:127.0.0.1:0", &unix] {
            let pump = listen(address, &["--connections", "1", "--read-back", &back, "--io", io]);
            transload(["send", "--to", &pump.address, "--from", &from, "--io", io]).done().code(0);
            pump.running.done().code(0);
            assert_same(&std::fs::read(&back).unwrap(), &bytes, address);
        }
    }
}

#[test]
fn an_end_by_time_cuts_no_generated_message() {
    for &io in backends() {
        for framing in ["fixed", "lines", "u32le", "u32be"] {
            // Messages that fill no buffer, and messages that no buffer holds.
            for size in ["300", "300000"] {
                let both = ["--framing", framing, "--message-size", size, "--io", io, "--json"];
                let args = ["--connections", "3", "--capacity", "64", "--verify"];
                let pump = listen("tcp:127.0.0.1:0", &[&both[..], &args].concat());
                let sent = transload(["send", "--to", &pump.address, "--connections", "3"])
                    .args(both)
                    .args(["--duration", "50ms"])
                    .done()
                    .code(0);
                let sent = common::send_document::parse(sent.text());
                assert_eq!(sent["stopped_by"], "duration", "{sent}");
                let landed = pump.running.done().code(0).json();
                assert_eq!(count(&landed, "bad_peers"), 0, "{landed}");
                assert_eq!(count(&landed, "delivered"), count(&sent, "messages"), "{framing} {size}");
            }
        }
    }
}

#[test]
fn an_end_by_time_cuts_no_message_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let from = arg(folder.path().join("from"));
    let message = [&[0, 0, 1, 44][..], &noise(300)].concat();
    std::fs::write(&from, message.repeat(500_000)).unwrap();
    for &io in backends() {
        for size in ["77", "256KiB"] {
            let both = ["--framing", "u32be", "--message-size", "300", "--io", io, "--json"];
            let pump = listen("tcp:127.0.0.1:0", &[&both[..], &["--connections", "1"]].concat());
            let sent = transload(["send", "--to", &pump.address, "--from", &from, "--buffer-size", size])
                .args(both)
                .args(["--duration", "30ms"])
                .done()
                .code(0);
            let sent = common::send_document::parse(sent.text());
            let landed = pump.running.done().code(0).json();
            assert_eq!(count(&landed, "delivered"), count(&sent, "messages"), "{sent}");
            assert_eq!(count(&sent, "bytes"), 304 * count(&sent, "messages"), "{sent}");
        }
    }
}
