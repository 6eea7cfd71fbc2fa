//! What OpenCL says on machines that this one is made to look like, each in a process of its own.

use std::fs;
use std::process::Command;

use transload_conformance::{opencl, skip::skip, watchdog::output};

/// The probe's answer, with environment variables added.
fn probe(variables: &[(&str, &str)]) -> String {
    probe_for(&[], variables)
}

/// As [`probe`], and what the probe is asked.
fn probe_for(what: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_device-probe"));
    command
        .arg("opencl")
        .args(what)
        .env_remove("OCL_ICD_VENDORS")
        .env_remove("OPENCL_DYLIB_PATH")
        .env_remove("POCL_DEVICES");
    let output = output(command.envs(variables.iter().copied()));
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{variables:?}: {:?}\n{stdout}{stderr}", output.status);
    assert!(!stderr.contains("panicked"), "{stderr}");
    stdout
}

fn is_unavailable(answer: &str) {
    assert!(answer.starts_with("absent: opencl is not available: "), "{answer}");
    assert!(answer.contains("nstall"), "it says what to install: {answer}");
}

#[test]
fn no_driver_is_unavailable() {
    let empty = tempfile::tempdir().unwrap();
    is_unavailable(&probe(&[("OCL_ICD_VENDORS", empty.path().to_str().unwrap())]));
    is_unavailable(&probe(&[("OCL_ICD_VENDORS", "/does/not/exist")]));
}

#[test]
fn a_broken_driver_is_unavailable() {
    let vendors = tempfile::tempdir().unwrap();
    fs::write(vendors.path().join("missing.icd"), "libthere-is-no-such-driver.so.1\n").unwrap();
    is_unavailable(&probe(&[("OCL_ICD_VENDORS", vendors.path().to_str().unwrap())]));
    fs::write(vendors.path().join("other.icd"), "libc.so.6\n").unwrap();
    fs::write(vendors.path().join("garbage.icd"), [0xff, 0, 0xfe]).unwrap();
    is_unavailable(&probe(&[("OCL_ICD_VENDORS", vendors.path().to_str().unwrap())]));
}

#[test]
fn no_loader_is_unavailable() {
    // An empty file in front of the real one: the same answer to those who look for the library as none at all.
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("libOpenCL.so.1"), []).unwrap();
    let missing = folder.path().join("missing.so");
    let answer = probe(&[
        ("LD_LIBRARY_PATH", folder.path().to_str().unwrap()),
        ("OPENCL_DYLIB_PATH", missing.to_str().unwrap()),
    ]);
    is_unavailable(&answer);
    assert!(answer.contains("loader is not there"), "{answer}");
}

#[test]
fn a_library_that_is_no_loader_is_unavailable() {
    is_unavailable(&probe(&[("OPENCL_DYLIB_PATH", "libc.so.6")]));
}

#[test]
fn all_devices_are_counted() {
    if !opencl::is_pocl() {
        return skip("opencl_environment::all_devices_are_counted", "needs PoCL (pocl-opencl-icd)");
    }
    let answer = probe(&[("POCL_DEVICES", "pthread pthread")]);
    let lines: Vec<_> = answer.lines().collect();
    assert_eq!(lines.len(), 3, "{answer}");
    for (index, line) in lines[..2].iter().enumerate() {
        assert!(line.starts_with(&format!("opencl:{index} Cpu ")), "{answer}");
    }
    assert!(lines[2].ends_with("opencl has 2, counted from 0"), "{answer}");
}

/// The suite says the same of one device that is opened twice; these are two.
#[test]
fn one_slab_feeds_two_devices() {
    if !opencl::is_pocl() {
        return skip("opencl_environment::one_slab_feeds_two_devices", "needs PoCL (pocl-opencl-icd)");
    }
    let answer = probe_for(&["together"], &[("POCL_DEVICES", "pthread pthread")]);
    assert_eq!(answer, "opencl:0 and opencl:1: []\n");
}
