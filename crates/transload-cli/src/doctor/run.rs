//! Runs all checks and tells what they found.

use std::{fmt::Write as _, io};

use clap::builder::BoolishValueParser;

use super::check::{Check, Status};
use super::device::DeviceWords;
use serde::Serialize;

/// The options of `transload doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print one JSON document instead of lines.
    #[arg(long, env = "TRANSLOAD_JSON", value_parser = BoolishValueParser::new())]
    json: bool,
    /// Measure no copy rates: devices are opened all the same.
    #[arg(long, env = "TRANSLOAD_QUICK", value_parser = BoolishValueParser::new())]
    quick: bool,
}

/// The document of `--json`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    /// Raised when a field changes its meaning or goes.
    schema: u32,
    checks: &'a [Check],
    /// Each device that a driver has, whether it opens or not.
    devices: &'a [DeviceWords],
}

/// Runs all checks and writes what they found. The answer is whether none failed.
///
/// # Errors
///
/// When the report cannot be written. A reader that has gone away is no error: it had what it wanted.
pub(crate) fn run(args: &DoctorArgs, out: &mut dyn io::Write) -> io::Result<bool> {
    let (checks, devices) = checks(args.quick);
    let text = if args.json {
        serde_json::to_string(&Report { schema: 1, checks: &checks, devices: &devices })? + "\n"
    } else {
        as_text(&checks)
    };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(checks.iter().all(|check| check.status != Status::Fail)),
    }
}

fn checks(quick: bool) -> (Vec<Check>, Vec<DeviceWords>) {
    let mut checks = super::kernel::checks();
    checks.extend(super::memory::checks());
    checks.extend(super::io::checks());
    let mut devices = Vec::new();
    checks.extend(super::devices::checks(quick, &mut devices));
    (checks, devices)
}

/// One line a check, then how many there are of each status.
fn as_text(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let Check { name, status, value, detail, fix } = check;
        // Writing to a string cannot fail.
        let _ = write!(text, "[{}] {:<6}  {name:<width$}  {value}", status.mark(), status.word());
        if !detail.is_empty() {
            let _ = write!(text, "; {detail}");
        }
        if let Some(fix) = fix {
            let _ = write!(text, " -> {fix}");
        }
        text.push('\n');
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let _ = writeln!(
        text,
        "{} ok, {} to improve (warn), {} absent, {} failed",
        count(Status::Ok),
        count(Status::Warn),
        count(Status::Absent),
        count(Status::Fail)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_mark_word_value_detail_and_fix() {
        let checks = [
            Check::new("short", Status::Ok, "1"),
            Check::new("longer", Status::Absent, "none").detail("not needed").fix("run this"),
        ];
        let expected = "\
[+] ok      short   1
[-] absent  longer  none; not needed -> run this
1 ok, 0 to improve (warn), 1 absent, 0 failed
";
        assert_eq!(as_text(&checks), expected);
    }
}
