//! Where iceoryx2 keeps its files in a run.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, anyhow};
use iceoryx2::prelude::{Config, FileName, Path, SemanticString};
use serde::{Deserialize, Serialize};

/// Where POSIX shared memory has its names.
const SHARED_MEMORY: &str = "/dev/shm";

/// A folder of its own, and a prefix of names of its own, so that nothing is shared with anybody else on the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Names {
    folder: PathBuf,
    prefix: String,
}

/// The names, until this is dropped. Then nothing is left of them, even if a process has died.
#[derive(Debug)]
pub(super) struct Folder(Names);

impl Folder {
    pub(super) fn create() -> Result<Self> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("transload_bench_{}_{run}_", process::id());
        let folder = env::temp_dir().join(&prefix);
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(Names { folder, prefix }))
    }

    pub(super) fn names(&self) -> &Names {
        &self.0
    }
}

impl Names {
    /// The default settings, in this folder.
    pub(super) fn config(&self) -> Result<Config> {
        let mut config = Config::default();
        let folder = self.folder.to_str().context("the temporary folder's name is no text")?;
        let path = |error| anyhow!("{folder} is no folder for iceoryx2: {error:?}");
        config.global.set_root_path(&Path::new(folder.as_bytes()).map_err(path)?);
        config.global.prefix = FileName::new(self.prefix.as_bytes()).map_err(path)?;
        Ok(config)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let Names { folder, prefix } = &self.0;
        // What is gone already need not be removed.
        let _ = fs::remove_dir_all(folder);
        for entry in fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(prefix.as_str()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
