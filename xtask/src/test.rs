//! `cargo xtask test`: every test of the project, stage by stage.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::device::{self, Hardware};
use crate::packages;
use crate::plan::{Runner, Stage, stages};
use crate::process::CommandLine;
use crate::report::{Report, Row};
use crate::repository::Repository;
use crate::sanitizer;
use crate::say::say;
use crate::skips::{self, Skip, SkipFile};
use crate::tally::Tally;

/// What a person may ask of the tests.
#[derive(Clone, Copy, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Options {
    /// Install the Debian packages that some suites need, where that is permitted.
    #[arg(long)]
    install: bool,
    /// Take every skipped test, and every stage without a test, for a failure.
    #[arg(long)]
    strict: bool,
    /// Leave out the models and the release tests.
    #[arg(long)]
    quick: bool,
    /// Run the stress tests at length, hundreds of millions of turns each, in the place of their short form; and the
    /// proactor's suite under `AddressSanitizer`, where there is a nightly toolchain.
    #[arg(long)]
    long: bool,
    /// Run the suite of one device on real hardware, and nothing else. It fails where there is no driver.
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["install", "quick", "long", "runner"])]
    device: Option<Hardware>,
    /// What runs the tests [default: nextest where it is installed].
    #[arg(long, value_name = "RUNNER")]
    runner: Option<Runner>,
}

/// What the stages have left to say.
#[derive(Default)]
struct Notes {
    skips: Vec<(&'static str, Skip)>,
    /// Stages without a test.
    idle: Vec<&'static str>,
}

/// The stage that failed, and the command that repeats it.
type Failure = (&'static str, String);

/// Whether all is well.
pub(crate) fn test(repository: &Repository, options: Options) -> Result<bool> {
    let root = repository.root();
    if let Some(hardware) = options.device {
        return device::test(root, hardware);
    }
    let runner = options.runner.unwrap_or_else(|| {
        let is_there = CommandLine::cargo("nextest --version").succeeds(root);
        if is_there { Runner::Nextest } else { Runner::Standard }
    });
    let release_tests = ["options.rs", "options/main.rs"]
        .iter()
        .any(|file| repository.has(&format!("crates/transload-cli/tests/{file}")));
    let bench = Bench::new(repository, options.long)?;
    let mut report = Report::default();
    let mut notes = Notes::default();

    say!("== packages");
    let started = Instant::now();
    let success = packages::prepare(root, options.install, options.strict)?;
    report.add(Row { name: "packages", time: started.elapsed(), success, tally: None });
    let mut failure = (!success).then(|| ("packages", "cargo xtask test --install --strict".to_owned()));

    if failure.is_none() {
        let mut planned = stages(runner, options.quick, release_tests);
        if options.long {
            if sanitizer::is_possible(root) {
                planned.push(sanitizer::stage(&repository.target()));
            } else {
                say!("note: {}", sanitizer::ADVICE);
                notes.idle.push(sanitizer::NAME);
            }
        }
        for stage in planned {
            if !bench.run(repository, &stage, &mut report, &mut notes)? {
                failure = Some((stage.name, stage.command.to_string()));
                break;
            }
        }
        if !options.quick && !release_tests && report.success() {
            notes.idle.push("release tests");
        }
    }
    Ok(finish(&report, &notes, failure.as_ref(), options.strict))
}

/// Where the tests leave their traces.
struct Bench {
    skips: SkipFile,
    variables: Vec<(&'static str, String)>,
}

impl Bench {
    fn new(repository: &Repository, long: bool) -> Result<Self> {
        let target = repository.target();
        let skips = SkipFile::create(&target)?;
        // Drivers keep compiled kernels; a home folder may be missing or read-only where tests run.
        let cache = |name: &str| -> Result<String> {
            let cache = target.join(name);
            fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
            Ok(cache.to_string_lossy().into_owned())
        };
        let mut variables = vec![
            ("POCL_CACHE_DIR", cache("pocl-cache")?),
            // Mesa's, and that of the validation layer.
            ("XDG_CACHE_HOME", cache("vulkan-cache")?),
            (skips::VARIABLE, skips.path().to_string_lossy().into_owned()),
        ];
        if long {
            variables.push(("TRANSLOAD_LONG", "1".to_owned()));
            // The watchdog for hours, not minutes.
            variables.push(("NEXTEST_PROFILE", "long".to_owned()));
        }
        Ok(Self { skips, variables })
    }

    fn run(
        &self,
        repository: &Repository,
        stage: &Stage,
        report: &mut Report,
        notes: &mut Notes,
    ) -> Result<bool> {
        say!("\n== {}: {}", stage.name, stage.command);
        let add =
            |command: CommandLine, (name, value): &(&str, String)| command.variable(name, value.as_str());
        let command = self.variables.iter().fold(stage.command.clone(), add);
        let started = Instant::now();
        let wanted = |line: &str| Tally::parse(line).is_some() || Skip::parse(line).is_some();
        let outcome = command.run_watched(repository.root(), wanted)?;
        let time = started.elapsed();
        let mut tally = Tally::of_run(&outcome.lines);
        let skips = self.skips.take(&outcome.lines)?;
        tally.skip(skips.len());
        if stage.has_tests && !outcome.success && tally.failed == 0 {
            // A test that did not compile or that took its runner down is in no summary.
            tally.failed = 1;
        }
        if stage.has_tests && outcome.success && tally.total() == 0 {
            notes.idle.push(stage.name);
        }
        notes.skips.extend(skips.into_iter().map(|skip| (stage.name, skip)));
        let tally = stage.has_tests.then_some(tally);
        report.add(Row { name: stage.name, time, success: outcome.success, tally });
        Ok(outcome.success)
    }
}

/// Prints what there is to say at the end; the last line is for scripts.
fn finish(report: &Report, notes: &Notes, failure: Option<&Failure>, strict: bool) -> bool {
    say!("\n{report}\n");
    for (stage, skip) in &notes.skips {
        say!("SKIPPED {} ({stage}): {}", skip.name, skip.why);
    }
    for stage in &notes.idle {
        say!("note: the stage \"{stage}\" has no tests");
    }
    if let Some((stage, command)) = failure {
        say!("FAILED in the stage \"{stage}\". To repeat it: {command}");
    }
    let mut tally = report.tally();
    if failure.is_some() {
        // A stage that failed before it came to a test: whoever reads the last line alone must see it.
        tally.failed = tally.failed.max(1);
    }
    let is_complete = tally.skipped == 0 && notes.idle.is_empty();
    if strict && !is_complete {
        say!("FAILED: --strict allows no skipped test and no stage without tests");
    }
    say!("{tally}");
    is_success(tally, is_complete, strict)
}

fn is_success(tally: Tally, is_complete: bool, strict: bool) -> bool {
    tally.failed == 0 && (is_complete || !strict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_fails_only_when_strict() {
        let tally = Tally { passed: 1, failed: 0, skipped: 1 };
        assert!(is_success(tally, false, false));
        assert!(!is_success(tally, false, true));
        assert!(is_success(Tally { skipped: 0, ..tally }, true, true));
    }

    #[test]
    fn a_failure_always_fails() {
        let tally = Tally { passed: 1, failed: 1, skipped: 0 };
        assert!(!is_success(tally, true, false));
        assert!(!is_success(tally, true, true));
    }
}
