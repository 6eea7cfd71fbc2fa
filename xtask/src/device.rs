//! `cargo xtask test --device cuda`: the suite of one device, on hardware that is here.
//!
//! What it runs needs nothing but itself and the driver, so it can be built here and be run on another machine; how is printed.

use std::path::Path;

use anyhow::{Result, bail};

use crate::process::CommandLine;
use crate::say::say;

/// Devices that have a suite for hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Hardware {
    /// NVIDIA GPUs.
    Cuda,
}

/// What there is for one device.
struct Suite {
    /// Says `absent: ` and why, where there is no device.
    probe: &'static str,
    backend: &'static str,
    tests: &'static [&'static str],
    /// With this the tests use the hardware, and no stand-in.
    variable: (&'static str, &'static str),
}

const CUDA: Suite = Suite {
    probe: "device-probe",
    backend: "cuda",
    tests: &["device_cuda", "cuda_native", "cuda_kernels"],
    variable: ("TRANSLOAD_CUDA", "real"),
};

/// One at a time: calls that release memory wait for the whole device, and so for what another test holds up.
const ARGUMENTS: &str = "--test-threads=1";

/// Whether the suite passes.
pub(crate) fn test(root: &Path, hardware: Hardware) -> Result<bool> {
    let suite = match hardware {
        Hardware::Cuda => CUDA,
    };
    let package = "-p transload-conformance";
    let command = CommandLine::cargo(&format!("test --no-run {package} --bin {}", suite.probe));
    let command =
        suite.tests.iter().fold(command, |command, name| command.argument("--test").argument(*name));
    say!("== build: {command}");
    let built = command.run_watched(root, |line| executable(line).is_some())?;
    if !built.success {
        return Ok(false);
    }
    let programs: Vec<&str> = built.lines.iter().filter_map(|line| executable(line)).collect();
    let tests: Vec<&str> = programs.into_iter().filter(|path| is_one_of(path, suite.tests)).collect();
    if tests.len() != suite.tests.len() {
        bail!("cargo has named {} programs of {}: {}", tests.len(), suite.tests.len(), tests.join(", "));
    }

    say!(
        "\nTo run them on another machine with the same processor, and a system that is not older, copy and start them there:"
    );
    for test in &tests {
        let (variable, value) = suite.variable;
        let name = test.rsplit('/').next().unwrap_or(test);
        say!("    scp {test} MACHINE: && ssh MACHINE {variable}={value} ./{name} {ARGUMENTS}");
    }

    let probe = CommandLine::cargo(&format!("run -q {package} --bin {} -- {}", suite.probe, suite.backend));
    say!("\n== devices: {probe}");
    let devices = probe.output(root).unwrap_or_default();
    say!("{}", devices.trim_end());
    if devices.trim().is_empty() || devices.starts_with("absent: ") {
        say!("FAILED: there is no device to test");
        return Ok(false);
    }
    let mut success = true;
    for test in tests {
        let (variable, value) = suite.variable;
        let test = CommandLine::new(test, ARGUMENTS).variable(variable, value);
        say!("\n== {test}");
        success &= test.run(root)?;
    }
    say!("\n{}", if success { "all passed on this hardware" } else { "FAILED on this hardware" });
    Ok(success)
}

/// The path in a line in which cargo names what it has built.
fn executable(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("Executable ")?.rsplit_once('(')?.1.strip_suffix(')')
}

/// Whether a path is that of one of these programs: cargo puts a number behind the name.
fn is_one_of(path: &str, names: &[&str]) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    names.iter().any(|wanted| name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('-')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_that_cargo_names_are_found() {
        let line = "  Executable tests/device_cuda.rs (target/debug/deps/device_cuda-0123)";
        assert_eq!(executable(line), Some("target/debug/deps/device_cuda-0123"));
        assert_eq!(executable("  Executable unittests src/lib.rs (a b/c-1)"), Some("a b/c-1"));
        assert_eq!(executable("    Finished `test` profile"), None);
        assert!(is_one_of("target/debug/deps/device_cuda-0123", CUDA.tests));
        assert!(!is_one_of("target/debug/deps/device_cuda_other-0123", CUDA.tests));
        assert!(!is_one_of("target/debug/deps/device_host-0123", CUDA.tests));
    }
}
