//! What the comparison yields.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::row::Row;
use super::shape::{QUEUE_BATCHES, SOURCE_BYTES, Shape};
use crate::adapter::Role;
use crate::comparison::{Comparison, Entry};
use crate::machine::Machine;
use crate::report::markdown::{rule, thresholds};
use crate::report::{Target, caveats};
use crate::settings::Settings;
use crate::statistics::Spread;

/// One side in one shape.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// What it is called.
    pub name: String,
    /// Whether it counts, and for whom.
    pub role: Role,
    /// Bytes a second, round by round.
    pub rates: Vec<f64>,
}

/// All sides in one shape.
#[derive(Clone, Debug, Serialize)]
pub struct ShapeReport {
    /// Sizes.
    pub shape: Shape,
    /// The pump first, then the pump beside a thread that publishes, the ceiling, and the rivals.
    pub columns: Vec<Column>,
    /// The pump against the best rival.
    pub comparison: Option<Comparison>,
}

/// One back end.
#[derive(Clone, Debug, Serialize)]
pub struct RowReport {
    /// Its device, as `--to` names it.
    pub to: &'static str,
    /// What the driver calls it.
    pub device: Option<String>,
    /// Why it was not measured.
    pub not_here: Option<String>,
    /// The part of the best rival's bytes a second that is to be reached.
    pub goal: f64,
    /// What was measured.
    pub shapes: Vec<ShapeReport>,
    #[serde(skip)]
    target: &'static str,
}

/// Everything, in the order in which it is printed.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceDocument {
    /// Of this structure; grows when a field changes its meaning.
    pub schema: u32,
    /// Where it ran.
    pub machine: Machine,
    /// How long and how often.
    pub settings: Settings,
    /// By back end.
    pub rows: Vec<RowReport>,
    /// What is to be reached, and whether it was.
    pub targets: Vec<Target>,
}

impl ShapeReport {
    pub(super) fn new(shape: Shape, columns: Vec<Column>) -> Self {
        let entries: Vec<_> =
            columns.iter().map(|Column { name, role, rates }| Entry { name, role: *role, rates }).collect();
        let comparison = Comparison::of(&entries);
        Self { shape, columns, comparison }
    }
}

impl RowReport {
    pub(super) fn new(row: &Row) -> Self {
        let Row { to, goal, target, .. } = *row;
        Self { to, device: None, not_here: None, goal, shapes: Vec::new(), target }
    }

    /// The ratio of the shape in which the pump reaches least.
    fn lowest(&self) -> Option<f64> {
        let ratios = self.shapes.iter().map(|shape| Some(shape.comparison.as_ref()?.ratio_of_medians));
        ratios.flatten().min_by(f64::total_cmp)
    }
}

impl DeviceDocument {
    pub(super) fn new(machine: Machine, settings: Settings, rows: Vec<RowReport>) -> Self {
        let target = |row: &RowReport| Target::at_least(row.target, row.lowest(), row.goal, 1.0);
        let targets = rows.iter().map(target).collect();
        Self { schema: 1, machine, settings, rows, targets }
    }
}

impl Display for DeviceDocument {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { machine, settings, .. } = self;
        writeln!(f, "# Devices\n")?;
        writeln!(f, "{}, {} cores, {}.", machine.processor, machine.cores, machine.kernel)?;
        writeln!(
            f,
            "{} interleaved rounds of {} ms; threads are where the scheduler puts them.",
            settings.rounds, settings.run_ms
        )?;
        writeln!(
            f,
            "Out of {} MiB, written beforehand, into a queue of {} batches. GB/s: median (lowest - highest round).",
            SOURCE_BYTES >> 20,
            QUEUE_BATCHES
        )?;
        for caveat in caveats(machine, settings) {
            writeln!(f, "**Careful**: {caveat}.")?;
        }
        for row in &self.rows {
            write!(f, "\n## {}\n\n{row}", row.to)?;
        }
        writeln!(f, "\n## Thresholds\n")?;
        thresholds(f, &self.targets)
    }
}

impl Display for RowReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(reason) = &self.not_here {
            return writeln!(f, "Not here, and not judged: {reason}.");
        }
        writeln!(
            f,
            "{}. The pump is to reach {} of the best rival.\n",
            self.device.as_deref().unwrap_or("-"),
            self.goal
        )?;
        let Some(first) = self.shapes.first() else { return Ok(()) };
        let shown = |column: &&Column| column.role != Role::Rival;
        write!(f, "| shape | best rival |  |")?;
        for column in first.columns.iter().filter(shown) {
            write!(f, " {} |", column.name)?;
        }
        writeln!(f, " pump / best rival | by round | verdict |")?;
        rule(f, 3 + first.columns.iter().filter(shown).count() + 3)?;
        for ShapeReport { shape, columns, comparison } in &self.shapes {
            let Some(Comparison { best_rival, ratio_of_medians, ratio_by_round }) = comparison else {
                continue;
            };
            let best = columns.iter().find(|column| column.name == *best_rival);
            write!(f, "| {shape} | {best_rival} | {} |", rate(best))?;
            for column in columns.iter().filter(shown) {
                write!(f, " {} |", rate(Some(column)))?;
            }
            let Spread { median, min, max } = ratio_by_round;
            let verdict =
                Target::at_least(self.target, Some(*ratio_of_medians), self.goal, 1.0).verdict.words();
            writeln!(f, " **{ratio_of_medians:.2}** | {median:.2} ({min:.2} - {max:.2}) | {verdict} |")?;
        }
        Ok(())
    }
}

fn rate(column: Option<&Column>) -> String {
    const GIGA: f64 = 1e9;
    column.and_then(|column| Spread::of(&column.rates)).map_or_else(
        || "-".to_owned(),
        |Spread { median, min, max }| format!("{:.2} ({:.2} - {:.2})", median / GIGA, min / GIGA, max / GIGA),
    )
}
