//! 100 MB and one byte, there and back, at the default sizes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails in a helper of a test fails the test")]

mod common;

use std::fs::File;

use common::{arg, assert_same, count, noise, opencl_or_skip, pump, vulkan_or_skip};

const LEN: usize = 100_000_001;

fn there_and_back(to: &str) {
    let folder = tempfile::tempdir().unwrap();
    let [from, back] = ["from", "back"].map(|name| arg(folder.path().join(name)));
    let bytes = noise(LEN);
    std::fs::write(&from, &bytes).unwrap();
    let check = |document: &serde_json::Value| {
        assert_eq!(count(document, "delivered"), LEN.div_ceil(256) as u64);
        assert_eq!((&document["stopped_by"], &document["device"]["backend"]), (&"end".into(), &to.into()));
    };

    let done = pump(&["--to", to, "--from", &from, "--read-back", &back, "--json"]).done().code(0);
    check(&done.json());
    assert_same(&std::fs::read(&back).unwrap(), &bytes, "through files");

    let run = pump(&["--to", to, "--from", "-", "--read-back", "-", "--json", "--verify"]);
    let done = run.input_from(File::open(&from).unwrap()).done().code(0);
    let document = done.json_of_stderr();
    check(&document);
    assert_eq!(
        (count(&document, "verified"), count(&document, "corrupt")),
        (count(&document, "delivered"), 0)
    );
    assert_same(&done.stdout, &bytes, "through the standard streams");
}

#[test]
fn a_large_file_comes_back_from_the_host() {
    there_and_back("host");
}

#[test]
fn a_large_file_comes_back_from_opencl() {
    if opencl_or_skip("pump_large::a_large_file_comes_back_from_opencl") {
        there_and_back("opencl");
    }
}

#[test]
fn a_large_file_comes_back_from_vulkan() {
    if vulkan_or_skip("pump_large::a_large_file_comes_back_from_vulkan") {
        there_and_back("vulkan");
    }
}
