//! How many tests passed, failed and were skipped, read from the runners' own summaries.

use std::fmt;
use std::ops::AddAssign;

/// Counts of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Tally {
    /// The counts of a summary line of nextest or of the standard test runner.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        Self::parse_nextest(line).or_else(|| Self::parse_standard(line))
    }

    /// The counts of a whole run. Below a test that failed, nextest shows the standard runner's summary of that one
    /// test: where nextest sums up, nothing else counts.
    pub(crate) fn of_run(lines: &[String]) -> Self {
        let add = |mut sum: Self, part| {
            sum += part;
            sum
        };
        lines
            .iter()
            .filter_map(|line| Self::parse_nextest(line))
            .reduce(add)
            .unwrap_or_else(|| lines.iter().filter_map(|line| Self::parse(line)).fold(Self::default(), add))
    }

    /// `Summary [   0.012s] 5 tests run: 3 passed (1 slow), 1 failed, 1 timed out, 2 skipped`
    fn parse_nextest(line: &str) -> Option<Self> {
        let rest = line.trim_start().strip_prefix("Summary [")?;
        let (run, counts) = rest.split_once(" run:")?;
        if !(run.ends_with(" test") || run.ends_with(" tests")) {
            return None;
        }
        Some(Self::sum(&without_brackets(counts), ','))
    }

    /// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
    fn parse_standard(line: &str) -> Option<Self> {
        let (_, counts) = line.trim_start().strip_prefix("test result: ")?.split_once(". ")?;
        Some(Self::sum(counts, ';'))
    }

    fn sum(counts: &str, separator: char) -> Self {
        let mut tally = Self::default();
        for part in counts.split(separator) {
            let Some((number, word)) = part.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            match word.trim() {
                "passed" => tally.passed += number,
                "failed" | "timed out" | "exec failed" => tally.failed += number,
                "skipped" | "ignored" => tally.skipped += number,
                _ => {}
            }
        }
        tally
    }

    /// How many tests there were.
    pub(crate) fn total(self) -> usize {
        self.passed + self.failed + self.skipped
    }

    /// Counts tests as skipped that the runner took for passed, since they returned without a fault.
    pub(crate) fn skip(&mut self, tests: usize) {
        self.passed = self.passed.saturating_sub(tests);
        self.skipped += tests;
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

fn without_brackets(text: &str) -> String {
    let mut depth = 0_usize;
    let keep = |c: &char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    text.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(passed: usize, failed: usize, skipped: usize) -> Tally {
        Tally { passed, failed, skipped }
    }

    #[test]
    fn summaries_of_nextest_are_read() {
        let parse = Tally::parse;
        assert_eq!(parse("     Summary [   0.012s] 3 tests run: 3 passed, 0 skipped"), Some(tally(3, 0, 0)));
        assert_eq!(parse("     Summary [   0.1s] 1 test run: 1 passed, 12 skipped"), Some(tally(1, 0, 12)));
        let line = "Summary [ 181.0s] 4/9 tests run: 1 passed (1 slow, 1 leaky), 1 failed (1 due to being leaky), 1 exec failed, 1 timed out, 2 skipped";
        assert_eq!(parse(line), Some(tally(1, 3, 2)));
        assert_eq!(parse("Summary [   0.000s] 0 tests run: 0 passed, 0 skipped"), Some(tally(0, 0, 0)));
    }

    #[test]
    fn summaries_of_the_standard_runner_are_read() {
        let line =
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s";
        assert_eq!(Tally::parse(line), Some(tally(3, 0, 1)));
        let line = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(Tally::parse(line), Some(tally(1, 2, 0)));
    }

    #[test]
    fn a_failure_counts_once() {
        let nextest = "Summary [   0.1s] 2 tests run: 1 passed, 1 failed, 0 skipped".to_owned();
        let standard =
            "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 1 filtered out".to_owned();
        assert_eq!(Tally::of_run(&[standard.clone(), nextest]), tally(1, 1, 0));
        assert_eq!(Tally::of_run(&[standard.clone(), standard]), tally(0, 2, 0));
        assert_eq!(Tally::of_run(&[]), tally(0, 0, 0));
    }

    #[test]
    fn other_lines_are_not_summaries() {
        for line in ["", "test a ... ok", "Summary of 3 tests run: 3 passed", "running 3 tests", "3 passed"] {
            assert_eq!(Tally::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_skip_is_not_a_pass() {
        let mut sum = Tally { passed: 5, failed: 1, skipped: 1 };
        sum.skip(2);
        sum += Tally { passed: 1, failed: 0, skipped: 0 };
        assert_eq!(sum.to_string(), "4 passed, 1 failed, 3 skipped");
        assert_eq!(sum.total(), 8);
    }
}
