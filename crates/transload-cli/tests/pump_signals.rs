//! `transload pump` that is interrupted: by signals, by readers that go away or take nothing, by full disks.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::{
    Run, arg, assert_same, count, noise, opencl_or_skip, privilege, pump, shell, skip, vulkan_or_skip,
};
use rustix::process::Signal;

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

fn interrupted(to: &str) {
    for signal in [Signal::INT, Signal::TERM] {
        let mut running = pump(&["--to", to, "--duration", "10m", "--verify", "--json"]).start();
        running.pumps();
        thread::sleep(Duration::from_millis(50));
        running.signal(signal);
        let document = running.done().code(0).quiet().json();
        assert_eq!(document["stopped_by"], "signal");
        assert_eq!((count(&document, "dropped"), count(&document, "corrupt")), (0, 0));
        assert_eq!(count(&document, "verified"), count(&document, "accepted"));
    }
}

#[test]
fn a_signal_stops_the_intake_and_drains() {
    interrupted("host");
}

#[test]
fn a_signal_stops_the_intake_and_drains_opencl() {
    if opencl_or_skip("pump_signals::a_signal_stops_the_intake_and_drains_opencl") {
        interrupted("opencl");
    }
}

#[test]
fn a_signal_stops_the_intake_and_drains_vulkan() {
    if vulkan_or_skip("pump_signals::a_signal_stops_the_intake_and_drains_vulkan") {
        interrupted("vulkan");
    }
}

#[test]
fn a_signal_ends_an_input_without_an_end() {
    for signal in [Signal::INT, Signal::TERM] {
        for input in [&b""[..], b"one\ntwo\nthr"] {
            let run = pump(&["--from", "-", "--framing", "lines", "--verify", "--json", "--read-back", "-"]);
            let mut running = run.open_input().start();
            let mut stdin = running.child.stdin.take().unwrap();
            stdin.write_all(input).unwrap();
            running.pumps();
            thread::sleep(Duration::from_millis(50));
            running.signal(signal);
            let done = running.done().code(0);
            let document = done.json_of_stderr();
            assert_eq!(document["stopped_by"], "signal");
            assert_eq!(count(&document, "accepted"), count(&document, "verified"));
            // The line that has not come to its end is none yet.
            assert!(b"one\ntwo\n".starts_with(&done.stdout[..]), "{:?}", done.text());
            drop(stdin);
        }
    }
}

/// Before there is a pump, a signal does what it does to any program.
#[test]
fn a_signal_ends_the_wait_for_the_other_end_of_a_named_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for option in ["--from", "--read-back"] {
        let running = pump(&[option, &arg(&fifo)]).start();
        thread::sleep(Duration::from_millis(50));
        running.signal(Signal::TERM);
        assert_eq!(running.done().status.signal(), Some(Signal::TERM.as_raw()), "{option}");
    }
}

fn held_by_its_reader(to: &str) {
    for pause in [0, 100] {
        let (reader, writer) = std::io::pipe().unwrap();
        let run = pump(&["--to", to, "--read-back", "-", "--drain-timeout", "1h", "--json"]);
        let mut running = run.args(["--duration", "10m"]).output_to(writer).start();
        running.pumps();
        thread::sleep(Duration::from_millis(50));
        running.signal(Signal::INT);
        thread::sleep(Duration::from_millis(pause));
        running.signal(Signal::TERM);
        let document = running.done().code(3).quiet().json_of_stderr();
        assert_eq!(document["stopped_by"], "signal");
        assert!(count(&document, "dropped") > 0, "{document}");
        drop(reader);
    }
}

/// A second signal ends at once what the first cannot: here nobody takes what is read back.
#[test]
fn a_second_signal_ends_a_pump_whose_reader_takes_nothing() {
    held_by_its_reader("host");
}

