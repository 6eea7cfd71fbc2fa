//! The compiled examples are what their sources say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::Command;

use transload_conformance::skip::skip;
use transload_conformance::watchdog;

/// Each command that stands at the head of a kernel in GLSL, run again, makes the file that lies beside it.
#[test]
fn compiled_kernels_are_those_of_their_sources() {
    let folder = tempfile::tempdir().unwrap();
    let folders = ["examples", "crates/transload/src/device/vulkan", "crates/transload-cli/src/pattern"];
    let folders = folders.map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder));
    let sources = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let sources = sources.map(|entry| entry.unwrap().path());
    let sources: Vec<_> = sources.filter(|path| path.extension().is_some_and(|end| end == "comp")).collect();
    assert_eq!(sources.len(), 5, "{sources:?}");
    if Command::new("glslangValidator").arg("--version").output().is_err() {
        skip("examples::compiled_kernels_are_those_of_their_sources", "glslangValidator is not installed");
        return;
    }
    for source in sources {
        let text = fs::read_to_string(&source).unwrap();
        let command = text.lines().find_map(|line| line.strip_prefix("//     glslangValidator ")).unwrap();
        let compiled = source.with_extension("spv");
        let name = compiled.file_name().unwrap().to_str().unwrap();
        let again = folder.path().join(name);
        let words = command.split_whitespace().map(|word| match word {
            word if word == name => again.to_str().unwrap(),
            word => word,
        });
        let said = watchdog::output(
            Command::new("glslangValidator").args(words).current_dir(source.parent().unwrap()),
        );
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
        assert!(again.exists(), "{command}");
        assert!(
            fs::read(&again).unwrap() == fs::read(&compiled).unwrap(),
            "{name} is not what {command} makes"
        );
    }
}

/// OpenCL C and CUDA C have one header, so an example is the same text in both, but for the comment at its head.
#[test]
fn the_examples_in_cuda_c_are_those_in_opencl_c() {
    use transload_conformance::device::example::Example;

    for example in [Example::Checksum, Example::Filter, Example::Echo] {
        let code = |extension| {
            let text = fs::read_to_string(example.path(extension)).unwrap();
            text.split_once("*/").unwrap().1.to_owned()
        };
        assert_eq!(code("cl"), code("cu"), "{example:?}");
    }
}
