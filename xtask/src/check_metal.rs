//! `cargo xtask check-metal`: type-checks the library for macOS, with the Metal back end, on any machine.
//!
//! Nothing is linked and nothing runs: it shows that each call exists with the types that it is used with, and that the rest
//! of the library has what it needs there. It compiles the standard library for that target first, which takes some minutes
//! once, and needs its sources; so it is no part of what a change has to pass.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::process::CommandLine;
use crate::repository::Repository;
use crate::say::say;

/// Where the sources of the standard library are, from the root of a compiler's installation.
const SOURCES: &str = "lib/rustlib/src/rust/library/Cargo.lock";

const ADVICE: &str = "no compiler here has the sources of the standard library, which is compiled for macOS first. Install \
                      one that has: `apt-get install rustc-web rust-web-src` on Debian 12, `rustup component add rust-src` \
                      elsewhere; or name one with RUSTC";

/// Whether the library is accepted, without a warning.
pub(crate) fn check_metal(repository: &Repository) -> Result<bool> {
    let root = repository.root();
    let Some(compiler) = questions().find_map(|question| compiler(&question, root)) else { bail!(ADVICE) };
    let target = repository.target().join("check-metal");
    if !target.exists() {
        say!("the standard library is compiled first: some minutes, this once");
    }
    let command = command(&compiler, &target);
    say!("== check-metal: {command}");
    let outcome = command.run_watched(root, is_warning)?;
    let success = outcome.success && outcome.lines.is_empty();
    if success {
        say!("accepted for macOS, by its types; nothing was linked, and nothing was run");
    } else {
        say!("FAILED, with {} warnings. To repeat it: {command}", outcome.lines.len());
    }
    Ok(success)
}

/// Asks each compiler that there may be for the root of its installation.
fn questions() -> impl Iterator<Item = CommandLine> {
    let named = env::var("RUSTC").ok();
    // Debian's own comes behind that of rustup in most paths.
    let known = ["rustc", "/usr/bin/rustc"].map(str::to_owned);
    let asked = named.into_iter().chain(known).map(|program| CommandLine::new(&program, "--print sysroot"));
    asked.chain([CommandLine::new("rustup", "run nightly rustc --print sysroot")])
}

/// The compiler that answers, if it has the sources.
fn compiler(question: &CommandLine, folder: &Path) -> Option<PathBuf> {
    let answer = question.output(folder)?;
    let root = Path::new(answer.trim());
    let compiler = root.join("bin/rustc");
    (root.join(SOURCES).is_file() && compiler.is_file()).then_some(compiler)
}

/// The check, with its outputs in a folder of their own.
fn command(compiler: &Path, target: &Path) -> CommandLine {
    let arguments = "check -Zbuild-std=std,panic_abort --target aarch64-apple-darwin -p transload \
                     --no-default-features --features metal";
    CommandLine::cargo(arguments)
        .variable("RUSTC", compiler.to_string_lossy())
        // Compiling the standard library is a thing of nightly compilers, unless they are told otherwise.
        .variable("RUSTC_BOOTSTRAP", "1")
        .variable("CARGO_TARGET_DIR", target.to_string_lossy())
}

fn is_warning(line: &str) -> bool {
    line.starts_with("warning")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_library_is_checked_for_another_machine() {
        let command = command(Path::new("/compiler"), Path::new("/outputs/check-metal")).to_string();
        for part in [
            "RUSTC=/compiler ",
            "RUSTC_BOOTSTRAP=1 ",
            "CARGO_TARGET_DIR=/outputs/check-metal ",
            "cargo check -Zbuild-std=std,panic_abort --target aarch64-apple-darwin -p transload ",
            "--features metal",
        ] {
            assert!(command.contains(part), "{part}: {command}");
        }
    }

    #[test]
    fn a_compiler_without_sources_is_passed_over() {
        let root = env!("CARGO_MANIFEST_DIR");
        let answers = |answer: &str| CommandLine::new("echo", "").argument(answer);
        assert_eq!(compiler(&answers(root), Path::new(root)), None);
        assert_eq!(compiler(&CommandLine::new("no-such-program", ""), Path::new(root)), None);
    }

    #[test]
    fn warnings_are_counted_and_errors_are_not() {
        assert!(is_warning("warning: unused variable: `x`"));
        for line in ["error[E0599]: no method named `comit` found", "   Compiling core v0.0.0", ""] {
            assert!(!is_warning(line), "{line}");
        }
    }
}
