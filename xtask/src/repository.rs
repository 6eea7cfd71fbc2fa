//! The checkout: where it is, and the files that the checks read.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folders that hold the project's own files. Others, such as build outputs and what an editor leaves behind, are
/// nobody's to check.
const FOLDERS: [&str; 10] =
    ["crates", "testing", "xtask", "bench", "fuzz", "docs", "examples", ".cargo", ".ci", ".config"];

/// The root of the checkout.
#[derive(Debug)]
pub(crate) struct Repository {
    root: PathBuf,
}

/// A text file of the project.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }

    pub(crate) fn is_markdown(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "md")
    }

    pub(crate) fn is_below(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl Repository {
    /// Cargo says at run time where this package is, so that a binary built elsewhere still finds its own checkout.
    pub(crate) fn find() -> Result<Self> {
        let package = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package.parent().context("the xtask package has no parent folder")?.to_owned();
        Ok(Self { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Where cargo builds.
    pub(crate) fn target(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| self.root.join("target"), |folder| self.root.join(folder))
    }

    /// Every file of the project, sorted by path.
    pub(crate) fn sources(&self) -> Result<Vec<Source>> {
        let mut sources = Vec::new();
        self.collect(Path::new(""), false, &mut sources)?;
        for folder in FOLDERS {
            if self.has(folder) {
                self.collect(Path::new(folder), true, &mut sources)?;
            }
        }
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(sources)
    }

    fn collect(&self, folder: &Path, deep: bool, sources: &mut Vec<Source>) -> Result<()> {
        let full = self.root.join(folder);
        for entry in fs::read_dir(&full).with_context(|| format!("cannot list {}", full.display()))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let path = folder.join(entry.file_name());
            if kind.is_dir() && deep && entry.file_name() != "target" {
                self.collect(&path, true, sources)?;
            } else if kind.is_file() && entry.file_name() != ".git" {
                // In a second work tree, `.git` is a file that says where the first one is.
                let bytes = fs::read(entry.path())
                    .with_context(|| format!("cannot read {}", entry.path().display()))?;
                sources.push(Source {
                    path: path.to_string_lossy().replace('\\', "/"),
                    text: String::from_utf8_lossy(&bytes).into_owned(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkout_holds_this_file() {
        let repository = Repository::find().unwrap();
        let sources = repository.sources().unwrap();
        let this = sources.iter().find(|source| source.path == "xtask/src/repository.rs").unwrap();
        assert!(this.is_rust() && this.is_below("xtask") && !this.is_below("xta"));
        assert!(sources.iter().any(|source| source.path == "Cargo.toml"));
        assert!(sources.iter().all(|source| !source.path.contains("target/")));
    }
}
