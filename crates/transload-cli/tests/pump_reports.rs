//! `transload pump`: what it reports, on success and on every kind of failure, and its exit codes.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::path::Path;

use common::{arg, count, document, opencl_or_skip, privilege, pump, skip, transload, vulkan_or_skip};
use serde_json::Value;

#[test]
#[should_panic(expected = "has no accepted")]
fn a_document_without_a_field_is_caught() {
    document::parse(r#"{"schema":1}"#);
}

#[test]
fn without_options_it_does_the_main_job() {
    let done = transload(["pump"]).done().code(0).quiet();
    let line = |name: &str| {
        let line = done.text().lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("no {name} in {}", done.text()))
    };
    let accepted = line("accepted").trim_start_matches("accepted").trim();
    assert!(line("delivered").contains(&format!(" {accepted}, ")), "{}", done.text());
    assert!(
        line("verified").contains(&format!(" {accepted}, 0 corrupt, checked on the ")),
        "{}",
        done.text()
    );
    assert!(line("dropped").ends_with(" 0 messages"), "{}", done.text());
    for name in ["device", "memory", "rate", "batches", "latency"] {
        line(name);
    }
    // Five seconds, less than what the clock of a busy machine may lag.
    let seconds: f64 = line("rate").split_whitespace().rev().nth(1).unwrap().parse().unwrap();
    assert!(seconds >= 4.9, "{seconds}");
}

#[test]
fn words_are_one_line_a_number() {
    let done = pump(&["--messages", "1000", "--message-size", "1KiB", "--verify"]).done().code(0);
    assert_eq!(done.stderr, "");
    let words: Vec<Vec<&str>> = done.text().lines().map(|line| line.split_whitespace().collect()).collect();
    let names: Vec<&str> = words.iter().map(|words| words[0]).collect();
    let expected =
        ["device", "memory", "accepted", "delivered", "dropped", "verified", "rate", "batches", "latency"];
    assert_eq!(names, expected, "{}", done.text());
    assert_eq!(words[2][1..], ["1000", "messages"]);
    assert_eq!(words[3][1..], ["1000", "messages,", "1000.00", "KiB"]);
    assert_eq!(words[5][1..7], ["1000", "messages,", "0", "corrupt,", "checked", "on"]);
    // To the standard error where the standard output is taken.
    let done = pump(&["--messages", "10", "--read-back", "-"]).done().code(0);
    assert!(done.stderr.contains("accepted     10 messages"), "{}", done.stderr);
    assert_eq!(done.stdout.len(), 2560);
}

#[test]
fn quiet_leaves_results_and_errors() {
    let done = pump(&["--messages", "10", "-q"]).done().code(0);
    assert_eq!((done.text(), &*done.stderr), ("", ""));
    let done = pump(&["--messages", "10", "--quiet", "--json"]).done().code(0);
    assert_eq!(count(&done.json(), "accepted"), 10);
    let done = pump(&["--messages", "10", "--quiet", "--read-back", "-"]).done().code(0);
    assert_eq!((done.stdout.len(), &*done.stderr), (2560, ""));
    let done = pump(&["--from", "/not/there", "--quiet"]).done().code(1);
    assert!(done.stdout.is_empty() && done.stderr.contains("/not/there"), "{}", done.stderr);
}

/// Without a terminal there is no progress to see.
#[test]
fn no_progress_goes_into_files() {
    let done = pump(&["--duration", "300ms"]).done().code(0);
    assert_eq!(done.stderr, "");
}

#[test]
fn numbers_agree_with_each_other() {
    let document = pump(&["--messages", "5000", "--message-size", "100", "--capacity", "64", "--json"])
        .args(["--batch-bytes", "800", "--verify"])
        .done()
        .code(0)
        .json();
    assert_eq!(count(&document, "bytes"), 500_000);
    assert_eq!(document["memory"]["slab_bytes"], 6400);
    assert!(document["batch_messages"]["max"].as_u64().unwrap() <= 8, "{document}");
    assert!(document["batch_messages"]["p50"].as_u64().unwrap() >= 1, "{document}");
    assert!(document["latency_ns"]["samples"].as_u64().unwrap() > 0, "{document}");
    let rate = |name: &str| document[name].as_f64().unwrap();
    let seconds = rate("seconds");
    assert!((rate("messages_per_second") * seconds - 5000.0).abs() < 1.0, "{document}");
    assert!((rate("bytes_per_second") * seconds - 500_000.0).abs() < 100.0, "{document}");
    // The report to the standard error is the same.
    let done = pump(&["--messages", "50", "--read-back", "-", "--json"]).done().code(0);
    assert_eq!(count(&done.json_of_stderr(), "delivered"), 50);
}

