//! The command `transload`.

mod doctor;

use std::{io, process::ExitCode};

use clap::{Parser, Subcommand};

/// Moves messages from many producers into device memory.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Says what this machine can do, and what to run where it could do more. Changes nothing.
    Doctor(doctor::DoctorArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Doctor(args) => doctor::run(&args, &mut io::stdout().lock()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "this is where a failure is told to the person")]
fn complain(error: &io::Error) {
    eprintln!("transload: cannot write the report: {error}");
}
