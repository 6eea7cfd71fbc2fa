//! The command `transload`: feeds a device from many sources, and says what a machine can do.

mod address;
mod assembler;
mod doctor;
mod failure;
mod finding;
mod framing;
mod io_backend;
mod output;
mod pattern;
mod pump;
mod ring_memory;
mod send;
#[cfg(target_os = "linux")]
mod shm;
mod signals;
mod units;
mod usage;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Moves messages from many producers into device memory, through page-locked, registered buffers.
///
/// Results go to the standard output, everything else to the standard error.
///
/// Exit codes: 0 everything was delivered; 1 failure; 2 wrong usage; 3 finished, but something was dropped or
/// refused, or a peer was bad; 4 the device or feature that was asked for is not there.
#[derive(Debug, Parser)]
#[command(name = "transload", version, max_term_width = 110, after_help = usage::LOG_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Moves messages from a source onto a device and reports how that went.
    ///
    /// Without any option: generated messages from two producers for five seconds, to the first GPU or else to the
    /// host, each byte verified.
    Pump(Box<pump::PumpArgs>),
    /// Sends generated messages, a file or the standard input to a socket, from registered buffers, or into a region that
    /// processes share, and reports how that went.
    ///
    /// To a socket, a buffer is filled once and sent from where it lies; it is used again when the kernel has let go of it.
    /// Of a region, a buffer is a message. A message is counted when it is published: from then on it arrives, whatever
    /// becomes of this process. The command ends when all of them are done.
    Send(Box<send::SendArgs>),
    /// Says which regions processes share, who has what of them, and gives back what the dead held.
    #[cfg(target_os = "linux")]
    Shm(shm::ShmArgs),
    /// Says what this machine can do, and what to run where it could do more. Changes nothing.
    Doctor(doctor::DoctorArgs),
}

fn main() -> ExitCode {
    let parsed = Cli::command()
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches).map(|cli| (matches, cli)));
    let (matches, cli) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage::tell(&error),
    };
    let default = match &cli.command {
        Command::Pump(args) if args.reports_json_beside_the_log() => "error",
        _ => "warn",
    };
    let filter = match usage::log_filter(default) {
        Ok(filter) => filter,
        Err(code) => return code,
    };
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).without_time().init();
    match cli.command {
        Command::Pump(args) => pump::main(&args, matches.subcommand().map(|(_, pump)| pump)),
        Command::Send(args) => send::main(&args),
        #[cfg(target_os = "linux")]
        Command::Shm(args) => shm::main(&args),
        Command::Doctor(args) => match doctor::run(&args, &mut io::stdout().lock()) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                output::complain(&format!("cannot write the report: {error}"));
                ExitCode::FAILURE
            }
        },
    }
}