#[test]
fn lines_of_statistics_come_while_it_runs() {
    let args = ["--duration", "300ms", "--stats-interval", "20ms", "--json"];
    let done = pump(&args).done().code(0);
    let document = done.json();
    let lines: Vec<Value> = done.stderr.lines().map(document::parse_line).collect();
    assert!(lines.len() >= 2, "{}", done.stderr);
    for pair in lines.windows(2) {
        assert!(pair[0]["seconds"].as_f64() < pair[1]["seconds"].as_f64(), "{}", done.stderr);
        for name in ["delivered", "dropped", "rejected", "skipped"] {
            assert!(count(&pair[0], name) <= count(&pair[1], name), "{}", done.stderr);
        }
    }
    assert!(count(&lines[lines.len() - 1], "delivered") <= count(&document, "delivered"));
    // Before the report where both go to the same place.
    let done = pump(&args).args(["--read-back", "-"]).done().code(0);
    done.json_of_stderr();
    assert!(done.stderr.lines().count() >= 2, "{}", done.stderr);
    let before = done.stderr.lines().count() - 1;
    assert!(done.stderr.lines().take(before).map(document::parse_line).count() > 0);
}

#[test]
fn times_of_nothing_and_of_ages() {
    const AGES: &str = "99999999999y";
    let run = |args: &[&str]| pump(args).args(["--json", "--verify"]).done().code(0);
    assert_eq!(run(&["--duration", "0s"]).json()["stopped_by"], "duration");
    for args in [
        ["--batch-delay", "0s"],
        ["--batch-delay", AGES],
        ["--drain-timeout", AGES],
        ["--duration", AGES],
        ["--stats-interval", AGES],
        ["--stats-interval", "0s"],
    ] {
        let done = run(&[&args[..], &["--messages", "1000"]].concat());
        assert_eq!((count(&done.json(), "verified"), &*done.stderr), (1000, ""), "{args:?}");
    }
}

#[test]
fn what_ended_the_intake_is_told_each_time() {
    // Messages that are all there before anybody looks.
    for _ in 0..30 {
        let document = pump(&["--messages", "3", "--json"]).done().code(0).json();
        assert_eq!(document["stopped_by"], "messages");
        let document = pump(&["--from", "-", "--json"]).input("x").done().code(0).json();
        assert_eq!(document["stopped_by"], "end");
        let run = pump(&["--from", "-", "--framing", "fixed", "--json"]).input("x");
        let document = run.done().code(1).json();
        assert_eq!(
            (&document["stopped_by"], &document["error"]["kind"]),
            (&"error".into(), &"source".into())
        );
    }
    let document =
        pump(&["--duration", "30ms", "--messages", "1000000000000", "--json"]).done().code(0).json();
    assert_eq!(document["stopped_by"], "duration");
}

#[test]
fn failures_are_documents_too() {
    for (args, code, kind) in [
        (&["--from", "/not/there"][..], 1, "source"),
        (&["--read-back", "/not/there"], 1, "write"),
        (&["--to", "cuda:99"], 4, "unavailable"),
        (&["--numa-node", "4000000000"], 4, "memory"),
        (&["--capacity", "2147483648", "--message-size", "1GiB"], 1, "memory"),
        (&["--batch-bytes", "1EiB", "--message-size", "1MiB", "--capacity", "1048576"], 1, "memory"),
    ] {
        let document = pump(args).args(["--json"]).done().code(code).json();
        assert_eq!((&document["error"]["kind"], &document["stopped_by"]), (&kind.into(), &"error".into()));
        assert!(document["error"]["fix"].is_string(), "{document}");
        for name in ["accepted", "delivered", "dropped", "bytes"] {
            assert_eq!(count(&document, name), 0, "{document}");
        }
        // The same in words: one line that says why, one that says what to do, and no results.
        let done = pump(args).done().code(code);
        let words = |text: &str| text.replace(|digit: char| digit.is_ascii_digit(), "");
        let message = words(document["error"]["message"].as_str().unwrap());
        assert!(words(&done.stderr).starts_with(&format!("transload: {message}\n")), "{}", done.stderr);
        assert!(done.stderr.lines().nth(1).unwrap().contains("to do: "), "{}", done.stderr);
        assert_eq!((done.stderr.lines().count(), done.text()), (2, ""));
    }
}

