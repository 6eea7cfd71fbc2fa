//! The project's own commands: `cargo xtask lint`, `cargo xtask test`, `cargo xtask bench`, `cargo xtask check-metal`.
#![allow(clippy::print_stderr, reason = "telling a person what went wrong is its job")]

mod bench;
mod check_metal;
mod checks;
mod device;
mod finding;
mod lint;
mod packages;
mod plan;
mod process;
mod report;
mod repository;
mod rust;
mod sanitizer;
mod say;
mod skips;
mod tally;
mod test;

use std::process::ExitCode;

use clap::Parser;

use crate::repository::Repository;

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Arguments {
    /// Check format, clippy, documentation and the project's own rules.
    Lint(lint::Options),
    /// Run every test, and say how long each stage took.
    Test(test::Options),
    /// Compare with other libraries.
    Bench(bench::Options),
    /// Type-check the library for macOS, with the Metal back end.
    CheckMetal,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = Repository::find().and_then(|repository| match &arguments {
        Arguments::Lint(options) => lint::lint(&repository, *options),
        Arguments::Test(options) => test::test(&repository, *options),
        Arguments::Bench(options) => bench::bench(&repository, options),
        Arguments::CheckMetal => check_metal::check_metal(&repository),
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
