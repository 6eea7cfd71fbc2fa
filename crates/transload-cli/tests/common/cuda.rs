//! A driver of CUDA for the command: the stand-in, unless the tests are to use a real one.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::Run;

/// A folder with the stand-in under the name of the driver; none where `TRANSLOAD_CUDA` is `real`.
#[derive(Debug)]
pub(crate) struct Driver {
    folder: Option<TempDir>,
}

impl Driver {
    /// Looks for the stand-in, which Cargo builds into the folder of the tests.
    pub(crate) fn new() -> Self {
        if std::env::var("TRANSLOAD_CUDA").is_ok_and(|which| which == "real") {
            return Self { folder: None };
        }
        let test = std::env::current_exe().expect("a test is a file");
        let library = test.with_file_name("libtransload_cuda_stand_in.so");
        assert!(library.exists(), "{} is not there", library.display());
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["libcuda.so", "libcuda.so.1"] {
            symlink(&library, folder.path().join(name)).expect("a link");
        }
        Self { folder: Some(folder) }
    }

    /// The run, which finds this driver.
    pub(crate) fn found_by(&self, run: Run) -> Run {
        match &self.folder {
            Some(folder) => run.env("LD_LIBRARY_PATH", folder.path()),
            None => run,
        }
    }
}
