//! What CUDA says on machines that this one is made to look like, each in a process of its own.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use transload_conformance::cuda::path;
use transload_conformance::watchdog::output;

/// A folder with these as the driver's library.
fn folder(library: impl Fn(&Path)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        library(&folder.path().join(name));
    }
    folder
}

fn stand_in() -> TempDir {
    folder(|library| symlink(path(), library).unwrap())
}

/// The probe's answer: what it was asked, with the driver of a folder and environment variables added. It says nothing on
/// standard error.
fn probe(what: &[&str], driver: Option<&TempDir>, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_device-probe"));
    command.arg("cuda").args(what).env_remove("LD_LIBRARY_PATH").envs(variables.iter().copied());
    if let Some(driver) = driver {
        command.env("LD_LIBRARY_PATH", driver.path());
    }
    let output = output(&mut command);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{variables:?}: {:?}\n{stdout}{stderr}", output.status);
    assert_eq!(stderr, "", "{variables:?}");
    stdout
}

fn is_unavailable(answer: &str, words: &str) {
    assert!(answer.starts_with("absent: cuda is not available: "), "{answer}");
    assert!(answer.contains(words), "{answer}");
    assert!(["nstall", "nvidia-smi", "Restart"].iter().any(|advice| answer.contains(advice)), "{answer}");
}

#[test]
fn no_driver_is_unavailable() {
    let answer = probe(&[], None, &[]);
    // This machine may have one.
    if !answer.starts_with("cuda:0 ") {
        is_unavailable(&answer, "");
    }
}

#[test]
fn an_empty_library_is_unavailable() {
    let empty = folder(|library| fs::write(library, []).unwrap());
    is_unavailable(&probe(&[], Some(&empty), &[]), "libcuda.so.1 cannot be loaded");
    let garbage = folder(|library| fs::write(library, "this is no library").unwrap());
    is_unavailable(&probe(&[], Some(&garbage), &[]), "libcuda.so.1 cannot be loaded");
}

#[test]
fn a_library_that_is_no_driver_is_unavailable() {
    let other = folder(|library| symlink(libc(), library).unwrap());
    is_unavailable(&probe(&[], Some(&other), &[]), "has no cuInit");
}

/// A library that is there on any machine: the one of C, which this process has.
fn libc() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let path =
        maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("/libc"));
    PathBuf::from(path.expect("a process has the library of C"))
}

#[test]
fn a_driver_that_does_not_begin_says_what_to_do() {
    let driver = stand_in();
    for (code, words) in
        [("34", "stubs"), ("100", "CUDA_VISIBLE_DEVICES"), ("803", "Restart"), ("999", "nvidia-smi")]
    {
        let answer = probe(&[], Some(&driver), &[("TRANSLOAD_CUDA_STAND_IN_INIT", code)]);
        is_unavailable(&answer, words);
        assert!(answer.contains(code), "{answer}");
    }
    is_unavailable(&probe(&[], Some(&driver), &[("TRANSLOAD_CUDA_STAND_IN_DEVICES", "0")]), "nvidia-smi");
}

#[test]
fn all_devices_are_counted() {
    let answer = probe(&[], Some(&stand_in()), &[("TRANSLOAD_CUDA_STAND_IN_DEVICES", "3")]);
    let lines: Vec<_> = answer.lines().collect();
    assert_eq!(lines.len(), 4, "{answer}");
    for (index, line) in lines[..3].iter().enumerate() {
        assert_eq!(*line, format!("cuda:{index} Gpu stand-in for a CUDA device"));
    }
    assert!(lines[3].ends_with("cuda has 3, counted from 0"), "{answer}");
}

/// With devices, streams, regions, slabs and batches in flight alive at the end.
#[test]
fn a_process_ends_quietly_with_all_of_it_alive() {
    let answer = probe(&["keep"], Some(&stand_in()), &[]);
    assert_eq!(answer.lines().count(), 3, "{answer}");
}

#[test]
fn a_forked_child_is_told_and_does_not_hang() {
    let answer = probe(&["fork"], Some(&stand_in()), &[]);
    assert_eq!(answer.matches("the child was told").count(), 2, "{answer}");
}
