//! The document of a run, and the tables made of it.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::receive::{Layout, PAYLOAD};
use crate::machine::Machine;
use crate::settings::{ROUNDS_TO_JUDGE, Settings};
use crate::statistics::Spread;

/// What receiving should not need more of than the other way, and what it aims at.
const REACH: f64 = 1.0;
const AIM: f64 = 0.7;

/// Sends with zero copy should not be slower than this part of those without.
const ZERO_COPY_REACH: f64 = 0.8;

/// All measurements.
#[derive(Debug, Serialize)]
pub struct Document {
    /// The version of this document.
    pub schema: u32,
    /// Where it was measured.
    pub machine: Machine,
    /// How.
    pub settings: Settings,
    /// Receives, by layout.
    pub receive: Vec<Receive>,
    /// Sends, by back end and size.
    pub send: Vec<Send>,
}

/// Receives in one layout.
#[derive(Debug, Serialize)]
pub struct Receive {
    /// How messages lie in slots.
    pub layout: Layout,
    /// The other way first.
    pub rows: Vec<Row>,
}

/// One way.
#[derive(Debug, Default, Serialize)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// Nanoseconds of its thread on a processor for 1024 bytes, by round.
    pub nanos_per_kib: Vec<f64>,
    /// Megabytes a second, by round.
    pub megabytes_per_second: Vec<f64>,
}

/// Sends of one size by one back end.
#[derive(Debug, Serialize)]
pub struct Send {
    /// Which back end.
    pub backend: &'static str,
    /// Bytes of a buffer.
    pub buffer_bytes: usize,
    /// Copied by the kernel.
    pub off: SendRow,
    /// Without a copy, where the kernel does that.
    pub on: SendRow,
}

/// One way to send.
#[derive(Debug, Default, Serialize)]
pub struct SendRow {
    /// Its time and rate.
    #[serde(flatten)]
    pub row: Row,
    /// Parts that went without a copy.
    pub zero_copied: u64,
    /// Parts that should have, and that the kernel copied.
    pub copied: u64,
}

/// The ratio of two measurements: of medians, and the spread of ratios by round.
fn ratio(one: &[f64], other: &[f64]) -> Option<(f64, Spread)> {
    let by_round: Vec<f64> = one.iter().zip(other).map(|(one, other)| one / other).collect();
    Some((Spread::of(one)?.median / Spread::of(other)?.median, Spread::of(&by_round)?))
}

fn spread(f: &mut Formatter<'_>, values: &[f64]) -> fmt::Result {
    match Spread::of(values) {
        Some(Spread { median, min, max }) => write!(f, " {median:.0} ({min:.0} - {max:.0}) |"),
        None => write!(f, " - |"),
    }
}

impl Display for Document {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { machine, settings, .. } = self;
        writeln!(f, "# Sockets\n")?;
        writeln!(f, "{}, {} cores, {}.", machine.processor, machine.cores, machine.kernel)?;
        writeln!(f, "{} interleaved rounds of {} ms over loop-back.", settings.rounds, settings.run_ms)?;
        if settings.rounds < ROUNDS_TO_JUDGE {
            let rounds = settings.rounds;
            writeln!(f, "**Careful**: {rounds} rounds only: judge by no fewer than {ROUNDS_TO_JUDGE}.")?;
        }
        if machine.is_busy() {
            writeln!(f, "**Careful**: something else was running at the start.")?;
        }
        for receive in &self.receive {
            writeln!(f, "\n## Received into slots, {PAYLOAD} B, {:?}\n", receive.layout)?;
            receive.fmt(f)?;
        }
        writeln!(f, "\n## Sent out of registered buffers\n")?;
        self.sends(f)
    }
}

impl Display for Receive {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "| way | ns of its thread a KiB | MB/s | to the first | by round |")?;
        writeln!(f, "|---|---|---|---|---|")?;
        let Some(first) = self.rows.first() else { return Ok(()) };
        for row in &self.rows {
            write!(f, "| {} |", row.name)?;
            spread(f, &row.nanos_per_kib)?;
            spread(f, &row.megabytes_per_second)?;
            match ratio(&row.nanos_per_kib, &first.nanos_per_kib) {
                Some((medians, Spread { median, min, max })) => {
                    writeln!(f, " {medians:.2} | {median:.2} ({min:.2} - {max:.2}) |")?;
                }
                None => writeln!(f, " - | - |")?,
            }
        }
        writeln!(f, "\nTime on a processor a byte: not more than {REACH:.1}, aim {AIM:.1}.")
    }
}

impl Document {
    fn sends(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| back end | buffer | off, MB/s | on, MB/s | on to off | by round | off, ns a KiB | on, ns a KiB | on, copied |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|")?;
        for send in &self.send {
            write!(f, "| {} | {} KiB |", send.backend, send.buffer_bytes >> 10)?;
            let (off, on) = (&send.off.row, &send.on.row);
            spread(f, &off.megabytes_per_second)?;
            spread(f, &on.megabytes_per_second)?;
            if let Some((medians, Spread { median, min, max })) =
                ratio(&on.megabytes_per_second, &off.megabytes_per_second)
            {
                write!(f, " {medians:.2} | {median:.2} ({min:.2} - {max:.2}) |")?;
            }
            spread(f, &off.nanos_per_kib)?;
            spread(f, &on.nanos_per_kib)?;
            match (send.on.copied, send.on.zero_copied + send.on.copied) {
                (_, 0) => writeln!(f, " not tried |")?,
                (copied, all) => writeln!(f, " {copied} of {all} |")?,
            }
        }
        writeln!(
            f,
            "\nOn should not be below {ZERO_COPY_REACH:.1} of off. Loop-back cannot show a gain: there the kernel copies what it is"
        )?;
        writeln!(f, "asked to send without a copy, and says so. A gain takes a network card.")
    }
}
