//! `transload pump --kernel`: batches go through a kernel of the user's, and outputs come back in their order.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

mod common;

use std::fs;

use common::kernel::{example, fnv1a, write_kernel};
use common::{Done, arg, assert_same, count, device_or_skip, noise, opencl_or_skip, pump, vulkan_or_skip};

/// 100 MB in messages of 256 bytes.
const LEN: usize = 100_000_000;
const MESSAGE: usize = 256;

/// A pump of a file in `fixed` messages through an example; its outputs.
fn checksums(to: &str, kernel: &str, bytes: &[u8], args: &[&str]) -> (Done, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let [from, out] = ["from", "out"].map(|name| arg(folder.path().join(name)));
    fs::write(&from, bytes).unwrap();
    let run = pump(&["--to", to, "--kernel", kernel, "--from", &from, "--framing", "fixed"]);
    let done = run.args(["--read-back", &out, "--json"]).args(args).done().code(0);
    (done, fs::read(&out).unwrap())
}

fn checksum_of_a_large_file(to: &str, kernel: &str) {
    let bytes = noise(LEN);
    let (done, out) = checksums(to, kernel, &bytes, &[]);
    let expected: Vec<u8> = bytes.chunks(MESSAGE).flat_map(|message| fnv1a(message).to_le_bytes()).collect();
    assert_same(&out, &expected, kernel);
    let document = done.json();
    assert_eq!(count(&document, "delivered"), (LEN / MESSAGE) as u64);
    assert_eq!(count(&document, "output_bytes_total"), (LEN / MESSAGE * 8) as u64);
    assert_eq!((count(&document, "filtered"), count(&document, "dropped")), (0, 0));
    assert_eq!(
        (&document["kernel"]["file"], &document["kernel"]["entry"]),
        (&kernel.split(':').next().into(), &"fnv1a".into())
    );
    assert_eq!(document["device"]["backend"], to);
}

#[test]
fn checksums_of_a_large_file_on_opencl_are_those_of_the_host() {
    if opencl_or_skip("kernels::checksums_of_a_large_file_on_opencl_are_those_of_the_host") {
        checksum_of_a_large_file("opencl", &example("checksum.cl:fnv1a"));
    }
}

#[test]
fn checksums_of_a_large_file_on_vulkan_are_those_of_the_host() {
    if vulkan_or_skip("kernels::checksums_of_a_large_file_on_vulkan_are_those_of_the_host") {
        checksum_of_a_large_file("vulkan", &example("checksum.spv:fnv1a"));
    }
}

/// A wrong kernel makes other sums: the comparison above can fail.
fn is_caught(to: &str, kernel: &str) {
    let bytes = noise(MESSAGE * 100);
    let (_, out) = checksums(to, kernel, &bytes, &[]);
    let expected: Vec<u8> = bytes.chunks(MESSAGE).flat_map(|message| fnv1a(message).to_le_bytes()).collect();
    assert_eq!(out.len(), expected.len());
    assert_ne!(out, expected);
}

#[test]
fn a_kernel_that_leaves_out_a_byte_is_caught() {
    if !opencl_or_skip("kernels::a_kernel_that_leaves_out_a_byte_is_caught") {
        return;
    }
    let text = fs::read_to_string(example("checksum.cl")).unwrap();
    let broken = text.replace("byte < transload_length(i)", "byte < transload_length(i) - 1");
    assert_ne!(text, broken);
    let folder = tempfile::tempdir().unwrap();
    is_caught("opencl", &write_kernel(folder.path(), "broken.cl:fnv1a", &broken));
}

#[test]
fn a_kernel_that_begins_with_another_number_is_caught() {
    if !vulkan_or_skip("kernels::a_kernel_that_begins_with_another_number_is_caught") {
        return;
    }
    let mut module = fs::read(example("checksum.spv")).unwrap();
    let first = 0x8422_2325_u32.to_le_bytes();
    let at = module.windows(4).position(|word| word == first).expect("what FNV-1a begins with");
    module[at] ^= 1;
    let folder = tempfile::tempdir().unwrap();
    is_caught("vulkan", &write_kernel(folder.path(), "broken.spv:fnv1a", module));
}

