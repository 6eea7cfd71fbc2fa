//! `cargo xtask lint`: format, the project's own checks, clippy and the documentation.

use std::time::Instant;

use anyhow::Result;

use crate::checks::CHECKS;
use crate::process::CommandLine;
use crate::report::{Report, Row};
use crate::repository::Repository;
use crate::say::say;

const BENCH: &str = "bench/Cargo.toml";

/// What a person may ask of the lints.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    /// Run clippy on bench/ too; its libraries take a while to build.
    #[arg(long)]
    bench: bool,
}

/// Whether all is well. Every lint runs, whatever the ones before it have found.
pub(crate) fn lint(repository: &Repository, options: Options) -> Result<bool> {
    let mut report = Report::default();
    let started = Instant::now();
    let success = run_checks(repository)?;
    report.add(Row { name: "checks", time: started.elapsed(), success, tally: None });

    // The folder that `cargo xtask bench` builds in.
    let folder = repository.target().join("bench").to_string_lossy().into_owned();
    let bench = options.bench.then_some(folder.as_str());
    let mut failed = Vec::new();
    for (name, command) in commands(repository.has(BENCH), bench) {
        say!("== {name}: {command}");
        let started = Instant::now();
        let success = command.run(repository.root())?;
        report.add(Row { name, time: started.elapsed(), success, tally: None });
        if !success {
            failed.push(command);
        }
    }
    say!("\n{report}");
    for command in failed {
        say!("FAILED. To repeat it: {command}");
    }
    say!("{}", if report.success() { "no findings" } else { "FAILED" });
    Ok(report.success())
}

fn run_checks(repository: &Repository) -> Result<bool> {
    say!("== checks");
    let sources = repository.sources()?;
    let mut success = true;
    for (name, check) in CHECKS {
        let findings = check(&sources);
        say!("{name}: {} findings", findings.len());
        for finding in &findings {
            say!("  {finding}");
        }
        success &= findings.is_empty();
    }
    Ok(success)
}

/// Takes whether there is a bench/, and where to build it if it is to be compiled.
fn commands(has_bench: bool, bench_folder: Option<&str>) -> Vec<(&'static str, CommandLine)> {
    let clippy = |arguments: &str| CommandLine::cargo(&format!("clippy {arguments} -- -D warnings"));
    let mut commands = vec![
        ("format", CommandLine::cargo("fmt --all -- --check")),
        ("clippy", clippy("--workspace --all-targets")),
        // Code that only exists with, or without, a feature.
        ("clippy, models", clippy("-p transload-core --features model --all-targets")),
        ("clippy, no features", clippy("-p transload -p transload-cli --no-default-features")),
        // Without the binary, which has the name of the library.
        (
            "documentation",
            CommandLine::cargo("doc --workspace --lib --no-deps").variable("RUSTDOCFLAGS", "-D warnings"),
        ),
    ];
    if has_bench {
        let format = CommandLine::cargo(&format!("fmt --manifest-path {BENCH} --all -- --check"));
        commands.insert(1, ("format, bench", format));
        if let Some(folder) = bench_folder {
            let clippy = clippy(&format!("--manifest-path {BENCH} --all-targets"));
            commands.push(("clippy, bench", clippy.variable("CARGO_TARGET_DIR", folder)));
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bench_is_compiled_only_when_asked_for() {
        let names = |has, with| commands(has, with).iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert!(!names(false, Some("b")).iter().any(|name| name.ends_with("bench")));
        assert!(names(true, None).contains(&"format, bench"));
        assert!(!names(true, None).contains(&"clippy, bench"));
        assert!(names(true, Some("b")).contains(&"clippy, bench"));
    }

    #[test]
    fn warnings_are_errors() {
        for (name, command) in commands(true, Some("b")) {
            let command = command.to_string();
            let is_strict = command.contains("-D warnings") || command.contains("--check");
            assert!(is_strict, "{name}: {command}");
        }
    }
}
