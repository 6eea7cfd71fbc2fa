//! Runs as somebody with fewer rights.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use super::{Run, TRANSLOAD};

/// A user without any rights, with a copy of the binary in a folder that everybody may enter.
#[derive(Debug)]
pub(crate) struct Nobody {
    pub(crate) folder: tempfile::TempDir,
    copy: PathBuf,
}

impl Nobody {
    /// Needs root, and setpriv and prlimit.
    pub(crate) fn new() -> Option<Self> {
        let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
        if !is_root() || !has("setpriv") || !has("prlimit") {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let copy = folder.path().join("transload");
        fs::copy(TRANSLOAD, &copy).expect("a copy");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("rights");
        Some(Self { folder, copy })
    }

    /// `transload pump` onto the host, with these limits for `prlimit`.
    pub(crate) fn pump(&self, limits: &[&str], args: &[&str]) -> Run {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"])
            .args(["--bounding-set=-all", "prlimit"])
            .args(limits)
            .arg(&self.copy)
            .args(["pump", "--to", "host"])
            .args(args)
            .current_dir(self.folder.path());
        Run::of(command)
    }
}

pub(crate) const WHY: &str = "needs root, setpriv and prlimit (util-linux)";

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
