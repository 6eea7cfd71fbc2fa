//! What does not make sense is refused: with exit code 2, in one line, before anything is done.
//!
//! These tests also run in a release build, where arithmetic that overflows does not panic.
#![cfg(target_os = "linux")]

mod common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use common::{Done, arg, pump, transload};

const OPTIONS: [&str; 30] = [
    "from",
    "to",
    "message-size",
    "capacity",
    "producers",
    "messages",
    "duration",
    "allow-uid",
    "connections",
    "io",
    "direct",
    "pool-buffers",
    "framing",
    "batch-bytes",
    "batch-delay",
    "in-flight",
    "on-full",
    "pages",
    "pages-policy",
    "lock",
    "numa-node",
    "read-back",
    "verify",
    "kernel",
    "output-bytes",
    "require-pinned",
    "drain-timeout",
    "stats-interval",
    "json",
    "quiet",
];

/// Options with a default, and the default.
const DEFAULTS: [(&str, &str); 16] = [
    ("from", "gen"),
    ("to", "auto"),
    ("message-size", "256"),
    ("capacity", "16384"),
    ("producers", "2"),
    ("io", "auto"),
    ("pool-buffers", "16"),
    ("framing", "stream"),
    ("batch-bytes", "256KiB"),
    ("batch-delay", "50us"),
    ("in-flight", "4"),
    ("on-full", "block"),
    ("pages", "default"),
    ("pages-policy", "prefer"),
    ("lock", "prefer"),
    ("drain-timeout", "10s"),
];

fn variable(option: &str) -> String {
    format!("TRANSLOAD_{}", option.to_uppercase().replace('-', "_"))
}

/// Refused in one line that names each of `words`.
#[track_caller]
fn assert_usage(done: Done, words: &[&str]) {
    let done = done.code(2);
    assert!(done.stdout.is_empty(), "{}: {}", done.what, done.text());
    assert_eq!(done.stderr.lines().count(), 1, "{}: {}", done.what, done.stderr);
    for word in words {
        assert!(done.stderr.contains(word), "{}: no {word} in {}", done.what, done.stderr);
    }
}

#[track_caller]
fn refused(args: &[&str], words: &[&str]) {
    assert_usage(pump(args).done(), words);
    // The same in a program's hands: there was no run to report on.
    assert_usage(pump(args).args(["--json"]).done(), words);
}

#[test]
fn values_that_make_no_sense() {
    const NUMBERS: &[&str] = &["-1", "", "x", "1.5.2", "99999999999999999999999999", "0x10", "NaN", "١"];
    for (option, values) in [
        ("--capacity", &["0", "1", "3", "15", "2147483649", "4294967296", "9223372036854775808", "-2"][..]),
        ("--message-size", &["0", "8EiB", "16EiB", "17EiB", "-5KiB", "9223372036854775808", "KiB"]),
        ("--batch-bytes", &["0", "8EiB", "16EiB", "17EiB"]),
        ("--in-flight", &["0", "65", "65536", "4294967297", "18446744073709551617"]),
        ("--producers", &["0", "1025", "65535", "65536", "4294967297"]),
        ("--messages", &["18446744073709551616", "1.5"]),
        ("--numa-node", &["4294967296"]),
    ] {
        for value in values.iter().chain(NUMBERS) {
            refused(&[&format!("{option}={value}")], &[option]);
            assert_usage(pump(&[]).env(&variable(&option[2..]), value).done(), &[option]);
        }
    }
    for option in ["--duration", "--batch-delay", "--drain-timeout", "--stats-interval"] {
        for value in ["", "5", "-1s", "x", "1 parsec", "99999999999999999999999s"] {
            refused(&[&format!("{option}={value}")], &[option]);
            assert_usage(pump(&[]).env(&variable(&option[2..]), value).done(), &[option]);
        }
    }
    for value in ["0", "-1", "", "x", "3", "66", "4GiB", "8EiB"] {
        refused(&["--kernel=a.cl:k", &format!("--output-bytes={value}")], &["--output-bytes"]);
    }
    refused(&["--kernel=a.cl:k", "--output-bytes=66"], &["use 68"]);
    for value in ["", "a.cl", "a.cl:", ":k", "a.cl:1", "a.cl:k k"] {
        refused(&[&format!("--kernel={value}")], &["--kernel"]);
        assert_usage(pump(&[]).env("TRANSLOAD_KERNEL", value).done(), &["--kernel"]);
    }
    for option in ["--framing", "--on-full", "--pages", "--pages-policy", "--lock"] {
        for value in ["", "x", "BLOCK", "2m", "\u{7f}"] {
            refused(&["--from=-", &format!("{option}={value}")], &[option]);
            assert_usage(pump(&[]).env(&variable(&option[2..]), value).done(), &[option]);
        }
    }
    refused(&["--framing=csv", "--from=-"], &["--framing", "stream", "fixed", "lines", "u32le", "u32be"]);
    refused(&["--on-full=wait"], &["block", "reject", "drop-oldest", "drop-new"]);
    for option in ["verify", "json", "quiet", "require-pinned"] {
        assert_usage(pump(&[]).env(&variable(option), "maybe").done(), &[option]);
    }
}

