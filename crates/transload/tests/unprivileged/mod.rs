//! Tests that run again as nobody: as root nothing is ever refused, so that would prove nothing.
#![allow(clippy::print_stderr, reason = "a test that cannot run says so")]

use std::{fs, path::PathBuf, process::Command};

/// One test of this program, to be run as nobody, in a copy of the program: that may lie where nobody may not go.
pub(crate) struct Nobody {
    pub(crate) command: Command,
    copy: PathBuf,
}

impl Nobody {
    /// `through` are the first words of the command, for what it should be restricted by. `None`, with a line that says
    /// so, where there is no way to become nobody.
    pub(crate) fn running(test: &str, through: &[&str]) -> Option<Nobody> {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root || Command::new("setpriv").arg("--version").output().is_err() {
            eprintln!("SKIPPED {test}: needs root and setpriv (util-linux) to become nobody");
            return None;
        }
        let copy = std::env::temp_dir().join(format!("transload-nobody-{}", std::process::id()));
        fs::copy(std::env::current_exe().expect("a program"), &copy).expect("a copy");
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"])
            .arg("--bounding-set=-all")
            .args(through)
            .arg(&copy)
            .args(["--exact", test, "--nocapture", "--test-threads=1"]);
        Some(Nobody { command, copy })
    }

    /// Runs it, and sees that it ran and passed.
    pub(crate) fn succeeds(mut self) {
        let output = self.command.output().expect("it runs");
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
}

impl Drop for Nobody {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.copy);
    }
}
