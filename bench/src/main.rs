//! `cargo run --release -- ring`: transload's ring beside other queues; `pool`: its pool beside the classical free list;
//! `io`: its sockets beside ordinary calls; `shm`: its shared memory beside iceoryx2; `device`: its pump beside loops of
//! copies written by hand.

use std::fmt::Display;
use std::io::Write;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use transload_bench::pin::{Cores, Spread};
use transload_bench::settings::Settings;
use transload_bench::{device, io, pool, ring, shm};

/// Length of one timed run of `device` in milliseconds, unless it is said: batches are many messages.
const DEVICE_RUN_MS: u64 = 300;

/// Compares transload with other libraries.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The staging ring beside other bounded queues; a few minutes
    Ring(Options),
    /// The buffer pool beside a stack with a tagged head; a minute or two
    Pool(Options),
    /// Receives into slots and sends out of registered buffers, beside ordinary calls; a minute or two
    Io(Options),
    /// Messages between two processes, beside iceoryx2; a minute
    Shm(Options),
    /// The pump into devices, beside the best loop of copies for each; four minutes
    Device(Options),
    /// The other process of `shm`
    #[command(hide = true)]
    ShmPeer {
        /// What to do, as JSON
        errand: String,
    },
}

#[derive(Debug, Args)]
struct Options {
    /// Some seconds instead of minutes, to see that everything runs; not for judging
    #[arg(long)]
    quick: bool,
    /// Rounds, each of which runs everything once [default: 9, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Length of one timed run in milliseconds [default: 100, with --quick 15]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    run_ms: Option<u64>,
    /// How producers are spread over the two cores; the pool always uses both
    #[arg(long, value_enum, default_value_t)]
    spread: Spread,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
}

impl Options {
    fn settings(&self) -> Result<Settings> {
        let cores = Cores::detect(self.spread)?;
        let mut settings = if self.quick { Settings::quick(cores) } else { Settings::full(cores) };
        if let Some(rounds) = self.rounds {
            settings.rounds = rounds.into();
        }
        if let Some(run_ms) = self.run_ms {
            settings.run_ms = run_ms;
        }
        Ok(settings)
    }

    fn print(&self, document: &(impl Serialize + Display)) -> Result<()> {
        let text = if self.json {
            serde_json::to_string_pretty(document).context("cannot write the document as JSON")?
        } else {
            document.to_string().trim_end().to_owned()
        };
        writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
    }
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Ring(run) => run.print(&ring::compare(run.settings()?, |what| eprintln!("ring: {what}"))?),
        Command::Pool(run) => run.print(&pool::compare(run.settings()?, |what| eprintln!("pool: {what}"))?),
        Command::Io(run) => {
            let settings = run.settings()?;
            run.print(&io::compare(&settings, |what| eprintln!("io: {what}"))?)
        }
        Command::Shm(run) => {
            let settings = run.settings()?;
            run.print(&shm::compare(&settings, |what| eprintln!("shm: {what}"))?)
        }
        Command::Device(run) => {
            let mut settings = run.settings()?;
            if !run.quick && run.run_ms.is_none() {
                settings.run_ms = DEVICE_RUN_MS;
            }
            run.print(&device::compare(&settings, |what| eprintln!("device: {what}"))?)
        }
        Command::ShmPeer { errand } => shm::be_the_peer(&errand),
    }
}