#[test]
fn two_million_messages_on_the_host() {
    two_million("host");
}

#[test]
fn two_million_messages_on_opencl() {
    if opencl_or_skip("pump_reports::two_million_messages_on_opencl") {
        two_million("opencl");
    }
}

#[test]
fn two_million_messages_on_vulkan() {
    if vulkan_or_skip("pump_reports::two_million_messages_on_vulkan") {
        two_million("vulkan");
    }
}

fn two_million(to: &str) {
    let document = pump(&["--to", to, "--messages", "2000000", "--verify", "--json"]).done().code(0).json();
    for name in ["accepted", "delivered", "verified"] {
        assert_eq!(count(&document, name), 2_000_000, "{name} in {document}");
    }
    assert_eq!((count(&document, "corrupt"), count(&document, "dropped")), (0, 0));
    assert_eq!((&document["device"]["backend"], &document["stopped_by"]), (&to.into(), &"messages".into()));
}

#[test]
fn devices_that_are_not_there() {
    for (to, words) in [
        ("cuda:99", &["cuda"][..]),
        ("vulkan:99", &["vulkan"]),
        ("metal:99", &["metal"]),
        ("host:1", &["host:1", "host has 1"]),
        ("opencl:99", &["opencl"]),
    ] {
        let document = pump(&["--to", to, "--json"]).done().code(4).json();
        assert_eq!((&document["error"]["kind"], &document["device"]), (&"unavailable".into(), &Value::Null));
        let done = pump(&["--to", to]).done().code(4);
        for word in words {
            assert!(done.stderr.contains(word), "{}", done.stderr);
        }
        assert!(done.stderr.contains("transload doctor"), "{}", done.stderr);
    }
    // Where nothing better is there, and nothing is asked for, the host is.
    let document = pump(&["--to", "auto", "--messages", "10", "--json"]).done().code(0).json();
    assert!(document["device"]["backend"].is_string());
}

/// A driver that cannot be loaded is one that is not there.
#[test]
fn a_broken_driver_is_not_available() {
    let folder = tempfile::tempdir().unwrap();
    for library in ["libOpenCL.so", "libOpenCL.so.1", "libcuda.so.1", "libvulkan.so.1"] {
        fs::write(folder.path().join(library), "").unwrap();
    }
    for to in ["opencl", "cuda", "vulkan"] {
        let run = pump(&["--to", to, "--json"]).env("LD_LIBRARY_PATH", folder.path());
        let document = run.done().code(4).json();
        assert_eq!(document["error"]["kind"], "unavailable", "{to}");
    }
    let run = pump(&["--to", "auto", "--json", "--messages", "10"]).env("LD_LIBRARY_PATH", folder.path());
    assert_eq!(run.done().code(0).quiet().json()["device"]["backend"], "host");
}

#[test]
fn huge_pages_that_nobody_reserved() {
    const NAME: &str = "pump_reports::huge_pages_that_nobody_reserved";
    for (pages, kilobytes) in [("2M", 2048), ("1G", 1_048_576)] {
        let folder = format!("/sys/kernel/mm/hugepages/hugepages-{kilobytes}kB");
        let read = |file: &str| fs::read_to_string(Path::new(&folder).join(file)).unwrap_or_default();
        if read("free_hugepages").trim().parse().unwrap_or(0) > 0
            || read("nr_overcommit_hugepages").trim() != "0"
        {
            skip(NAME, "huge pages are reserved here");
            return;
        }
        let run = pump(&["--pages", pages, "--pages-policy", "require", "--json"]);
        let document = run.done().code(4).json();
        assert_eq!(document["error"]["kind"], "memory");
        let message = document["error"]["message"].as_str().unwrap();
        assert!(message.contains('0') && message.contains("hugepages"), "no numbers or remedy: {message}");
        let run = pump(&["--pages", pages, "--messages", "10", "--json"]);
        let document = run.done().code(0).json();
        assert_eq!(document["memory"]["page_bytes"], rustix::param::page_size());
    }
}