#[test]
fn a_second_signal_ends_opencl_whose_reader_takes_nothing() {
    if opencl_or_skip("pump_signals::a_second_signal_ends_opencl_whose_reader_takes_nothing") {
        held_by_its_reader("opencl");
    }
}

#[test]
fn a_reader_that_takes_nothing_is_told_when_the_time_is_over() {
    let (reader, writer) = std::io::pipe().unwrap();
    let run = pump(&["--duration", "50ms", "--read-back", "-", "--drain-timeout", "0s", "--json"]);
    let document = run.output_to(writer).done().code(1).json_of_stderr();
    assert_eq!((&document["error"]["kind"], &document["stopped_by"]), (&"stuck".into(), &"duration".into()));
    assert!(count(&document, "dropped") > 0, "{document}");
    drop(reader);
}

#[test]
fn signals_in_a_row_still_leave_a_report() {
    for count in [2, 3, 10] {
        let mut running = pump(&["--duration", "10m", "--verify", "--json"]).start();
        running.pumps();
        for number in 0..count {
            running.signal(if number % 2 == 0 { Signal::INT } else { Signal::TERM });
        }
        let done = running.done();
        let document = done.json();
        assert_eq!(document["stopped_by"], "signal");
        let lost = common::count(&document, "dropped") > 0;
        done.code(if lost { 3 } else { 0 }).quiet();
    }
}

