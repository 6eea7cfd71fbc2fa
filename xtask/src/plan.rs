//! The stages of the tests, in their order.
//!
//! None of these stages sets flags of the compiler, and each uses the same folder of outputs, so that nothing is built
//! twice. The one that does, in `sanitizer`, is for those who ask for long tests.

use crate::process::CommandLine;

/// What runs the tests. Doc tests always run with the standard runner: nextest has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Runner {
    /// cargo-nextest: each test in its own process, with a watchdog.
    Nextest,
    /// What comes with Rust.
    Standard,
}

/// One command of the plan.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) command: CommandLine,
    pub(crate) has_tests: bool,
}

/// Takes whether there are release tests yet.
pub(crate) fn stages(runner: Runner, quick: bool, release_tests: bool) -> Vec<Stage> {
    let run = |standard: &str, nextest: &str| match runner {
        // Whether there were tests at all is for us to judge.
        Runner::Nextest => CommandLine::cargo(&format!("nextest run --no-tests=pass {nextest}")),
        Runner::Standard => CommandLine::cargo(&format!("test --no-fail-fast {standard}")),
    };
    let build = |name, arguments| Stage { name, command: CommandLine::cargo(arguments), has_tests: false };
    let tests = |name, command| Stage { name, command, has_tests: true };

    let mut stages = vec![
        build("build", "test --workspace --no-run"),
        tests("tests", run("--workspace --lib --bins --tests", "--workspace")),
        tests("doc tests", CommandLine::cargo("test --no-fail-fast --workspace --doc")),
    ];
    if quick {
        return stages;
    }
    // Doc tests are left out: they show the use of the real atomics, which a model does not have.
    let models = "-p transload-core --features model";
    let standard = format!("{models} --lib --tests");
    stages.push(tests("models", run(&standard, &format!("--profile models {models}"))));
    // Overflow behaves differently in release, so what the command line says about it is tested there too.
    if release_tests {
        let release = "--release -p transload-cli --test options";
        stages.push(build("release build", "test --release -p transload-cli --test options --no-run"));
        stages.push(tests("release tests", run(release, release)));
    } else {
        stages.push(build("release build", "build --release -p transload-cli"));
    }
    stages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(stages: &[Stage]) -> Vec<&str> {
        stages.iter().map(|stage| stage.name).collect()
    }

    #[test]
    fn a_machine_with_nothing_but_rust_will_do() {
        for stage in stages(Runner::Standard, false, true) {
            let command = stage.command.to_string();
            assert!(command.starts_with("cargo test "), "{command}");
        }
    }

    #[test]
    fn both_runners_have_the_same_stages() {
        let expected = ["build", "tests", "doc tests", "models", "release build", "release tests"];
        assert_eq!(names(&stages(Runner::Standard, false, true)), expected);
        assert_eq!(names(&stages(Runner::Nextest, false, true)), expected);
        assert_eq!(names(&stages(Runner::Nextest, false, false)), expected[..5]);
        assert_eq!(names(&stages(Runner::Nextest, true, true)), expected[..3]);
    }

    #[test]
    fn only_nextest_is_asked_for_its_profile() {
        let command = |runner| stages(runner, false, true)[3].command.to_string();
        assert!(command(Runner::Nextest).contains("--profile models"));
        assert!(!command(Runner::Standard).contains("--profile"));
    }
}
