//! What the comparison of pools yields.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::flat::{Flat, SIZES};
use super::rates::{BUFFERS, Rate};
use crate::machine::Machine;
use crate::report::markdown::{circumstances, rate, rule, thresholds};
use crate::report::{Target, caveats};
use crate::settings::Settings;
use crate::statistics::{Spread, median};

/// All subjects with so many threads.
#[derive(Clone, Debug, Serialize)]
pub struct Threads {
    /// How many.
    pub threads: usize,
    /// Nanoseconds for a cache line from core to core and back, round by round: what threads that meet at one word pay.
    pub distance_ns: Vec<f64>,
    /// The stack with a tagged head first, then ours.
    pub subjects: Vec<Rate>,
    /// Ours over the stack: of medians, and over the rounds; by handle, and in the any-thread form.
    pub ratios: [(f64, Spread); 2],
}

/// Everything, in the order in which it is printed.
#[derive(Clone, Debug, Serialize)]
pub struct PoolDocument {
    /// Of this structure; grows when a field changes its meaning.
    pub schema: u32,
    /// Where it ran.
    pub machine: Machine,
    /// How long and how often.
    pub settings: Settings,
    /// Rates, by threads.
    pub threads: Vec<Threads>,
    /// Costs, by size and filling.
    pub flat: Vec<Flat>,
    /// The design's table.
    pub targets: Vec<Target>,
}

impl Display for PoolDocument {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Pool\n")?;
        circumstances(f, &self.machine, &self.settings, &caveats(&self.machine, &self.settings))?;
        writeln!(f, "\n## Acquire and release, {BUFFERS} buffers\n")?;
        writeln!(f, "Million pairs a second of all threads: median (lowest - highest round).\n")?;
        write!(f, "| threads | core to core, ns |")?;
        for subject in &self.threads[0].subjects {
            write!(f, " {} |", subject.name)?;
        }
        writeln!(f, " ns a pair | handle / stack | any thread / stack |")?;
        rule(f, 2 + self.threads[0].subjects.len() + 3)?;
        for row in &self.threads {
            write!(f, "| {} |", row.threads)?;
            if let Some(Spread { median, min, max }) = Spread::of(&row.distance_ns) {
                write!(f, " {median:.0} ({min:.0} - {max:.0}) |")?;
            }
            let mut pairs = Vec::new();
            for subject in &row.subjects {
                write!(f, " {} |", rate(Spread::of(&subject.rates)))?;
                pairs.push(
                    median(&subject.rates).map_or_else(String::new, |rate| format!("{:.1}", 1e9 / rate)),
                );
            }
            write!(f, " {} |", pairs.join(", "))?;
            for (medians, by_round) in &row.ratios {
                let Spread { median, min, max } = by_round;
                write!(f, " **{medians:.2}**, by round {median:.2} ({min:.2} - {max:.2}) |")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "\n## Size and filling, one thread, ns\n")?;
        write!(f, "| way | filling |")?;
        for size in SIZES {
            write!(f, " {size} |")?;
        }
        writeln!(f, " highest / at {} |", SIZES[0])?;
        rule(f, 2 + SIZES.len() + 1)?;
        for flat in &self.flat {
            write!(f, "| {} | {} |", flat.name, flat.filling.words())?;
            for (_, Spread { median, min, max }) in &flat.cells {
                write!(f, " {median:.1} ({min:.1} - {max:.1}) |")?;
            }
            writeln!(f, " {:.2} |", flat.ratio())?;
        }
        writeln!(f, "\n## Thresholds\n")?;
        thresholds(f, &self.targets)
    }
}
