//! `transload pump --verify`: where messages are checked, and why there; `--require-pinned`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

mod common;

use common::{Run, arg, count, opencl_or_skip, pump, vulkan_or_skip};
use serde_json::Value;

fn verified(run: Run, messages: u64, args: &[&str]) -> Value {
    let done =
        run.args(["--messages", &messages.to_string(), "--verify", "--json"]).args(args).done().code(0);
    let document = done.json();
    assert_eq!((count(&document, "verified"), count(&document, "corrupt")), (messages, 0), "{document}");
    document
}

/// In the report as a program reads it, and as a person does.
fn on_the_device(pump: impl Fn(&[&str]) -> Run) {
    for size in ["2", "3", "8", "9", "256", "1000"] {
        // Where batches are small, a tenth says as much.
        for (messages, args) in [
            (20_000, &[][..]),
            (2_000, &["--batch-bytes", "1"]),
            (2_000, &["--in-flight", "1", "--capacity", "8"]),
        ] {
            let document = verified(pump(&[]), messages, &[&["--message-size", size], args].concat());
            assert_eq!(document["verified_on"], "device", "{document}");
            assert_eq!(count(&document, "filtered") + count(&document, "output_bytes_total"), 0);
        }
    }
    // Whatever a policy drops is no fault of what comes.
    let args = ["--on-full", "drop-oldest", "--capacity", "64", "--messages", "100000", "--verify", "--json"];
    let document = pump(&args).done().json();
    assert_eq!(
        (count(&document, "corrupt"), count(&document, "verified")),
        (0, count(&document, "delivered"))
    );
    assert_eq!(document["verified_on"], "device");
    let done = pump(&["--messages", "1000", "--verify"]).done().code(0);
    assert!(done.text().contains("1000 messages, 0 corrupt, checked on the device\n"), "{}", done.text());
    // What the device cannot do, the host does, and says why.
    let folder = tempfile::tempdir().unwrap();
    let back = arg(folder.path().join("back"));
    for (args, words) in [
        (&["--messages", "100", "--read-back", &*back][..], "read back"),
        (&["--messages", "20", "--message-size", "1048577", "--capacity", "8"], "1048577"),
    ] {
        let document = pump(&["--verify", "--json"]).args(args).done().code(0).json();
        assert_eq!((&document["verified_on"], count(&document, "corrupt")), (&"host".into(), 0));
        let why = document["verified_on_host_because"].as_str().unwrap();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn generated_messages_are_checked_on_opencl_devices() {
    if opencl_or_skip("pump_verify::generated_messages_are_checked_on_opencl_devices") {
        on_the_device(|args| pump(args).args(["--to", "opencl"]));
    }
}

/// By the stand-in for its driver, whose twin of the check is told from one that finds nothing by a test of its own.
#[cfg(feature = "cuda")]
#[test]
fn generated_messages_are_checked_on_cuda_devices() {
    let driver = common::cuda::Driver::new();
    on_the_device(|args| driver.found_by(pump(args).args(["--to", "cuda"])));
}

#[test]
fn generated_messages_are_checked_on_vulkan_devices() {
    if vulkan_or_skip("pump_verify::generated_messages_are_checked_on_vulkan_devices") {
        on_the_device(|args| pump(args).args(["--to", "vulkan"]));
    }
}

#[test]
fn the_host_checks_what_is_on_it_and_what_was_not_generated() {
    let document = verified(pump(&["--to", "host"]), 20_000, &[]);
    assert_eq!(
        (&document["verified_on"], &document["verified_on_host_because"]),
        (&"host".into(), &"that is the device".into())
    );
    let document = pump(&["--messages", "10", "--json"]).done().code(0).json();
    assert!(document["verified_on"].is_null() && document["verified"].is_null(), "{document}");
    let done = pump(&["--from", "-", "--verify", "--json"]).input("some text").done().code(0);
    assert!(
        done.json()["verified_on_host_because"].as_str().unwrap().contains("generated"),
        "{}",
        done.text()
    );
}

/// The host is reached directly, and so are what emulates devices on it: whoever insists gets it.
#[test]
fn memory_that_is_reached_directly_can_be_required() {
    let document = pump(&["--require-pinned", "--messages", "10", "--json"]).done().code(0).json();
    assert_eq!(document["device"]["registration"], "mapped");
    let run = pump(&["--messages", "10", "--json"]).env("TRANSLOAD_REQUIRE_PINNED", "1");
    assert_eq!(count(&run.done().code(0).json(), "delivered"), 10);
}

/// Whatever doctor says of a device is what a pump finds that insists.
#[test]
fn what_doctor_says_is_what_can_be_required() {
    let report = common::transload(["doctor", "--json", "--quick"]).done().code(0);
    let report: Value = serde_json::from_str(report.text()).unwrap();
    for device in report["devices"].as_array().unwrap() {
        let direct = ["pinned", "mapped"].contains(&device["memory"]["registration"].as_str().unwrap());
        let to = device["name"].as_str().unwrap();
        let done = pump(&["--to", to, "--require-pinned", "--messages", "10", "--json"]).done();
        let done = done.code(if direct { 0 } else { 4 });
        let document = done.json();
        if !direct {
            assert_eq!(document["error"]["kind"], "registration");
            let message = document["error"]["message"].as_str().unwrap();
            assert!(message.contains("were to be pinned, and would be staged ("), "{message}");
        }
    }
}
