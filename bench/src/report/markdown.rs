//! The document as tables.

use std::fmt::{self, Display, Formatter};

use super::{Document, Section, Target};
use crate::adapter::Role;
use crate::cell::{CellReport, Column};
use crate::machine::Machine;
use crate::settings::Settings;
use crate::statistics::Spread;

impl Display for Document {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Ring\n")?;
        circumstances(f, &self.machine, &self.settings, &self.caveats())?;
        writeln!(f, "\n## One message a call, batches out\n")?;
        section(f, &self.single)?;
        writeln!(f, "\n## Batches of {} in and out\n", crate::BATCH)?;
        section(f, &self.batch)?;
        writeln!(f, "\n## {} B in place, one producer\n", self.in_place.cell.message_bytes)?;
        self.in_place(f)?;
        writeln!(f, "\n## {} B in and out in one thread, ns\n", crate::latency::MESSAGE_BYTES)?;
        self.latency(f)?;
        writeln!(f, "\n## What early-claim delivers\n")?;
        self.harm(f)?;
        writeln!(f, "\n## Thresholds\n")?;
        thresholds(f, &self.targets)
    }
}

/// Rates of all contenders in all cells of a section, then ours against the best rival.
fn section(f: &mut Formatter<'_>, section: &Section) -> fmt::Result {
    let Some(first) = section.cells.first() else { return Ok(()) };
    writeln!(f, "Million messages a second: median (lowest - highest round).\n")?;
    write!(f, "| message | producers | core to core, ns |")?;
    for column in &first.columns {
        write!(f, " {} |", column.name)?;
    }
    writeln!(f, " ours / best rival | by round |")?;
    rule(f, 3 + first.columns.len() + 2)?;
    for report in &section.cells {
        write!(f, "| {} B | {} | ", report.cell.message_bytes, report.cell.producers)?;
        if let Some(Spread { median, min, max }) = Spread::of(&report.distance_ns) {
            write!(f, "{median:.0} ({min:.0} - {max:.0}) |")?;
        }
        for column in &report.columns {
            write!(f, " {} |", rate(Spread::of(&column.rates)))?;
        }
        comparison(f, report)?;
    }
    if let (Some(medians), Some(by_round)) = (section.geometric_mean, section.geometric_mean_by_round) {
        writeln!(f, "\nGeometric mean: {medians:.2} of medians, {by_round:.2} by round.")?;
    }
    Ok(())
}

fn comparison(f: &mut Formatter<'_>, report: &CellReport) -> fmt::Result {
    match &report.comparison {
        Some(comparison) => {
            let Spread { median, min, max } = comparison.ratio_by_round;
            writeln!(
                f,
                " **{:.2}** ({}) | {median:.2} ({min:.2} - {max:.2}) |",
                comparison.ratio_of_medians, comparison.best_rival
            )
        }
        None => writeln!(f, " - | - |"),
    }
}

pub(crate) fn rate(spread: Option<Spread>) -> String {
    const MILLION: f64 = 1e6;
    spread.map_or_else(
        || "-".to_owned(),
        |Spread { median, min, max }| {
            format!("{:.2} ({:.2} - {:.2})", median / MILLION, min / MILLION, max / MILLION)
        },
    )
}

pub(crate) fn rule(f: &mut Formatter<'_>, columns: usize) -> fmt::Result {
    writeln!(f, "|{}", "---|".repeat(columns))
}

impl Document {
    fn in_place(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "| way | million messages a second |")?;
        rule(f, 2)?;
        for way in &self.in_place.ways {
            writeln!(f, "| {} | {} |", way.name, rate(Spread::of(&way.rates)))?;
        }
        let report = &self.in_place;
        if let (Some(busy), Some(lockstep), Some(by_round)) =
            (report.ratio_of_medians, report.ratio_to_lockstep, report.ratio_by_round)
        {
            let Spread { median, min, max } = by_round;
            writeln!(
                f,
                "\nOurs / no ring: {busy:.2} of medians to busy, {lockstep:.2} to lockstep; \
                 {median:.2} ({min:.2} - {max:.2}) to busy by round."
            )?;
        }
        Ok(())
    }

    fn latency(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "| operation | p50 | p99 | mean |")?;
        rule(f, 4)?;
        for latency in &self.latency {
            write!(f, "| {} |", latency.name)?;
            for Spread { median, min, max } in [latency.p50_ns, latency.p99_ns] {
                write!(f, " {median:.0} ({min:.0} - {max:.0}) |")?;
            }
            let Spread { median, min, max } = latency.mean_ns;
            writeln!(f, " {median:.1} ({min:.1} - {max:.1}) |")?;
        }
        writeln!(
            f,
            "\nPercentiles are of operations timed one by one, the clock's cost of the first row included; the mean is \
             of many in a row."
        )
    }

    fn harm(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "| run | messages | torn | stale | missing | rate, million a second |")?;
        rule(f, 6)?;
        for report in self.single.cells.iter().chain(&self.batch.cells) {
            for column in report.columns.iter().filter(|column| column.role == Role::Baseline) {
                baseline(f, report, column)?;
            }
        }
        for harm in &self.early_claim {
            let (cell, found) = (harm.cell, harm.findings);
            writeln!(
                f,
                "| {cell}, capacity {} | {} | {} | {} | {} | not timed |",
                cell.capacity, found.messages, found.torn, found.stale, found.missing
            )?;
        }
        Ok(())
    }
}

/// The design's table, with a verdict for each row.
pub(crate) fn thresholds(f: &mut Formatter<'_>, targets: &[Target]) -> fmt::Result {
    writeln!(f, "| what | this run | to reach | aim | verdict |")?;
    rule(f, 5)?;
    for target in targets {
        let value = target.value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        writeln!(
            f,
            "| {} | {value} {} | {} | {} | {} |",
            target.what,
            target.unit,
            target.reach,
            target.aim,
            target.verdict.words()
        )?;
    }
    Ok(())
}

/// What was measured on, how, and why not to judge by it, if so.
pub(crate) fn circumstances(
    f: &mut Formatter<'_>,
    machine: &Machine,
    settings: &Settings,
    caveats: &[String],
) -> fmt::Result {
    writeln!(f, "{}, {} cores, {}.", machine.processor, machine.cores, machine.kernel)?;
    writeln!(f, "{} interleaved rounds of {} ms; {}.", settings.rounds, settings.run_ms, settings.cores)?;
    for caveat in caveats {
        writeln!(f, "**Careful**: {caveat}.")?;
    }
    Ok(())
}

/// A baseline's row for one cell: what the verifying mode found, and what the timed runs showed on the way.
fn baseline(f: &mut Formatter<'_>, report: &CellReport, column: &Column) -> fmt::Result {
    let found = column.verified;
    writeln!(
        f,
        "| {}, capacity {} | {} | {} | {} | {} | {}; {} torn, {} of {} runs with stale or lost messages |",
        report.cell,
        report.cell.capacity,
        found.messages,
        found.torn,
        found.stale,
        found.missing,
        rate(Spread::of(&column.rates)),
        column.torn,
        column.unbalanced,
        column.rates.len()
    )
}
