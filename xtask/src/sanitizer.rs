//! The suite of the proactor under `AddressSanitizer`: what nobody may touch any more is found when it is touched.
//!
//! Needs a nightly toolchain, and nothing else of it: the standard library stays as it is. The target is given by name so
//! that build scripts are left alone, and outputs have a folder of their own, since every flag is another.

use std::path::Path;

use crate::plan::Stage;
use crate::process::CommandLine;

pub(crate) const NAME: &str = "sanitizer";

/// What to do where [`is_possible`] says no.
pub(crate) const ADVICE: &str = "the stage \"sanitizer\" needs Linux and a nightly toolchain: rustup toolchain install nightly --profile minimal";

pub(crate) fn is_possible(root: &Path) -> bool {
    cfg!(target_os = "linux") && CommandLine::new("rustup", "run nightly cargo --version").succeeds(root)
}

/// The stage, with its outputs below a folder.
pub(crate) fn stage(target: &Path) -> Stage {
    let arguments = format!(
        "run nightly cargo test --no-fail-fast -p transload-conformance --target {}-unknown-linux-gnu \
         --test proactor_uring --test proactor_uring_tiny --test proactor_readiness",
        std::env::consts::ARCH
    );
    let command = CommandLine::new("rustup", &arguments)
        .variable("RUSTFLAGS", "-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer")
        .variable("CARGO_TARGET_DIR", target.join("sanitizer").to_string_lossy())
        // Memory that a kernel may still use is kept for ever, on purpose.
        .variable("ASAN_OPTIONS", "detect_leaks=0");
    Stage { name: NAME, command, has_tests: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_builds_beside_everything_else() {
        let command = stage(Path::new("/outputs")).command.to_string();
        assert!(command.contains("CARGO_TARGET_DIR=/outputs/sanitizer"), "{command}");
        assert!(command.contains("--target "), "build scripts are not to be changed: {command}");
        assert!(command.contains("rustup run nightly cargo test"), "{command}");
    }
}