#[test]
fn device_names() {
    for name in ["", "gpu", "OPENCL", "opencl:", "opencl:-1", "opencl:x", "auto:0", "host:", "cuda:1:2"] {
        assert_usage(transload(["pump", "--to", name]).done(), &["--to", "opencl"]);
        assert_usage(transload(["pump"]).env("TRANSLOAD_TO", name).done(), &["--to"]);
    }
}

#[test]
fn products_that_overflow() {
    let half = "4611686018427387904"; // 2^62
    for args in [
        &["--capacity", "2", "--message-size", half][..],
        &["--capacity", "2147483648", "--message-size", "4294967296"],
        &["--capacity", "2147483648", "--message-size", "8EiB"],
        &["--capacity", "4", "--message-size", "9223372036854775807"],
    ] {
        // `8EiB` is too much by itself; the others are too much together.
        for source in [&["--from", "gen"][..], &["--from", "/dev/null", "--framing", "fixed"]] {
            refused(&[source, args].concat(), &["--message-size"]);
        }
        for framing in ["stream", "lines", "u32le", "u32be"] {
            refused(
                &[&["--from", "/dev/null", "--framing", framing][..], args].concat(),
                &["--message-size"],
            );
        }
    }
    // The header alone makes it too much.
    for framing in ["stream", "lines", "u32le", "u32be"] {
        let args =
            ["--from", "/dev/null", "--framing", framing, "--capacity", "2147483648", "--message-size"];
        refused(&[&args[..], &["4294967295"]].concat(), &["--capacity", "--message-size"]);
        refused(&[&args[..], &["4294967296"]].concat(), &["--message-size"]);
        refused(&[&args[..], &["9223372036854775807"]].concat(), &["--message-size"]);
    }
}

#[test]
fn producers_that_messages_cannot_tell_apart() {
    refused(&["--producers", "257", "--message-size", "1"], &["257", "--message-size"]);
    pump(&["--producers", "2", "--message-size", "1", "--messages", "300", "--verify"]).done().code(0);
}

#[test]
fn options_that_do_not_go_together() {
    refused(&["--framing", "lines"], &["--framing", "--from"]);
    refused(&["--framing", "fixed", "--from", "gen"], &["--framing", "--from"]);
    refused(&["--verify", "--verify"], &["--verify"]);
    refused(&["--kernel", "a.cl:k", "--verify"], &["--kernel", "--verify", "outputs"]);
    refused(&["--output-bytes", "8"], &["--output-bytes", "--kernel"]);
    refused(&["--capacity", "4", "--capacity", "8"], &["--capacity"]);
}

