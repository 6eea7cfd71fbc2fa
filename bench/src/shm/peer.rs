//! The other process: this program again.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::io::FdFlags;
use serde::{Deserialize, Serialize};

use super::end::{Place, Run};
use crate::pin::pin_to;

const READY: &str = "ready";

/// What the peer is told on its command line.
#[derive(Debug, Serialize, Deserialize)]
struct Errand {
    run: Run,
    core: usize,
    place: Place,
}

/// A peer that waits for messages. Killed if it is dropped before it has ended.
#[derive(Debug)]
pub(super) struct Peer(Child);

impl Peer {
    /// Starts one that inherits these files.
    pub(super) fn inheriting(run: Run, core: usize, files: &[OwnedFd]) -> Result<Self> {
        for file in files {
            rustix::io::fcntl_setfd(file, FdFlags::empty())?;
        }
        let numbers = files.iter().map(AsRawFd::as_raw_fd).collect();
        Self::start(run, core, Place::Descriptors(numbers))
    }

    /// Starts one, and waits until it is ready.
    pub(super) fn start(run: Run, core: usize, place: Place) -> Result<Self> {
        let errand = serde_json::to_string(&Errand { run, core, place })?;
        let mut command = Command::new(env::current_exe().context("cannot find this program")?);
        command.args(["shm-peer", &errand]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut peer = Self(command.spawn().context("cannot start the other process")?);
        let mut line = String::new();
        if let Some(output) = peer.0.stdout.take() {
            BufReader::new(output).read_line(&mut line).context("cannot hear the other process")?;
        }
        ensure!(line.trim_end() == READY, "the other process did not begin: {line:?}");
        Ok(peer)
    }

    /// Lets it end, and says whether it was content with what it saw.
    pub(super) fn finish(mut self) -> Result<()> {
        drop(self.0.stdin.take());
        let status = self.0.wait().context("cannot wait for the other process")?;
        ensure!(status.success(), "the other process failed: {status}");
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It fails for one that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does what the other process says.
///
/// # Errors
///
/// When a message is not what it must be, or does not come.
pub fn be_the_peer(errand: &str) -> Result<()> {
    let Errand { run, core, place } = serde_json::from_str(errand).context("no errand")?;
    pin_to(core);
    run.far(&place)
}

/// A file that the other process has left open for this one.
pub(super) fn inherited(number: RawFd) -> OwnedFd {
    // SAFETY: whoever started this process left it open and told nobody else of it; each number is taken once.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Tells the other process that messages can come.
pub(super) fn say_ready() -> Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{READY}")?;
    Ok(output.flush()?)
}

/// Keeps everything open until the other process has what it wants.
pub(super) fn wait_for_the_end() -> Result<()> {
    io::stdin().read_to_end(&mut Vec::new()).context("cannot wait for the other process")?;
    Ok(())
}