#[test]
fn a_report_that_nobody_reads_is_no_error() {
    for args in [&[][..], &["--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = pump(&["--messages", "100", "--verify"]).args(args).output_to(writer).done().code(0);
        assert_eq!(done.stderr, "");
        let failed = pump(&["--from", "/not/there"]).args(args);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        failed.output_to(writer).done().code(1);
    }
}

#[test]
fn a_reader_that_has_read_enough_ends_the_pump_quietly() {
    let bytes = noise(1_000_000);
    for args in [&["--duration", "10m"][..], &["--from", "-"], &["--from", "-", "--json", "--verify"]] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let run = pump(args).args(["--read-back", "-"]).output_to(writer);
        let run = if args.contains(&"-") { run.input(&bytes[..]) } else { run };
        let running = run.start();
        let mut some = vec![0; 1000];
        reader.read_exact(&mut some).unwrap();
        drop(reader);
        // What was accepted and found no reader is lost: that is no failure, and no success either.
        let done = running.done().code(3).quiet();
        if args.contains(&"--json") {
            assert_eq!(done.json_of_stderr()["stopped_by"], "end");
            assert_same(&some, &bytes[..1000], "what was read");
        }
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_is() {
    const WHY: &str = "No space left on device";
    for args in [&[][..], &["--json"]] {
        let done = pump(&["--messages", "10"]).args(args).output_to(full()).done().code(1);
        assert!(done.stderr.contains(WHY) && done.stderr.lines().count() == 1, "{}", done.stderr);
    }
    // Nothing is to be written, so nothing fails.
    pump(&["--messages", "10", "--quiet"]).output_to(full()).done().code(0);
    for messages in ["1", "100000"] {
        let run = || pump(&["--messages", messages, "--json"]);
        let document = run().args(["--read-back", "/dev/full"]).done().code(1).json();
        let other = run().args(["--read-back", "-"]).output_to(full()).done().code(1).json_of_stderr();
        for document in [document, other] {
            assert_eq!(document["error"]["kind"], "write");
            assert!(document["error"]["message"].as_str().unwrap().contains(WHY), "{document}");
            assert_eq!((count(&document, "delivered"), &document["stopped_by"]), (0, &"error".into()));
        }
    }
    let done = pump(&["--messages", "10", "--read-back", "-"]).output_to(full()).done().code(1);
    assert!(done.stderr.contains(WHY), "{}", done.stderr);
}

#[test]
fn a_disk_that_fills_up_is_an_error_and_keeps_what_fitted() {
    const NAME: &str = "pump_signals::a_disk_that_fills_up_is_an_error_and_keeps_what_fitted";
    let folder = tempfile::tempdir().unwrap();
    let mount = |script: &str| {
        let mut command = Command::new("unshare");
        let script = format!("mount -t tmpfs -o size=64k none '{}' && {script}", folder.path().display());
        command.args(["-m", "sh", "-c", &script]);
        Run::of(command).env("FOLDER", folder.path())
    };
    let may =
        Command::new("unshare").arg("--version").output().is_ok() && mount("true").done().status.success();
    if !may {
        skip(NAME, "needs unshare (util-linux) and the right to mount");
        return;
    }
    let program = common::TRANSLOAD;
    let done = mount(&format!(
        "{{ '{program}' pump --to host --messages 1000 --message-size 1024 --read-back \"$FOLDER/back\" --json; \
         code=$?; wc -c <\"$FOLDER/back\"; exit $code; }}"
    ))
    .done()
    .code(1);
    let (document, bytes) = done.text().split_once('\n').unwrap();
    let document = common::document::parse(document);
    assert_eq!(document["error"]["kind"], "write");
    assert!(document["error"]["message"].as_str().unwrap().contains("No space left"), "{document}");
    assert!(bytes.trim().parse::<u64>().unwrap() >= count(&document, "delivered") * 1024, "{bytes}");
}

/// The system ends a program that writes beyond this limit, unless it listens.
#[test]
fn a_limit_of_file_sizes_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let back = arg(folder.path().join("back"));
    let script =
        format!("ulimit -f 8 && exec $TRANSLOAD pump --to host --messages 1000 --read-back '{back}' --json");
    let document = shell(&script).done().code(1).json();
    assert_eq!(document["error"]["kind"], "write");
    assert!(document["error"]["message"].as_str().unwrap().contains("File too large"), "{document}");
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    for path in ["/not/there/back", "/dev/null/back", "/proc/back", "/", ""] {
        let document = pump(&["--messages", "10", "--json", "--read-back", path]).done().code(1).json();
        assert_eq!(document["error"]["kind"], "write", "{path}");
        assert!(document["error"]["message"].as_str().unwrap().contains(path), "{document}");
        assert_eq!(count(&document, "accepted"), 0);
    }
}

#[test]
fn closed_streams_are_no_reason_to_fail() {
    for closed in [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"] {
        let command = "exec $TRANSLOAD pump --to host --messages 100 --verify --stats-interval 1ms";
        shell(&format!("{command} {closed}")).done().code(0);
    }
}

#[test]
fn two_pumps_at_once_do_not_meet() {
    let two: Vec<_> = (0..2)
        .map(|_| pump(&["--messages", "100000", "--verify", "--json", "--message-size", "64"]).start())
        .collect();
    for running in two {
        assert_eq!(count(&running.done().code(0).json(), "verified"), 100_000);
    }
}

#[test]
fn an_empty_environment_is_enough() {
    let document = pump(&[])
        .without_env()
        .args(["--to", "host", "--messages", "100", "--verify", "--json"])
        .done()
        .code(0)
        .json();
    assert_eq!(count(&document, "verified"), 100);
}

#[test]
fn little_memory_is_an_error_in_words() {
    // Below what the ring needs, and above what the program needs.
    let script =
        "ulimit -v 20000 && exec $TRANSLOAD pump --to host --messages 10 --json --message-size 64KiB";
    let document = shell(script).done().code(1).json();
    assert_eq!(document["error"]["kind"], "memory");
    assert!(document["error"]["fix"].is_string(), "{document}");
    // As nobody, whom no right helps.
    let Some(nobody) = privilege::Nobody::new() else {
        skip("pump_signals::little_memory_is_an_error_in_words", privilege::WHY);
        return;
    };
    let run =
        nobody.pump(&["--as=20480000:20480000"], &["--messages", "10", "--json", "--message-size", "64KiB"]);
    assert_eq!(run.done().code(1).json()["error"]["kind"], "memory");
}
