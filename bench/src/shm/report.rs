//! What the comparison yields.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::way::Way;
use crate::adapter::Role;
use crate::machine::Machine;
use crate::report::markdown::{circumstances, rule, thresholds};
use crate::report::{Target, caveats};
use crate::settings::Settings;
use crate::statistics::{Spread, median};

/// One way, or one operation.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// Whose it is.
    pub role: Role,
    /// Nanoseconds for one round trip, message or operation, round by round.
    pub nanoseconds: Vec<f64>,
}

/// What is compared with each other.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Bytes of a message.
    pub message_bytes: usize,
    /// The ways.
    pub rows: Vec<Row>,
}

/// Everything, in the order in which it is printed.
#[derive(Clone, Debug, Serialize)]
pub struct ShmDocument {
    /// Of this structure; grows when a field changes its meaning.
    pub schema: u32,
    /// Where it ran.
    pub machine: Machine,
    /// How long and how often.
    pub settings: Settings,
    /// Round trips between two processes.
    pub trips: Table,
    /// Messages from one process to another, by size.
    pub flows: Vec<Table>,
    /// Calls in one process.
    pub alone: Table,
    /// The design's table.
    pub targets: Vec<Target>,
}

impl Row {
    pub(super) fn new(name: String, role: Role) -> Self {
        Self { name, role, nanoseconds: Vec::new() }
    }
}

impl Table {
    /// How many times faster a row is than the fastest rival: of medians, and by round with the fastest of each.
    pub fn ratio(&self, row: &Row) -> Option<(f64, Spread)> {
        let rivals: Vec<_> = self.rows.iter().filter(|row| row.role == Role::Rival).collect();
        let best = rivals.iter().filter_map(|rival| median(&rival.nanoseconds)).min_by(f64::total_cmp)?;
        let fastest =
            |round: usize| rivals.iter().map(|rival| rival.nanoseconds[round]).min_by(f64::total_cmp);
        let by_round: Vec<f64> = row
            .nanoseconds
            .iter()
            .enumerate()
            .filter_map(|(round, nanoseconds)| Some(fastest(round)? / nanoseconds))
            .collect();
        Some((best / median(&row.nanoseconds)?, Spread::of(&by_round)?))
    }

    fn ratio_of(&self, way: Way) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.name == way.name())?;
        Some(self.ratio(row)?.0)
    }

    fn write(&self, f: &mut Formatter<'_>, unit: &str, is_rate: bool) -> fmt::Result {
        writeln!(f, "| way | {unit} | to the faster of iceoryx2's | by round |")?;
        rule(f, 4)?;
        for row in &self.rows {
            write!(f, "| {} |", row.name)?;
            let rates: Vec<f64> = row.nanoseconds.iter().map(|nanoseconds| 1e3 / nanoseconds).collect();
            let digits = if is_rate { 2 } else { 1 };
            if let Some(Spread { median, min, max }) =
                Spread::of(if is_rate { &rates } else { &row.nanoseconds })
            {
                write!(f, " {median:.digits$} ({min:.digits$} - {max:.digits$}) |")?;
            }
            match self.ratio(row) {
                Some((medians, Spread { median, min, max })) if row.role == Role::Ours => {
                    writeln!(f, " **{medians:.2}** | {median:.2} ({min:.2} - {max:.2}) |")?;
                }
                _ => writeln!(f, " - | - |")?,
            }
        }
        Ok(())
    }
}

impl ShmDocument {
    pub(super) fn new(
        machine: Machine,
        settings: Settings,
        trips: Table,
        flows: Vec<Table>,
        alone: Table,
    ) -> Self {
        let target = |what, way| Target::at_least(what, trips.ratio_of(way), 2.0, 4.0);
        let targets = vec![
            target("round trip of 64 B, copied: times as fast as iceoryx2's faster way", Way::Copy),
            target("round trip of 64 B, in place: times as fast as iceoryx2's faster way", Way::InPlace),
            target("round trip of 64 B, in place, leased ahead: the same", Way::Ahead),
        ];
        Self { schema: 1, machine, settings, trips, flows, alone, targets }
    }
}

impl Display for ShmDocument {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Shared memory\n")?;
        circumstances(f, &self.machine, &self.settings, &caveats(&self.machine, &self.settings))?;
        writeln!(f, "\n## Round trip of {} B between two processes\n", self.trips.message_bytes)?;
        self.trips.write(f, "ns there and back", false)?;
        for table in &self.flows {
            writeln!(f, "\n## One way, {} B, from one process to another\n", table.message_bytes)?;
            table.write(f, "million messages a second", true)?;
        }
        writeln!(f, "\n## In one process, nobody else there\n")?;
        writeln!(f, "| operation | ns |")?;
        rule(f, 2)?;
        for row in &self.alone.rows {
            let Some(Spread { median, min, max }) = Spread::of(&row.nanoseconds) else { continue };
            writeln!(f, "| {} | {median:.1} ({min:.1} - {max:.1}) |", row.name)?;
        }
        writeln!(f, "\n## Thresholds\n")?;
        thresholds(f, &self.targets)
    }
}
