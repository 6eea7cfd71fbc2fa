//! Processes that take part in a region, a folder of one's own, and the two sides of the protocol spoken by hand.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod by_hand;
pub(crate) mod process;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use transload::shared::handover::{HandoverError, Name, Post, Terms, create};
use transload::shared::{SharedError, SharedRegion};

/// After this a wait is taken for one without end.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// A folder of one test, removed at the end.
#[derive(Debug)]
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("transload-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        set_mode(&path, 0o700);
        Self(path)
    }

    /// The name of a region whose socket is in this folder.
    pub(crate) fn name(&self, file: &str) -> Name {
        self.path(file).to_str().unwrap().parse().unwrap()
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn terms(patience_ms: u64) -> Terms {
    Terms::new().patience(Duration::from_millis(patience_ms))
}

pub(crate) fn small_region() -> Result<SharedRegion, SharedError> {
    SharedRegion::builder(16, 256).members(8).create()
}

pub(crate) fn made(name: &Name) -> Result<(SharedRegion, Post), HandoverError> {
    create(name, &terms(2000), small_region)
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + WATCHDOG;
    while !is_so() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How many descriptors a process has.
pub(crate) fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Says that a test cannot run here; one line a test, in the list of skips too if there is one.
pub(crate) fn skip(test: &str, why: &str) {
    let line = format!("SKIPPED shared_handover::{test}: {why}\n");
    print!("{line}");
    if let Some(path) = std::env::var_os("TRANSLOAD_SKIPS") {
        let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
        // One write: lines of tests that run side by side do not mix.
        file.write_all(line.as_bytes()).unwrap();
    }
}