#[test]
fn read_back_onto_the_input() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| arg(folder.path().join(name));
    std::fs::write(path("input"), "precious").unwrap();
    std::os::unix::fs::symlink("input", path("symlink")).unwrap();
    std::fs::hard_link(path("input"), path("hardlink")).unwrap();
    std::fs::create_dir(path("sub")).unwrap();
    let append = || std::fs::File::options().append(true).open(path("input")).unwrap();
    for (from, to) in [
        ("input", "input"),
        ("input", "symlink"),
        ("symlink", "input"),
        ("input", "hardlink"),
        ("hardlink", "symlink"),
        ("sub/../input", "input"),
    ] {
        refused(&["--from", &path(from), "--read-back", &path(to)], &["--read-back", "--from"]);
        // As the shell does it for `< input`.
        let input = std::fs::File::open(path(from)).unwrap();
        let run = pump(&["--from", "-", "--read-back", &path(to)]).input_from(input);
        assert_usage(run.done(), &["--read-back", "--from"]);
    }
    // As the shell does it for `>> input`: what is written would be read again, without an end.
    let run = pump(&["--from", &path("input"), "--read-back", "-"]).output_to(append());
    assert_usage(run.done(), &["--read-back", "--from"]);
    assert_eq!(std::fs::read_to_string(path("input")).unwrap(), "precious");
    // What is no file is no danger.
    pump(&["--from", "/dev/null", "--read-back", "/dev/null"]).done().code(0);
    pump(&["--from", &path("input"), "--read-back", &path("other")]).done().code(0);
    assert_eq!(std::fs::read_to_string(path("other")).unwrap(), "precious");
}

#[test]
fn nothing_is_made_or_emptied_before_the_options_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let path = arg(folder.path().join("kept"));
    std::fs::write(&path, "kept").unwrap();
    refused(&["--read-back", &path, "--capacity", "15"], &["--capacity"]);
    refused(&["--read-back", &path, "--framing", "lines"], &["--framing"]);
    pump(&["--read-back", &path, "--from", "/not/there"]).done().code(1);
    transload(["pump", "--read-back", &path, "--to", "cuda:99"]).done().code(4);
    pump(&["--read-back", &path, "--numa-node", "4000000000"]).done().code(4);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
}

#[test]
fn unknown_words() {
    for args in [
        &["pump", "--frming", "lines"][..],
        &["pump", "--framing"],
        &["pump", "extra"],
        &["pump", "-x"],
        &["pump", "--json=true"],
        &["pump", "--two\nlines"],
        &["pump", "--capacity=two\nlines"],
        &["pmp"],
        &["--pump"],
        &["doctor", "--to", "host"],
        &["doctor", "extra"],
    ] {
        let known = args.iter().find(|word| !["pump", "doctor"].contains(word)).expect("one");
        let word = known.split(['=', '\n']).next().expect("one");
        assert_usage(transload(args.iter()).done(), &[word]);
    }
    assert_usage(transload(["pump", "--frming", "lines"]).done(), &["'--framing'"]);
}

#[test]
fn words_that_are_no_text() {
    let odd = OsStr::from_bytes(b"\xff\xfe");
    for (option, word) in
        [("--to", "UTF-8"), ("--capacity", "UTF-8"), ("--framing", "--framing"), ("--duration", "UTF-8")]
    {
        assert_usage(transload([OsStr::new("pump"), OsStr::new(option), odd]).done(), &[word]);
    }
    assert_usage(transload([odd]).done(), &[]);
    assert_usage(pump(&[]).env("TRANSLOAD_CAPACITY", odd).done(), &["UTF-8"]);
}

/// The names of files are bytes.
#[test]
fn files_with_names_that_are_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] =
        [&b"from\xff"[..], b"to\xfe"].map(|name| folder.path().join(Path::new(OsStr::from_bytes(name))));
    std::fs::write(&from, "abc").unwrap();
    let run =
        pump(&[]).args([OsStr::new("--from"), from.as_os_str(), OsStr::new("--read-back"), to.as_os_str()]);
    run.done().code(0);
    assert_eq!(std::fs::read(&to).unwrap(), b"abc");
}

