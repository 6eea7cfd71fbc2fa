//! The figures that the design must reach, and whether it does.

use serde::Serialize;

use super::Section;
use crate::adapter::Role;
use crate::in_place::InPlaceReport;
use crate::latency::Latency;

/// Whether a figure is good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As good as the design hopes for.
    AimReached,
    /// As good as the design demands.
    Met,
    /// Not as good.
    NotMet,
    /// Ours was not measured.
    NotMeasured,
}

impl Verdict {
    /// In words, for the table.
    pub fn words(self) -> &'static str {
        match self {
            Self::AimReached => "met, aim reached",
            Self::Met => "met",
            Self::NotMet => "NOT MET",
            Self::NotMeasured => "not measured",
        }
    }
}

/// One row of the design's table.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// What is compared with what.
    pub what: &'static str,
    /// The figure of this run.
    pub value: Option<f64>,
    /// What it must reach.
    pub reach: f64,
    /// What the design hopes for.
    pub aim: f64,
    /// Its unit; `x` for a ratio.
    pub unit: &'static str,
    /// Whether it does.
    pub verdict: Verdict,
}

impl Target {
    pub(crate) fn at_least(what: &'static str, value: Option<f64>, reach: f64, aim: f64) -> Self {
        let verdict = judge(value, |value| value >= reach, |value| value >= aim);
        Self { what, value, reach, aim, unit: "x", verdict }
    }

    /// A ratio that must not be higher.
    pub(crate) fn within(what: &'static str, value: Option<f64>, reach: f64, aim: f64) -> Self {
        let verdict = judge(value, |value| value <= reach, |value| value <= aim);
        Self { what, value, reach, aim, unit: "x", verdict }
    }

    pub(crate) fn below(what: &'static str, value: Option<f64>, reach: f64, aim: f64) -> Self {
        let verdict = judge(value, |value| value < reach, |value| value <= aim);
        Self { what, value, reach, aim, unit: "ns", verdict }
    }
}

fn judge(value: Option<f64>, reach: impl Fn(f64) -> bool, aim: impl Fn(f64) -> bool) -> Verdict {
    match value {
        None => Verdict::NotMeasured,
        Some(value) if aim(value) => Verdict::AimReached,
        Some(value) if reach(value) => Verdict::Met,
        Some(_) => Verdict::NotMet,
    }
}

/// Every row of the design's table that is about the ring.
pub fn targets(
    single: &Section,
    batch: &Section,
    in_place: &InPlaceReport,
    latency: &[Latency],
) -> Vec<Target> {
    let ours = latency.iter().find(|latency| latency.role == Some(Role::Ours));
    vec![
        Target::at_least(
            "one message a call, ratio to the best rival, geometric mean of the cells",
            single.geometric_mean,
            1.3,
            1.5,
        ),
        Target::at_least("one message a call, lowest cell", single.lowest, 0.9, 1.0),
        Target::at_least(
            "batches of 64, ratio to the best rival, geometric mean of the cells",
            batch.geometric_mean,
            4.0,
            8.0,
        ),
        Target::at_least("in place, ratio to no ring (busy)", in_place.ratio_of_medians, 0.8, 0.95),
        Target::below(
            "enqueue and dequeue in cache, p50",
            ours.map(|ours| ours.p50_ns.median),
            1000.0,
            200.0,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_direction_of_the_target() {
        let verdict = |value| Target::at_least("", value, 1.3, 1.5).verdict;
        assert_eq!(verdict(Some(1.29)), Verdict::NotMet);
        assert_eq!(verdict(Some(1.3)), Verdict::Met);
        assert_eq!(verdict(Some(1.5)), Verdict::AimReached);
        assert_eq!(verdict(None), Verdict::NotMeasured);
        let verdict = |value| Target::below("", value, 1000.0, 200.0).verdict;
        assert_eq!(verdict(Some(1000.0)), Verdict::NotMet);
        assert_eq!(verdict(Some(999.0)), Verdict::Met);
        assert_eq!(verdict(Some(200.0)), Verdict::AimReached);
    }
}
