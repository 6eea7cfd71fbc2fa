//! How long leases have been out, without a clock on the way.
//!
//! A claim notes a number, the tick. Ticks are made by whoever asks for ages, and only these read the clock: so a lease
//! is as old as the first tick behind its own, at least.

use std::time::{Duration, Instant};

/// Ticks are at least so far apart.
const INTERVAL: Duration = Duration::from_millis(10);
/// And at least this part of the pool's age. So ticks get rarer, and their 18 bits do not wrap in ten years: the number
/// of ticks grows as this times the logarithm of the age.
const PART: u32 = 8192;
/// So many ticks are remembered; old ones are thinned out.
const MARKS: usize = 64;

#[derive(Debug)]
pub(super) struct Clock {
    begun: Instant,
    tick: u64,
    /// When ticks began, in their order. The last is the current one.
    marks: Vec<(u64, Instant)>,
}

impl Clock {
    pub(super) fn new() -> Self {
        let begun = Instant::now();
        Self { begun, tick: 0, marks: vec![(0, begun)] }
    }

    /// The number of a new tick, if it is time for one.
    pub(super) fn advance(&mut self) -> Option<u64> {
        self.advance_to(Instant::now())
    }

    fn advance_to(&mut self, now: Instant) -> Option<u64> {
        let interval = INTERVAL.max(now.saturating_duration_since(self.begun) / PART);
        let is_early = self.marks.last().is_some_and(|last| now.saturating_duration_since(last.1) < interval);
        if is_early {
            return None;
        }
        if self.marks.len() == MARKS {
            self.thin_out(now);
        }
        self.tick += 1;
        self.marks.push((self.tick, now));
        Some(self.tick)
    }

    /// Forgets the tick whose neighbours are nearest to each other for their age: what is long ago needs no fine scale.
    fn thin_out(&mut self, now: Instant) {
        let gap = |at: usize| {
            let (before, behind) = (self.marks[at - 1].1, self.marks[at + 1].1);
            let age = now.saturating_duration_since(before).as_secs_f64();
            behind.saturating_duration_since(before).as_secs_f64() / age.max(f64::MIN_POSITIVE)
        };
        let least = (1..self.marks.len() - 1).min_by(|&one, &other| gap(one).total_cmp(&gap(other)));
        if let Some(at) = least {
            self.marks.remove(at);
        }
    }

    /// How long ago a claim was, at least, that noted the tick of so many ticks ago.
    pub(super) fn age(&self, ticks: u64) -> Duration {
        let noted = self.tick.saturating_sub(ticks);
        let next = self.marks.iter().find(|mark| mark.0 > noted);
        next.map_or(Duration::ZERO, |mark| mark.1.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_never_too_high_and_close_to_the_truth() {
        let start = Instant::now().checked_sub(Duration::from_secs(4000)).unwrap();
        let mut clock = Clock { begun: start, tick: 0, marks: vec![(0, start)] };
        assert_eq!(clock.advance_to(start + Duration::from_millis(9)), None);
        for second in 1..=1000 {
            assert_eq!(clock.advance_to(start + Duration::from_secs(second)), Some(second));
            assert!(clock.marks.len() <= MARKS);
        }
        for noted in [0, 1, 500, 900, 990, 998] {
            // Claimed some time in the second that this tick lasted.
            let (age, least) = (clock.age(1000 - noted).as_secs(), 4000 - noted - 1);
            assert!(age <= least && age + (1000 - noted) / 4 + 2 > least, "{noted}: {age} of {least}");
        }
        assert_eq!(clock.age(0), Duration::ZERO, "this very tick");
    }

    #[test]
    fn ticks_of_ten_years_fit() {
        let start = Instant::now();
        let mut clock = Clock { begun: start, tick: 0, marks: vec![(0, start)] };
        let (mut at, end) = (0.0, 10.0 * 365.0 * 86400.0);
        while at < end {
            // As if somebody asked without a pause.
            at += (at / f64::from(PART)).max(0.010) + 0.001;
            clock.advance_to(start + Duration::from_secs_f64(at));
        }
        assert!(clock.tick < 1 << 18, "{} ticks", clock.tick);
    }
}
