//! A member of a campaign, as whoever kills it has it.

use std::io;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use super::actor::Role;
use super::side::Side;
use crate::inherit::start_with;
use crate::scene::Fault;
use crate::victim::Victim;
use transload::shared::SharedRegion;

/// A child of this process. Killed and reaped when it is dropped.
#[derive(Debug)]
pub struct Puppet {
    pid: Pid,
    role: Role,
    is_over: bool,
}

impl Puppet {
    /// Starts a member as [`act`](super::actor::act) says.
    pub(super) fn start(
        victim: &Victim,
        role: Role,
        numbers: [u64; 3],
        region: &SharedRegion,
        side: &Side,
    ) -> io::Result<Puppet> {
        let mut command = victim.command();
        command.args(["campaign", role.name()]).args(numbers.map(|number| number.to_string()));
        command.stdin(Stdio::null());
        let files = vec![region.file_for_peer()?, side.file().try_clone_to_owned()?];
        let child = start_with(files, &mut command, Command::spawn)?;
        let pid = Pid::from_child(&child);
        Ok(Puppet { pid, role, is_over: false })
    }

    /// Stops it, and waits until it stands.
    ///
    /// # Errors
    ///
    /// If it has ended by itself.
    pub fn stop(&mut self) -> Result<(), Fault> {
        self.signal(Signal::STOP)?;
        let status = self.wait(WaitOptions::UNTRACED)?.ok_or("a wait without an end")?;
        if status.stopped() { Ok(()) } else { Err(self.ended(status)) }
    }

    /// Lets it go on.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn go_on(&self) -> Result<(), Fault> {
        self.signal(Signal::CONT)
    }

    /// Kills it, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// If it has ended by itself.
    pub fn kill(mut self) -> Result<(), Fault> {
        self.signal(Signal::KILL)?;
        let status = self.wait(WaitOptions::empty())?.ok_or("a wait without an end")?;
        let is_ours = status.terminating_signal() == Some(Signal::KILL.as_raw());
        if is_ours { Ok(()) } else { Err(self.ended(status)) }
    }

    /// Sees to it that it still runs.
    ///
    /// # Errors
    ///
    /// If it has ended by itself.
    pub fn check(&mut self) -> Result<(), Fault> {
        match self.wait(WaitOptions::NOHANG)? {
            None => Ok(()),
            Some(status) => Err(self.ended(status)),
        }
    }

    /// Whether it has come to a good end.
    ///
    /// # Errors
    ///
    /// If it has come to a bad one.
    pub fn is_done(&mut self) -> Result<bool, Fault> {
        match self.wait(WaitOptions::NOHANG)? {
            None => Ok(false),
            Some(status) if status.exit_status() == Some(0) => Ok(true),
            Some(status) => Err(self.ended(status)),
        }
    }

    fn ended(&self, status: WaitStatus) -> Fault {
        format!("a {} ended by itself: {status:?}", self.role.name())
    }

    fn signal(&self, signal: Signal) -> Result<(), Fault> {
        kill_process(self.pid, signal).map_err(|error| error.to_string())
    }

    fn wait(&mut self, options: WaitOptions) -> Result<Option<WaitStatus>, Fault> {
        loop {
            match waitpid(Some(self.pid), options) {
                Ok(None) => return Ok(None),
                Ok(Some((_, status))) => {
                    self.is_over = status.exited() || status.signaled();
                    return Ok(Some(status));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        if !self.is_over && self.signal(Signal::KILL).is_ok() {
            let _ = self.wait(WaitOptions::empty());
        }
    }
}