/// Batches of all sizes, with the last one short, on the second of two devices.
#[test]
fn the_second_device_runs_it_too() {
    if !opencl_or_skip("kernels::the_second_device_runs_it_too") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [from, out] = ["from", "out"].map(|name| arg(folder.path().join(name)));
    let bytes = noise(24 * 10_007);
    fs::write(&from, &bytes).unwrap();
    for batch in ["1", "1000", "64KiB"] {
        let kernel = example("checksum.cl:fnv1a");
        let run =
            pump(&["--to", "opencl:1", "--kernel", &kernel, "--from", &from, "--framing", "fixed", "--json"])
                .args([
                    "--message-size",
                    "24",
                    "--capacity",
                    "64",
                    "--batch-bytes",
                    batch,
                    "--read-back",
                    &out,
                ])
                .env("POCL_DEVICES", "pthread pthread");
        let document = run.done().code(0).json();
        assert_eq!(count(&document, "output_bytes_total"), 8 * 10_007);
        let expected: Vec<u8> = bytes.chunks(24).flat_map(|message| fnv1a(message).to_le_bytes()).collect();
        assert_same(&fs::read(&out).unwrap(), &expected, batch);
    }
    // And there is no third.
    let run = pump(&["--to", "opencl:2", "--messages", "1"]).env("POCL_DEVICES", "pthread pthread");
    assert!(run.done().code(4).stderr.contains("opencl has 2"));
}

/// What the filter of the examples makes of lines.
fn keep_even<'a>(lines: impl Iterator<Item = &'a [u8]>, most: usize) -> (Vec<u8>, u64) {
    let (mut kept, mut filtered) = (Vec::new(), 0);
    for line in lines {
        match line.first() {
            Some(first) if first % 2 == 0 => {
                kept.extend_from_slice(&line[..line.len().min(most)]);
                kept.push(b'\n');
            }
            _ => filtered += 1,
        }
    }
    (kept, filtered)
}

fn filters_lines(to: &str, kernel: &str) {
    let mut text: Vec<u8> =
        (0..50_000_u32).flat_map(|n| format!("{n} and {}\n", n % 7).into_bytes()).collect();
    text.extend_from_slice(b"\n\n0");
    text.extend_from_slice("long ".repeat(30).as_bytes());
    text.extend_from_slice(b"\n2 without an end");
    let lines = || text.split(|&byte| byte == b'\n');
    for (room, args) in [(256, &[][..]), (16, &["--output-bytes", "16"])] {
        let run = pump(&["--to", to, "--kernel", kernel, "--from", "-", "--framing", "lines"]);
        let done = run.args(["--read-back", "-", "--json"]).args(args).input(text.clone()).done().code(0);
        let (expected, filtered) = keep_even(lines(), room);
        assert_same(&done.stdout, &expected, to);
        let document = done.json_of_stderr();
        assert_eq!(count(&document, "filtered"), filtered, "filtered messages are delivered: exit code 0");
        assert_eq!(count(&document, "delivered"), lines().count() as u64);
        let ends = lines().count() as u64 - filtered;
        assert_eq!(count(&document, "output_bytes_total"), expected.len() as u64 - ends);
    }
}

#[test]
fn a_filter_of_lines_on_opencl_is_that_of_the_host() {
    if opencl_or_skip("kernels::a_filter_of_lines_on_opencl_is_that_of_the_host") {
        filters_lines("opencl", &example("filter.cl:keep_even"));
    }
}

#[test]
fn a_filter_of_lines_on_vulkan_is_that_of_the_host() {
    if vulkan_or_skip("kernels::a_filter_of_lines_on_vulkan_is_that_of_the_host") {
        filters_lines("vulkan", &example("filter.spv:keep_even"));
    }
}

