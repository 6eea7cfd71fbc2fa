//! What a run of the whole comparison yields: one document, printed as JSON or as tables.

pub(crate) mod markdown;
mod target;

use serde::Serialize;

pub use target::{Target, Verdict, targets};

use crate::baseline::Harm;
use crate::cell::CellReport;
use crate::in_place::InPlaceReport;
use crate::latency::Latency;
use crate::machine::Machine;
use crate::settings::{ROUNDS_TO_JUDGE, Settings};
use crate::statistics::geometric_mean;

/// Cells that are judged together.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// The cells.
    pub cells: Vec<CellReport>,
    /// Geometric mean of the cells' ratios of medians, ours over the best rival.
    pub geometric_mean: Option<f64>,
    /// The same of the cells' medians of ratios by round.
    pub geometric_mean_by_round: Option<f64>,
    /// The lowest of the cells' ratios of medians.
    pub lowest: Option<f64>,
}

impl Section {
    /// Of these cells.
    pub fn of(cells: Vec<CellReport>) -> Self {
        let compared = || cells.iter().filter_map(|cell| cell.comparison.as_ref());
        let ratios: Vec<f64> = compared().map(|comparison| comparison.ratio_of_medians).collect();
        let by_round: Vec<f64> = compared().map(|comparison| comparison.ratio_by_round.median).collect();
        Self {
            geometric_mean: geometric_mean(&ratios),
            geometric_mean_by_round: geometric_mean(&by_round),
            lowest: ratios.iter().copied().min_by(f64::total_cmp),
            cells,
        }
    }
}

/// Everything, in the order in which it is printed.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// Of this structure; grows when a field changes its meaning.
    pub schema: u32,
    /// Where it ran.
    pub machine: Machine,
    /// How long and how often.
    pub settings: Settings,
    /// One message a call.
    pub single: Section,
    /// Batches on both sides.
    pub batch: Section,
    /// Written and read in place.
    pub in_place: InPlaceReport,
    /// In and out in one thread.
    pub latency: Vec<Latency>,
    /// How often the early-claim ring goes wrong.
    pub early_claim: Vec<Harm>,
    /// The design's table.
    pub targets: Vec<Target>,
}

impl Document {
    /// Why these figures are not to be judged by, if so.
    pub fn caveats(&self) -> Vec<String> {
        caveats(&self.machine, &self.settings)
    }
}

/// Why figures of this machine with these settings are not to be judged by, if so.
pub(crate) fn caveats(machine: &Machine, settings: &Settings) -> Vec<String> {
    let mut caveats = Vec::new();
    if settings.rounds < ROUNDS_TO_JUDGE {
        caveats.push(format!("{} rounds only: judge by no fewer than {ROUNDS_TO_JUDGE}", settings.rounds));
    }
    if let Some(load) = machine.load.filter(|_| machine.is_busy()) {
        caveats.push(format!("the load was {load:.2} at the start: something else was running"));
    }
    caveats
}
