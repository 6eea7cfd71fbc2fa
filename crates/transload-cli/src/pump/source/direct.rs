//! Messages out of a file, past the page cache.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::mpsc::SyncSender;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use transload::pool::BufferPool;
use transload::proactor::{File, Proactor};
use transload::region::Region;

use super::{Ended, Stage, Why};
use crate::failure::Failure;
use crate::io_backend::{BUFFER_BYTES, IoOptions, IoWords};

/// Reads in flight at once, if there are buffers for them.
const DEPTH: usize = 8;

/// A file that was opened for direct reads.
#[derive(Debug)]
pub(in crate::pump) struct DirectFile {
    file: File,
    /// What people call it.
    name: String,
}

impl DirectFile {
    pub(in crate::pump) fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let refused = |error: io::Error| {
            Failure::new("source", format!("cannot open {name}: {error}"))
                .fix("name a file that is there and that you may read")
        };
        // Before it is opened: that might wait for the other end of a pipe.
        let kind = path.metadata().map_err(refused)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(Failure::new(
                "source",
                format!("{name} cannot be read directly: it is no file or disk"),
            )
            .fix("leave --direct away"));
        }
        match rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => Ok(Self { file: file.into(), name }),
            Err(Errno::INVAL) => Err(not_direct(&name)),
            Err(error) => Err(refused(error.into())),
        }
    }
}

fn not_direct(name: &str) -> Failure {
    Failure::new(
        "source",
        format!("{name} cannot be read directly: its file system has no direct I/O (O_DIRECT)"),
    )
    .fix("leave --direct away, or put the file on a file system that has it, as ext4, xfs and btrfs")
}

/// Reads a file directly, in order, several reads at once.
pub(in crate::pump) struct Direct {
    pub(in crate::pump) file: DirectFile,
    pub(in crate::pump) stage: Stage,
    pub(in crate::pump) io: IoOptions,
}

impl Direct {
    /// Runs to the end; tells first which back end does the work, or why there is none.
    pub(in crate::pump) fn run(self, ready: SyncSender<Result<IoWords, Failure>>) -> Ended {
        let opened = self.io.open().and_then(|(proactor, words)| {
            let buffers = self.io.buffers(&proactor)?;
            Ok((proactor, words, buffers))
        });
        match opened {
            Ok((proactor, words, buffers)) => {
                let _ = ready.send(Ok(words));
                let read = proactor.block_on(self.read(&proactor, &buffers));
                read.unwrap_or_else(|error| Err(Failure::new("io", error)))
            }
            Err(failure) => {
                let _ = ready.send(Err(failure));
                Ok(Why::Stopped)
            }
        }
    }

    async fn read(&self, proactor: &Proactor, buffers: &Region) -> Ended {
        let Self { file: DirectFile { file, name }, stage, .. } = self;
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new("source", format!("cannot read {name}: {error}")).fix("try it without --direct")
        };
        let pool = BufferPool::new(buffers).map_err(|error| failed(&error))?;
        let handle = proactor.handle();
        let mut assembler = stage.assembler();
        if let Err(why) = stage.begin() {
            return Ok(why);
        }
        let mut in_flight = VecDeque::with_capacity(DEPTH);
        let mut offset = 0;
        loop {
            while in_flight.len() < DEPTH
                && let Ok(buffer) = pool.try_acquire()
            {
                in_flight.push_back(handle.read_at(file, buffer, offset));
                offset += BUFFER_BYTES as u64;
            }
            let Some(next) = in_flight.pop_front() else {
                return Err(failed(&"no buffer is free"));
            };
            let done = next.await;
            let read_bytes = match done.result {
                Ok(read_bytes) => read_bytes,
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    return Err(not_direct(name));
                }
                Err(error) => return Err(failed(&error)),
            };
            if let Some(buffer) = done.buffers.into_lease()
                && let Err(halt) = stage.piece(&mut assembler, &buffer[..read_bytes])
            {
                return halt.into();
            }
            if read_bytes < BUFFER_BYTES {
                return stage.end(&mut assembler).map_or_else(Into::into, |()| Ok(Why::End));
            }
        }
    }
}