/// Outputs of measured messages are measured, and those of a stream lie behind each other.
#[test]
fn outputs_are_framed_as_messages_are() {
    for (to, kernel) in [("opencl", "filter.cl:keep_even"), ("vulkan", "filter.spv:keep_even")] {
        if device_or_skip(to, "kernels::outputs_are_framed_as_messages_are") {
            frames_outputs(to, &example(kernel));
        }
    }
}

fn frames_outputs(to: &str, kernel: &str) {
    let payloads = [&b"2 two"[..], b"", b"3 three", b"4", b"5"];
    let framed = |payloads: &[&[u8]], length: fn(u32) -> [u8; 4]| {
        let one = |payload: &&[u8]| [&length(u32::try_from(payload.len()).unwrap())[..], payload].concat();
        payloads.iter().flat_map(one).collect::<Vec<u8>>()
    };
    for (framing, length) in [("u32le", u32::to_le_bytes as fn(u32) -> [u8; 4]), ("u32be", u32::to_be_bytes)]
    {
        let run = pump(&["--to", to, "--kernel", kernel, "--from", "-", "--framing", framing]);
        let done = run.args(["--read-back", "-", "-q"]).input(framed(&payloads, length)).done().code(0);
        assert_same(&done.stdout, &framed(&[b"2 two", b"4"], length), framing);
    }
    let run = pump(&["--to", to, "--kernel", kernel, "--from", "-", "--message-size", "4", "-q"]);
    let done = run.args(["--framing", "stream", "--read-back", "-"]).input("2aaa3bbb4c").done().code(0);
    assert_same(&done.stdout, b"2aaa4c", "stream");
    // Without --read-back they are counted.
    let run = pump(&["--to", to, "--kernel", kernel, "--messages", "1000", "--producers", "1", "--json"]);
    let document = run.done().code(0).json();
    assert_eq!((count(&document, "filtered"), count(&document, "output_bytes_total")), (500, 500 * 256));
    assert!(document["verified"].is_null(), "{document}");
}

