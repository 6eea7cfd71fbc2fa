//! `transload pump --from FILE --direct`: past the page cache, byte for byte.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

mod common;

use std::path::Path;

use common::listening::backends;
use common::{arg, assert_same, count, noise, pump, skip};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};

/// What a direct read moves at once.
const BUFFER_BYTES: usize = 128 << 10;

fn has_direct_io(path: &Path) -> bool {
    open(path, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty()).is_ok()
}

/// Reads a file of these bytes, and compares what comes out.
fn there_and_back(folder: &Path, args: &[&str], bytes: &[u8]) {
    let [from, to] = ["from", "to"].map(|name| arg(folder.join(name)));
    std::fs::write(&from, bytes).unwrap();
    for &io in backends() {
        for pool_buffers in ["1", "2", "16"] {
            let run = pump(&["--from", &from, "--direct", "--io", io, "--pool-buffers", pool_buffers]);
            let done = run.args(args).args(["--verify", "--json", "--read-back", &to]).done().code(0);
            assert_same(&std::fs::read(&to).unwrap(), bytes, &done.what);
            let document = done.json();
            assert_eq!((&document["stopped_by"], &document["io"]["backend"]), (&"end".into(), &io.into()));
            assert_eq!(count(&document, "verified"), count(&document, "accepted"));
            assert_eq!(count(&document, "corrupt"), 0);
        }
    }
}

#[test]
fn files_of_any_length() {
    let folder = tempfile::tempdir().unwrap();
    let probe = folder.path().join("probe");
    std::fs::write(&probe, "x").unwrap();
    if !has_direct_io(&probe) {
        skip(
            "pump_direct::files_of_any_length",
            "no direct I/O in the folder for temporary files; set TMPDIR",
        );
        return;
    }
    for len in [0, 1, 511, 512, 513, 4095, 4096, 4097, 10_000] {
        there_and_back(folder.path(), &[], &noise(len));
    }
    for len in [BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1, 9 * BUFFER_BYTES, 9 * BUFFER_BYTES + 512] {
        there_and_back(folder.path(), &["--message-size", "1000"], &noise(len));
    }
    let lines: String = (0..40_000).map(|number: u32| number.to_string() + "\n").collect();
    there_and_back(folder.path(), &["--framing", "lines"], lines.as_bytes());
    there_and_back(folder.path(), &["--framing", "fixed", "--message-size", "24"], &noise(24 * 20_000));
    let measured = b"\x05\0\0\0hello\0\0\0\0".repeat(30_000);
    there_and_back(folder.path(), &["--framing", "u32le"], &measured);
}

#[test]
fn files_in_memory() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        skip("pump_direct::files_in_memory", "no /dev/shm");
        return;
    };
    let path = folder.path().join("from");
    let bytes = noise(300_001);
    std::fs::write(&path, &bytes).unwrap();
    if has_direct_io(&path) {
        there_and_back(folder.path(), &[], &bytes);
        return;
    }
    // Before Linux 6.6.
    let document = pump(&["--from", &arg(path), "--direct", "--json"]).done().code(1).json();
    assert!(document["error"]["message"].as_str().unwrap().contains("no direct I/O"), "{document}");
    assert!(document["error"]["fix"].as_str().unwrap().contains("leave --direct away"), "{document}");
}

#[test]
fn what_cannot_be_read_directly_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for path in [fifo.as_path(), folder.path(), Path::new("/dev/null")] {
        let document = pump(&["--from", &arg(path), "--direct", "--json"]).done().code(1).json();
        let message = document["error"]["message"].as_str().unwrap();
        assert!(message.contains("cannot be read directly"), "{document}");
    }
    let absent = arg(folder.path().join("absent"));
    let document = pump(&["--from", &absent, "--direct", "--json"]).done().code(1).json();
    assert!(document["error"]["message"].as_str().unwrap().contains("No such file"), "{document}");
}

#[test]
fn what_is_broken_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let path = arg(folder.path().join("from"));
    std::fs::write(&path, noise(24 * 100 + 7)).unwrap();
    for &io in backends() {
        let args =
            ["--from", &path, "--direct", "--io", io, "--framing", "fixed", "--message-size", "24", "--json"];
        let document = pump(&args).done().code(1).json();
        let message = document["error"]["message"].as_str().unwrap();
        assert!(message.contains("message 101, which begins at offset 2400: 7 of 24 bytes"), "{document}");
        assert_eq!(count(&document, "accepted"), 100);
        let document = pump(&args).args(["--messages", "3"]).done().code(0).json();
        assert_eq!((&document["stopped_by"], count(&document, "accepted")), (&"messages".into(), 3));
    }
}