#[test]
fn the_filter_of_the_log() {
    assert_usage(pump(&["--messages", "1"]).env("TRANSLOAD_LOG", "a=b=c,[[[").done(), &["TRANSLOAD_LOG"]);
    for filter in ["", "debug", "transload=trace", "off"] {
        pump(&["--messages", "1"]).env("TRANSLOAD_LOG", filter).done().code(0);
    }
}

#[test]
fn variables_stand_in_for_options() {
    let done = transload(["pump"])
        .env("TRANSLOAD_TO", "host")
        .env("TRANSLOAD_MESSAGES", "100")
        .env("TRANSLOAD_MESSAGE_SIZE", "24")
        .env("TRANSLOAD_CAPACITY", "8")
        .env("TRANSLOAD_VERIFY", "1")
        .env("TRANSLOAD_JSON", "true")
        .done()
        .code(0);
    let document = done.json();
    assert_eq!((&document["verified"], &document["bytes"]), (&100.into(), &2400.into()));
    assert_eq!(document["memory"]["slab_bytes"], 8 * 24);
    // The option goes first.
    let done = pump(&["--messages", "5", "--json"]).env("TRANSLOAD_MESSAGES", "100").done().code(0);
    assert_eq!(done.json()["accepted"], 5);
    for value in ["0", "false", "no", "off"] {
        let done = pump(&["--messages", "5"]).env("TRANSLOAD_JSON", value).done().code(0);
        assert!(done.text().contains("accepted     5 messages"), "{}", done.text());
    }
}

#[test]
fn help_shows_each_option_with_its_variable_and_default() {
    let help = transload(["pump", "--help"]).done().code(0);
    let words: Vec<&str> = help.text().split_whitespace().collect();
    let text = format!(" {} ", words.join(" "));
    for option in OPTIONS {
        assert!(text.contains(&format!(" --{option} ")), "--{option}");
        assert!(text.contains(&format!("[env: {}", variable(option))), "{}", variable(option));
    }
    let count = |word: &str| words.iter().filter(|&&other| other.starts_with(word)).count();
    assert_eq!(count("TRANSLOAD_"), OPTIONS.len() + 1, "and the filter of the log");
    assert!(text.contains("TRANSLOAD_LOG"));
    for (option, default) in DEFAULTS {
        let (_, rest) = text.split_once(&format!(" --{option} ")).unwrap();
        let own = rest.split(" --").next().unwrap();
        assert!(own.contains(&format!("[default: {default}]")), "--{option}: {own}");
    }
    // Each option that the help has is in the list above.
    for word in &words {
        if let Some(option) = word.strip_prefix("--").map(|word| word.trim_end_matches([',', '.', ':', '`']))
            && !["help", "help')"].contains(&option)
        {
            assert!(OPTIONS.contains(&option), "{word}");
        }
    }
}

#[test]
fn help_and_version_are_results() {
    for args in [&["--help"][..], &["-h"], &["pump", "-h"], &["doctor", "--help"], &["help", "pump"]] {
        let done = transload(args.iter()).done().code(0);
        assert!(done.stderr.is_empty() && done.text().contains("Usage: transload"), "{}", done.text());
    }
    for args in ["--version", "-V"] {
        let done = transload([args]).done().code(0);
        assert_eq!(done.text(), concat!("transload ", env!("CARGO_PKG_VERSION"), "\n"));
    }
    for args in [&["--help"][..], &["--version"], &["pump", "--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let done = transload(args.iter()).output_to(full).done().code(1);
        assert!(done.stderr.contains("No space left on device"), "{}", done.stderr);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(transload(args.iter()).output_to(writer).done().code(0).stderr, "");
    }
    // Without a command there is nothing to do: what there is, on the standard error.
    let done = transload::<&str>([]).done().code(2);
    assert!(done.stdout.is_empty() && done.stderr.contains("Usage: transload"), "{}", done.stderr);
}
