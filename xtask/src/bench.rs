//! `cargo xtask bench`: the comparisons with other libraries, a workspace of their own.

use anyhow::{Result, ensure};

use crate::process::CommandLine;
use crate::repository::Repository;
use crate::say::say;

/// Which comparison, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// What to compare, for example `ring`.
    name: String,
    /// Handed to the comparison.
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// Whether the comparison ran to its end.
pub(crate) fn bench(repository: &Repository, options: &Options) -> Result<bool> {
    ensure!(repository.has("bench/Cargo.toml"), "there is no bench/ in this checkout");
    let folder = repository.target().join("bench");
    let command = command(options).variable("CARGO_TARGET_DIR", folder.to_string_lossy());
    say!("== bench: {command}");
    command.run(repository.root())
}

fn command(options: &Options) -> CommandLine {
    let run = CommandLine::cargo("run --release --manifest-path bench/Cargo.toml --").argument(&options.name);
    options.arguments.iter().fold(run, CommandLine::argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_handed_on() {
        let options =
            Options { name: "ring".to_owned(), arguments: vec!["--rounds".to_owned(), "9".to_owned()] };
        let expected = "cargo run --release --manifest-path bench/Cargo.toml -- ring --rounds 9";
        assert_eq!(command(&options).to_string(), expected);
    }
}
