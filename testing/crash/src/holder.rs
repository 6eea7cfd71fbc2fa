//! A member that has something, and waits: to be killed, to be stopped, or to be told to go.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, Stdio};

use transload::shared::{SendError, SharedAcquireError, SharedPool, SharedRegion, TakeError};

use crate::inherit::start_with;

/// How many buffers a holder has.
pub const HELD: usize = 2;
/// What is in the message that it has sent.
pub const HOLDER_ID: u64 = 88;

/// A holder, as whoever started it has it. Killed when it is dropped.
#[derive(Debug)]
pub struct Holder {
    child: Child,
}

impl Holder {
    /// Starts a holder by a command that ends with the victim's, and waits until it has what it wants.
    ///
    /// # Panics
    ///
    /// If it does not come to that.
    pub fn start(mut command: Command, role: &str, region: &SharedRegion) -> Holder {
        command.arg(role).stdin(Stdio::piped()).stdout(Stdio::piped());
        let files = vec![region.file_for_peer().unwrap()];
        let mut child = start_with(files, &mut command, Command::spawn).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{command:?}");
        Holder { child }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it; what it has forked lives on, until what this gives is dropped.
    ///
    /// # Panics
    ///
    /// If it cannot be killed.
    pub fn kill(mut self) -> Option<ChildStdin> {
        // A wait would close it.
        let pipe = self.child.stdin.take();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        pipe
    }

    /// Tells it to go, and says whether it had nothing to complain of.
    ///
    /// # Panics
    ///
    /// If it cannot be waited for.
    pub fn end(mut self) -> bool {
        drop(self.child.stdin.take());
        self.child.wait().unwrap().success()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Both fail if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes buffers, sends a message, says so, and waits to be told to go. `forks`: a child does so too, which has nothing.
///
/// # Errors
///
/// What went wrong.
pub fn hold(file: OwnedFd, forks: bool) -> Result<(), String> {
    let region = SharedRegion::open(file).map_err(|error| error.to_string())?;
    let pool = SharedPool::join(&region, "holder").map_err(|error| error.to_string())?;
    let leases: Result<Vec<_>, _> = (0..HELD).map(|_| pool.try_acquire()).collect();
    let leases = leases.map_err(|error| error.to_string())?;
    pool.ring().try_send_copy(&HOLDER_ID.to_le_bytes()).map_err(|error| error.to_string())?;
    if forks {
        // SAFETY: this process has one thread, so the child may do all that it could.
        let child = unsafe { libc::fork() };
        if child == 0 {
            has_nothing(&pool)?;
            // Its copies do nothing when they are dropped. What keeps the lock is the descriptor.
            drop((leases, pool.clone()));
            return wait(false);
        }
    }
    wait(true)?;
    drop(leases);
    match pool.try_acquire() {
        Err(SharedAcquireError::Poisoned(why)) => Err(why.to_string()),
        _ => Ok(()),
    }
}

fn has_nothing(pool: &SharedPool) -> Result<(), String> {
    let ring = pool.ring();
    let checks = [
        ("takes a buffer", matches!(pool.try_acquire(), Err(SharedAcquireError::Forked(_)))),
        ("sends", matches!(ring.try_send_copy(b"x"), Err(SendError::Forked(_)))),
        ("becomes the consumer", ring.consumer().is_err()),
        ("recovers", pool.recover().is_empty()),
        ("joins", SharedPool::join(pool.region(), "child").is_err()),
    ];
    match checks.iter().find(|(_, is_refused)| !is_refused) {
        None => Ok(()),
        Some((what, _)) => Err(format!("a child {what} by what its parent has")),
    }
}

fn wait(says_so: bool) -> Result<(), String> {
    if says_so {
        let mut out = std::io::stdout();
        out.write_all(b"ready\n").and_then(|()| out.flush()).map_err(|error| error.to_string())?;
    }
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).map(drop).map_err(|error| error.to_string())
}

/// Takes what is there, and is done with it: what the messages have in them.
///
/// # Errors
///
/// Why there is no message, if not since there is none.
///
/// # Panics
///
/// If there is a consumer.
pub fn drain(pool: &SharedPool) -> Result<Vec<u64>, TakeError> {
    let mut consumer = pool.ring().consumer().unwrap();
    let mut ids = Vec::new();
    while let Some(more) = crate::scene::take(&mut consumer, 8)? {
        ids.extend(more.into_iter().map(|message| message.id));
    }
    Ok(ids)
}
