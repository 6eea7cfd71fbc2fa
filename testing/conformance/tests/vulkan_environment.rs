//! What Vulkan says on machines that this one is made to look like, each in a process of its own.

use std::fs;
use std::process::Command;

use transload_conformance::{skip::skip, vulkan, watchdog::output};

/// The probe's answer: what it was asked, with environment variables added.
fn probe(what: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_device-probe"));
    command.arg("vulkan").args(what).env_remove("VK_DRIVER_FILES").env_remove("VK_ICD_FILENAMES");
    let output = output(command.envs(variables.iter().copied()));
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{variables:?}: {:?}\n{stdout}{stderr}", output.status);
    assert!(!stderr.contains("panicked"), "{stderr}");
    stdout
}

fn is_unavailable(answer: &str) {
    assert!(answer.starts_with("absent: vulkan is not available: "), "{answer}");
    assert!(answer.contains("nstall"), "it says what to install: {answer}");
}

#[test]
fn no_driver_is_unavailable() {
    is_unavailable(&probe(&[], &[("VK_ICD_FILENAMES", "/does/not/exist.json")]));
}

#[test]
fn a_broken_driver_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("driver.json");
    for library in ["libthere-is-no-such-driver.so.1", "libc.so.6"] {
        let text = format!(
            r#"{{"file_format_version": "1.0.0", "ICD": {{"library_path": "{library}", "api_version": "1.3.0"}}}}"#
        );
        fs::write(&manifest, text).unwrap();
        is_unavailable(&probe(&[], &[("VK_ICD_FILENAMES", manifest.to_str().unwrap())]));
    }
    fs::write(&manifest, [0xff, 0, 0xfe]).unwrap();
    is_unavailable(&probe(&[], &[("VK_ICD_FILENAMES", manifest.to_str().unwrap())]));
}

#[test]
fn no_loader_is_unavailable() {
    // A file in front of the real one: the same answer to those who look for the library as none at all.
    let folder = tempfile::tempdir().unwrap();
    for content in [&b""[..], b"no library"] {
        fs::write(folder.path().join("libvulkan.so.1"), content).unwrap();
        let answer = probe(&[], &[("LD_LIBRARY_PATH", folder.path().to_str().unwrap())]);
        is_unavailable(&answer);
        assert!(answer.contains("loader is not there"), "{answer}");
    }
}

/// A library of that name which is no loader.
#[test]
fn another_library_is_unavailable() {
    let Some(other) =
        ["/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6", "/lib64/libm.so.6"]
            .into_iter()
            .find(|path| fs::exists(path).is_ok_and(|there| there))
    else {
        return skip(
            "vulkan_environment::another_library_is_unavailable",
            "finds no library to take for another",
        );
    };
    let folder = tempfile::tempdir().unwrap();
    fs::copy(other, folder.path().join("libvulkan.so.1")).unwrap();
    is_unavailable(&probe(&[], &[("LD_LIBRARY_PATH", folder.path().to_str().unwrap())]));
}

#[test]
fn all_devices_are_counted() {
    if let Err(why) = vulkan::plain() {
        return skip("vulkan_environment::all_devices_are_counted", &why);
    }
    let answer = probe(&[], &[]);
    let lines: Vec<_> = answer.lines().collect();
    let (last, devices) = lines.split_last().unwrap();
    assert!(!devices.is_empty(), "{answer}");
    for (index, line) in devices.iter().enumerate() {
        assert!(line.starts_with(&format!("vulkan:{index} ")), "{answer}");
    }
    assert!(last.ends_with(&format!("vulkan has {}, counted from 0", devices.len())), "{answer}");
}

/// With devices, streams, regions, slabs and batches in flight alive at the end.
#[test]
fn a_process_ends_quietly_with_all_of_it_alive() {
    if let Err(why) = vulkan::plain() {
        return skip("vulkan_environment::a_process_ends_quietly_with_all_of_it_alive", &why);
    }
    assert!(probe(&["keep"], &[]).starts_with("vulkan:0 "));
}

#[test]
fn a_forked_child_is_told_and_does_not_hang() {
    if let Err(why) = vulkan::plain() {
        return skip("vulkan_environment::a_forked_child_is_told_and_does_not_hang", &why);
    }
    let answer = probe(&["fork"], &[]);
    assert!(answer.contains("the child was told"), "{answer}");
}