#[test]
fn transparent_pages_are_had_or_not() {
    let document = pump(&["--pages", "transparent", "--messages", "10", "--json"]).done().code(0).json();
    assert_eq!(count(&document, "delivered"), 10);
}

#[test]
fn an_unknown_node_names_those_that_there_are() {
    if Path::new("/sys/devices/system/node/node7").exists() {
        skip("pump_reports::an_unknown_node_names_those_that_there_are", "there is a node 7");
        return;
    }
    let document = pump(&["--numa-node", "7", "--json"]).done().code(4).json();
    let message = document["error"]["message"].as_str().unwrap();
    let online = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_else(|_| "0".to_owned());
    let first = online.trim().split(['-', ',']).next().unwrap();
    assert!(message.contains('7') && message.contains(first), "{message}");
    let document = pump(&["--numa-node", first, "--messages", "10", "--json"]).done().code(0).json();
    assert_eq!(document["memory"]["numa_node"].to_string(), first);
}

#[test]
fn a_narrow_memlock_limit_is_told_in_numbers_or_lived_with() {
    let Some(nobody) = privilege::Nobody::new() else {
        skip("pump_reports::a_narrow_memlock_limit_is_told_in_numbers_or_lived_with", privilege::WHY);
        return;
    };
    let narrow = &["--memlock=65536:65536"];
    let document = nobody.pump(narrow, &["--lock", "require", "--json"]).done().code(1).json();
    assert_eq!(document["error"]["kind"], "memory");
    let message = document["error"]["message"].as_str().unwrap();
    for word in ["4194304", "65536", "ulimit -l"] {
        assert!(message.contains(word), "no {word} in {message}");
    }
    assert!(document["error"]["fix"].as_str().unwrap().contains("--lock prefer"), "{document}");

    let done =
        nobody.pump(narrow, &["--lock", "prefer", "--json", "--messages", "1000", "--verify"]).done().code(0);
    let document = done.json();
    assert_eq!((count(&document, "verified"), &document["memory"]["locked"]), (1000, &false.into()));
    let told = nobody.pump(narrow, &["--lock", "prefer", "--messages", "10"]).env("TRANSLOAD_LOG", "");
    let done = told.done().code(0);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    assert!(done.text().contains("not page-locked"), "{}", done.text());
    let never = ["--lock", "never", "--json", "--messages", "10", "--verify"];
    let never = nobody.pump(narrow, &never).env("TRANSLOAD_LOG", "").done().code(0);
    assert_eq!((&never.json()["memory"]["locked"], &*never.stderr), (&false.into(), ""));
    // What fits is locked.
    let fits = nobody.pump(narrow, &["--lock", "require", "--json", "--messages", "10", "--capacity", "64"]);
    assert_eq!(fits.done().code(0).json()["memory"]["locked"], true);
}

#[test]
fn a_ring_of_a_gibibyte() {
    let run =
        pump(&["--capacity", "1024", "--message-size", "1MiB", "--lock", "never", "--json", "--verify"]);
    let document = run.args(["--messages", "20"]).done().code(0).json();
    assert_eq!((count(&document, "verified"), &document["memory"]["slab_bytes"]), (20, &(1u64 << 30).into()));
}

#[test]
fn as_many_producers_as_there_can_be() {
    let run = pump(&["--producers", "1024", "--messages", "5000", "--capacity", "64", "--verify", "--json"]);
    assert_eq!(count(&run.done().code(0).json(), "verified"), 5000);
}

#[test]
fn the_smallest_of_everything() {
    let folder = tempfile::tempdir().unwrap();
    let to = arg(folder.path().join("to"));
    let run = pump(&["--capacity", "2", "--message-size", "1", "--batch-bytes", "1", "--in-flight", "1"]);
    let run =
        run.args(["--producers", "1", "--messages", "1000", "--batch-delay", "0s", "--verify", "--json"]);
    let document = run.args(["--read-back", &to]).done().code(0).json();
    assert_eq!(count(&document, "verified"), 1000);
    let expected: Vec<u8> = (0..1000u32).map(|number| number.to_le_bytes()[0]).collect();
    assert_eq!(fs::read(to).unwrap(), expected);
}
