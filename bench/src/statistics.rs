//! Medians and their like.

use serde::Serialize;

/// Middle and spread of the rounds of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half of the rounds lie below.
    pub median: f64,
    /// The lowest round.
    pub min: f64,
    /// The highest round.
    pub max: f64,
}

impl Spread {
    /// Of the values of all rounds; `None` when there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let median = median(values)?;
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { median, min, max })
    }
}

/// The middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = if sorted.len() % 2 == 1 { upper } else { sorted[sorted.len() / 2 - 1] };
    Some(f64::midpoint(lower, upper))
}

/// The mean that suits ratios: twice as fast and half as fast cancel out.
#[expect(clippy::cast_precision_loss, reason = "a count of cells")]
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some((values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// The sample below which `per_mille` of the samples lie. Sorts them.
///
/// # Panics
///
/// When there is no sample.
pub fn percentile(samples: &mut [u64], per_mille: usize) -> u64 {
    samples.sort_unstable();
    samples[(samples.len() * per_mille / 1000).min(samples.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
    }

    #[test]
    fn opposite_ratios_cancel_out() {
        let mean = geometric_mean(&[2.0, 0.5, 1.0]).unwrap();
        assert!((mean - 1.0).abs() < 1e-12, "{mean}");
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn percentiles_count_from_below() {
        let mut samples: Vec<u64> = (0..1000).rev().collect();
        assert_eq!(percentile(&mut samples, 500), 500);
        assert_eq!(percentile(&mut samples, 990), 990);
        assert_eq!(percentile(&mut [7], 999), 7);
    }
}
