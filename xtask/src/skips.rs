//! Tests that could not run here, and said so.
//!
//! Both runners hide what a passing test prints. So a test that skips prints its line *and* appends it to the file that
//! the variable `TRANSLOAD_SKIPS` names; either is enough to be counted, and both count once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The variable that names the file.
pub(crate) const VARIABLE: &str = "TRANSLOAD_SKIPS";

/// `SKIPPED <name>: <why>`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    pub(crate) name: String,
    pub(crate) why: String,
}

impl Skip {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        // The space tells the end of the name from the `::` within it.
        let (name, why) = line.trim().strip_prefix("SKIPPED ")?.split_once(": ")?;
        let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
        is_name.then(|| Self { name: name.to_owned(), why: why.trim().to_owned() })
    }
}

/// The file that tests append to.
#[derive(Debug)]
pub(crate) struct SkipFile {
    path: PathBuf,
}

impl SkipFile {
    /// Forgets what an earlier run has left.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        let path = folder.join("skipped-tests");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, ""))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The skips since the last call, together with those among the lines of output.
    pub(crate) fn take(&self, output: &[String]) -> Result<Vec<Skip>> {
        let text = match fs::read(&self.path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.path.display())),
        };
        fs::write(&self.path, "")?;
        let mut skips: Vec<Skip> = Vec::new();
        for skip in text.lines().chain(output.iter().map(String::as_str)).filter_map(Skip::parse) {
            if !skips.contains(&skip) {
                skips.push(skip);
            }
        }
        Ok(skips)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        let skip = Skip::parse("    SKIPPED device::opencl::lands: no platform: install PoCL\n").unwrap();
        assert_eq!(skip.name, "device::opencl::lands");
        assert_eq!(skip.why, "no platform: install PoCL");
        for line in
            ["SKIPPED", "SKIPPED a", "SKIPPED a:b", "SKIPPED a b: c", "not SKIPPED a: b", "SKIPPED : b"]
        {
            assert_eq!(Skip::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_skip_in_both_places_counts_once() {
        let folder = std::env::temp_dir().join(format!("transload-xtask-skips-{}", std::process::id()));
        let file = SkipFile::create(&folder).unwrap();
        fs::write(file.path(), "SKIPPED a: b\nnoise\nSKIPPED c: d\n").unwrap();
        let names = |output: &[String]| -> Vec<String> {
            file.take(output).unwrap().into_iter().map(|skip| skip.name).collect()
        };
        assert_eq!(names(&["SKIPPED e: f".to_owned(), "SKIPPED a: b".to_owned()]), ["a", "c", "e"]);
        assert_eq!(names(&[]), [""; 0], "the file is cleared");
        fs::remove_dir_all(&folder).unwrap();
    }
}