/// The compiler's words, exit code 1, and nothing is done to the file.
#[test]
fn what_does_not_build_says_why() {
    if !opencl_or_skip("kernels::what_does_not_build_says_why") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = arg(folder.path().join("out"));
    fs::write(&out, "kept").unwrap();
    let text =
        "#include \"transload_device.h\"\nTRANSLOAD_KERNEL k(TRANSLOAD_BATCH) {\n    no_such_word = 1;\n}\n";
    let kernel = write_kernel(folder.path(), "wrong.cl:k", text);
    let done =
        pump(&["--to", "opencl", "--kernel", &kernel, "--messages", "1", "--read-back", &out]).done().code(1);
    assert!(done.text().is_empty() && done.stderr.contains("no_such_word"), "{}", done.stderr);
    assert!(done.stderr.contains("transload: the kernel `k` does not build"), "{}", done.stderr);
    let document =
        pump(&["--to", "opencl", "--kernel", &kernel, "--messages", "1", "--json"]).done().code(1).json();
    assert_eq!(document["error"]["kind"], "kernel");
    assert!(document["error"]["message"].as_str().unwrap().contains("no_such_word"), "{document}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "kept");
    // Another name than the file has.
    let done = pump(&["--to", "opencl", "--kernel", &example("checksum.cl:fnv2a"), "--messages", "1"])
        .done()
        .code(1);
    for word in ["`fnv2a`", "fnv1a"] {
        assert!(done.stderr.contains(word), "{}", done.stderr);
    }
}

/// A module that is not whole or not there is refused before a driver has it, and a name that it has not by what it has.
#[test]
fn what_is_no_module_says_why() {
    if !vulkan_or_skip("kernels::what_is_no_module_says_why") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let module = fs::read(example("checksum.spv")).unwrap();
    let written = |bytes: &[u8]| write_kernel(folder.path(), "broken.spv:fnv1a", bytes);
    for (bytes, words) in [
        (&b""[..], "no SPIR-V"),
        (b"__kernel void fnv1a() {}", "no SPIR-V"),
        (&module[..module.len() - 1], "cut off"),
        // An instruction, and a function, less.
        (&module[..module.len() - 4], "cut off"),
        (&module[..module.len() / 2 / 4 * 4], "cut off"),
    ] {
        let args = ["--to", "vulkan", "--kernel", &written(bytes), "--messages", "1"];
        let done = pump(&args).done().code(1);
        assert!(done.text().is_empty() && done.stderr.contains(words), "{}", done.stderr);
        assert!(done.stderr.contains("transload: the kernel `fnv1a` does not build"), "{}", done.stderr);
        assert_eq!(pump(&args).args(["--json"]).done().code(1).json()["error"]["kind"], "kernel");
    }
    for (kernel, words) in [("checksum.spv:fnv2a", "it has fnv1a"), ("echo.spv:echo", "for queues")] {
        let done = pump(&["--to", "vulkan", "--kernel", &example(kernel), "--messages", "1"]).done().code(1);
        assert!(done.stderr.contains(words), "{}", done.stderr);
    }
}

#[test]
fn an_output_beyond_its_room_ends_the_pump() {
    if !opencl_or_skip("kernels::an_output_beyond_its_room_ends_the_pump") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = "#include \"transload_device.h\"\nTRANSLOAD_KERNEL k(TRANSLOAD_BATCH) {\n    transload_uint i = \
                transload_index();\n    if (i < transload_count())\n        transload_set_length(i, 1001);\n}\n";
    let kernel = write_kernel(folder.path(), "long.cl:k", text);
    let document =
        pump(&["--to", "opencl", "--kernel", &kernel, "--messages", "10", "--json"]).done().code(1).json();
    assert_eq!(
        (&document["error"]["kind"], &document["error"]["fix"]),
        (&"kernel".into(), &"use --output-bytes 1004".into())
    );
    let message = document["error"]["message"].as_str().unwrap();
    assert!(message.contains("1001") && message.contains("256"), "{message}");
    let run = pump(&[
        "--to",
        "opencl",
        "--kernel",
        &kernel,
        "--messages",
        "10",
        "--output-bytes",
        "1004",
        "--json",
    ]);
    assert_eq!(count(&run.done().code(0).json(), "output_bytes_total"), 10_010);
}

/// Each device takes its own languages, and says which.
#[test]
fn kernels_of_another_language_are_refused() {
    let kernel = example("checksum.cl:fnv1a");
    let done = pump(&["--kernel", &kernel, "--messages", "1"]).done().code(1);
    for word in ["host takes no OpenCL C", "--to opencl takes .cl"] {
        assert!(done.stderr.contains(word), "{}", done.stderr);
    }
    if opencl_or_skip("kernels::kernels_of_another_language_are_refused") {
        let kernel = example("checksum.spv:fnv1a");
        let done = pump(&["--to", "opencl", "--kernel", &kernel, "--messages", "1"]).done().code(1);
        assert!(done.stderr.contains("opencl takes no SPIR-V"), "{}", done.stderr);
    }
    if vulkan_or_skip("kernels::kernels_of_another_language_are_refused") {
        let done = pump(&["--to", "vulkan", "--kernel", &kernel, "--messages", "1"]).done().code(1);
        for word in ["vulkan takes no OpenCL C", "--to vulkan takes .spv"] {
            assert!(done.stderr.contains(word), "{}", done.stderr);
        }
    }
}

#[test]
fn files_that_are_no_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let text = write_kernel(folder.path(), "kernel.txt:k", "");
    let bytes = folder.path().join("bytes.cl");
    fs::write(&bytes, b"\xff\xfe").unwrap();
    for (kernel, code, words) in [
        ("/not/there.cl:k".to_owned(), 1, &["/not/there.cl", "to do: name a file"][..]),
        (arg(folder.path()) + "/.cl:k", 2, &[".cl"]),
        (text, 2, &["kernel.txt", ".spv"]),
        (arg(bytes) + ":k", 1, &["bytes.cl"]),
    ] {
        let done = pump(&["--kernel", &kernel, "--messages", "1"]).done().code(code);
        for word in words {
            assert!(done.stderr.contains(word), "{kernel}: {}", done.stderr);
        }
    }
}
