//! What is read, opened.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, fstat, tell};

use super::args::From;
use crate::failure::Failure;

/// A file, or whatever else bytes come out of.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    /// What people call it.
    pub(super) name: String,
    /// Of a regular file: where it is read from, and how many bytes are there from then on.
    pub(super) rest: Option<(u64, u64)>,
}

impl Opened {
    /// Nothing if messages are generated.
    pub(super) fn open(from: &From) -> Result<Option<Self>, Failure> {
        let (file, name) = match from {
            From::Gen => return Ok(None),
            From::Standard => {
                (io::stdin().as_fd().try_clone_to_owned().map(File::from), "the standard input".to_owned())
            }
            From::File(path) => (File::open(path), path.display().to_string()),
        };
        let failed = |error: io::Error| {
            Failure::new("source", format!("cannot open {name}: {error}"))
                .fix("name a file that is there and that you may read")
        };
        let file = file.map_err(failed)?;
        let stat = fstat(&file).map_err(|error| failed(error.into()))?;
        let rest = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => return Err(failed(io::ErrorKind::IsADirectory.into())),
            FileType::RegularFile => {
                // The shell may have read some of it already.
                let offset = tell(&file).unwrap_or(0);
                Some((offset, u64::try_from(stat.st_size).unwrap_or(0).saturating_sub(offset)))
            }
            _ => None,
        };
        Ok(Some(Self { file, name, rest }))
    }
}
