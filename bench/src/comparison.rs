//! Ours against the best rival.

use serde::Serialize;

use crate::adapter::Role;
use crate::statistics::{Spread, median};

/// One contender, as far as it is compared.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Whether it counts, and for whom.
    pub role: Role,
    /// What it moved in a second, round by round.
    pub rates: &'a [f64],
}

/// How ours stands against the best rival of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The rival with the highest median.
    pub best_rival: String,
    /// Our median over that rival's: what the thresholds are judged on.
    pub ratio_of_medians: f64,
    /// Ours over the best rival of each round, the highest of all that round, whichever it was: harder for us, as the
    /// rivals' lucky rounds add up.
    pub ratio_by_round: Spread,
}

impl Comparison {
    /// Of the first that is ours. `None` when ours, or every rival, is missing.
    pub fn of(entries: &[Entry<'_>]) -> Option<Self> {
        let ours = entries.iter().find(|entry| entry.role == Role::Ours)?;
        let rivals: Vec<&Entry<'_>> = entries.iter().filter(|entry| entry.role == Role::Rival).collect();
        let (best_rival, best) = rivals
            .iter()
            .filter_map(|rival| Some((rival.name, median(rival.rates)?)))
            .max_by(|one, other| one.1.total_cmp(&other.1))?;
        let by_round: Vec<f64> = ours
            .rates
            .iter()
            .enumerate()
            .map(|(round, rate)| rate / rivals.iter().map(|rival| rival.rates[round]).fold(0.0, f64::max))
            .collect();
        Some(Self {
            best_rival: best_rival.to_owned(),
            ratio_of_medians: median(ours.rates)? / best,
            ratio_by_round: Spread::of(&by_round)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(name: &'a str, role: Role, rates: &'a [f64]) -> Entry<'a> {
        Entry { name, role, rates }
    }

    #[test]
    fn the_baseline_is_no_rival() {
        let comparison = Comparison::of(&[
            entry("wrong", Role::Baseline, &[100.0, 100.0, 100.0]),
            entry("a", Role::Rival, &[10.0, 12.0, 11.0]),
            entry("b", Role::Rival, &[20.0, 2.0, 3.0]),
            entry("ours", Role::Ours, &[20.0, 24.0, 22.0]),
        ])
        .unwrap();
        assert_eq!(comparison.best_rival, "a");
        assert!((comparison.ratio_of_medians - 2.0).abs() < 1e-12);
        let by_round = comparison.ratio_by_round;
        assert!((by_round.min - 1.0).abs() < 1e-12, "b was the best of the first round");
        assert!((by_round.median - 2.0).abs() < 1e-12);
    }

    #[test]
    fn without_ours_there_is_no_comparison() {
        assert_eq!(Comparison::of(&[entry("a", Role::Rival, &[1.0])]), None);
    }
}
