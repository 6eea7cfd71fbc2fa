//! What each stage took and what came of it, as a table.

use std::fmt;
use std::time::Duration;

use crate::tally::Tally;

/// One stage that has run.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) time: Duration,
    pub(crate) success: bool,
    /// `None` for a stage that runs no tests.
    pub(crate) tally: Option<Tally>,
}

/// The stages so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Over all stages.
    pub(crate) fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        self.rows.iter().filter_map(|row| row.tally).for_each(|tally| sum += tally);
        sum
    }

    pub(crate) fn success(&self) -> bool {
        self.rows.iter().all(|row| row.success)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max("stage".len());
        writeln!(f, "{:width$}  seconds", "stage")?;
        for row in &self.rows {
            write!(f, "{:width$}  {:>7.1}", row.name, row.time.as_secs_f64())?;
            if let Some(tally) = row.tally {
                write!(f, "  {tally}")?;
            }
            writeln!(f, "{}", if row.success { "" } else { "  FAILED" })?;
        }
        let time: Duration = self.rows.iter().map(|row| row.time).sum();
        write!(f, "{:width$}  {:>7.1}", "total", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_adds_up() {
        let mut report = Report::default();
        let time = Duration::from_millis(12_340);
        report.add(Row { name: "build", time, success: true, tally: None });
        assert!(report.success());
        let tally = Tally { passed: 3, failed: 1, skipped: 0 };
        report.add(Row { name: "doc tests", time, success: false, tally: Some(tally) });
        assert!(!report.success());
        assert_eq!(report.tally(), tally);
        let table = "stage      seconds\n\
                     build         12.3\n\
                     doc tests     12.3  3 passed, 1 failed, 0 skipped  FAILED\n\
                     total         24.7";
        assert_eq!(report.to_string(), table);
    }
}
