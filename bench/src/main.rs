//! `cargo run --release -- ring`: transload's ring beside other queues.

use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use transload_bench::pin::{Cores, Spread};
use transload_bench::ring;
use transload_bench::settings::Settings;

/// Compares transload with other libraries.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The staging ring beside other bounded queues; a few minutes
    Ring(Ring),
}

#[derive(Debug, Args)]
struct Ring {
    /// Some seconds instead of minutes, to see that everything runs; not for judging
    #[arg(long)]
    quick: bool,
    /// Rounds, each of which runs every queue once [default: 9, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Length of one timed run in milliseconds [default: 100, with --quick 15]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    run_ms: Option<u64>,
    /// How producers are spread over the two cores
    #[arg(long, value_enum, default_value_t)]
    spread: Spread,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let Cli { command: Command::Ring(options) } = Cli::parse();
    let cores = Cores::detect(options.spread)?;
    let mut settings = if options.quick { Settings::quick(cores) } else { Settings::full(cores) };
    if let Some(rounds) = options.rounds {
        settings.rounds = rounds.into();
    }
    if let Some(run_ms) = options.run_ms {
        settings.run_ms = run_ms;
    }
    let document = ring::compare(settings, |what| eprintln!("ring: {what}"))?;
    let text = if options.json {
        serde_json::to_string_pretty(&document).context("cannot write the document as JSON")?
    } else {
        document.to_string().trim_end().to_owned()
    };
    writeln!(io::stdout(), "{text}").context("cannot write to standard output")
}
