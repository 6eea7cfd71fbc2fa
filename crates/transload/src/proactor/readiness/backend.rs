//! The back end: sockets, files and an alarm, behind the trait.

use std::sync::Arc;
use std::time::Duration;

use polling::Poller;
use rustix::io::Errno;

use super::super::backend::{Alarm, Attempt, Backend, Completion, Event, Group};
use super::super::capability::Capabilities;
use super::super::error::ProactorError;
use super::super::key::Key;
use super::bell::Bell;
use super::call;
use super::files::{Call, Files};
use super::sockets::Sockets;
use super::waiting::Work;
use crate::memory::Slab;
use crate::pool::BufferPool;

/// While calls end at once, the poller is looked at in every so many waits: a look costs several system calls, and
/// whoever waits for readiness must not wait for ever.
const WAITS_A_LOOK: u32 = 8;

/// Waits for readiness, then makes the system call.
pub(in super::super) struct ReadinessBackend {
    // Before the files, whose threads may take a while to end.
    sockets: Sockets,
    files: Files,
    bell: Bell,
    /// What the next wait hands out.
    ready: Vec<Completion>,
    /// Waits since the last look at the poller.
    unlooked: u32,
}

impl ReadinessBackend {
    /// Opens a poller. What is allowed does not matter: it has none of the capabilities, and does everything by other
    /// means.
    pub(in super::super) fn open(_allowed: Capabilities) -> Result<Self, ProactorError> {
        let poller = Poller::new().map_err(|error| ProactorError::Os {
            call: "opening a poller",
            code: error.raw_os_error().unwrap_or_default(),
        })?;
        let poller = Arc::new(poller);
        let bell = Bell::new(poller.clone());
        let (sockets, files) = (Sockets::new(poller), Files::new(bell.clone()));
        Ok(Self { sockets, files, bell, ready: Vec::new(), unlooked: 0 })
    }

    fn done(&mut self, key: Key, result: Result<usize, Errno>) {
        self.ready.push(Completion { key, event: Event::Done(result), more: false });
    }
}

impl Backend for ReadinessBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn alarm(&self) -> Arc<dyn Alarm> {
        Arc::new(self.bell.clone())
    }

    fn start(&mut self, key: Key, attempt: Attempt<'_>) {
        let (work, socket, pieces) = match attempt {
            Attempt::Nop => return self.done(key, Ok(0)),
            Attempt::Shutdown { socket, how } => return self.done(key, call::shut_down(socket, how)),
            Attempt::ReadAt { file, pieces, offset } => {
                let queued = self.files.start(key, file, Call::Read { offset }, pieces);
                return queued.unwrap_or_else(|errno| self.done(key, Err(errno)));
            }
            Attempt::WriteAt { file, pieces, offset } => {
                let queued = self.files.start(key, file, Call::Write { offset }, pieces);
                return queued.unwrap_or_else(|errno| self.done(key, Err(errno)));
            }
            Attempt::Sync { file, data_only } => {
                let queued = self.files.start(key, file, Call::Sync { data_only }, &[]);
                return queued.unwrap_or_else(|errno| self.done(key, Err(errno)));
            }
            Attempt::Connect { socket, address } => {
                if let Some(result) = call::connect(socket, address) {
                    return self.done(key, result);
                }
                (Work::Connect, socket, &[][..])
            }
            // The kernel copies here, and nobody links without the capability.
            Attempt::Send { socket, pieces, .. } => (Work::Send, socket, pieces),
            Attempt::Receive { socket, pieces } => (Work::Receive, socket, pieces),
            Attempt::ReceiveMany { socket, group } => {
                (Work::ReceiveMany { group, is_stream: call::is_stream(socket) }, socket, &[][..])
            }
            Attempt::Accept { socket } => (Work::Accept, socket, &[][..]),
            Attempt::Readable { socket } => (Work::Readable, socket, &[][..]),
        };
        self.sockets.start(key, work, socket, pieces, &mut self.ready);
    }

    fn cancel(&mut self, key: Key) {
        if !self.sockets.cancel(key, &mut self.ready) && self.files.cancel(key) {
            self.done(key, Err(Errno::CANCELED));
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, completions: &mut Vec<Completion>) -> Result<(), Errno> {
        self.files.collect(&mut self.ready);
        self.sockets.settle(&mut self.ready);
        let must_not_sleep = !self.ready.is_empty() || self.sockets.is_unsettled();
        let mut looked = Ok(());
        if must_not_sleep && (self.sockets.is_idle() || self.unlooked < WAITS_A_LOOK) {
            self.unlooked += 1;
        } else {
            self.unlooked = 0;
            let timeout = if must_not_sleep { Some(Duration::ZERO) } else { timeout };
            looked = self.sockets.look(timeout, &mut self.ready);
            self.files.collect(&mut self.ready);
        }
        completions.append(&mut self.ready);
        looked
    }

    fn register(&mut self, _slab: &Slab, _piece_bytes: usize) -> Result<Vec<u16>, String> {
        let reason = "the readiness back end pins no memory: the kernel copies what is sent and received, and finds \
                      the pages of each file operation anew; use the io_uring back end for pinned memory";
        Err(reason.to_owned())
    }

    fn unregister(&mut self, _slots: &[u16]) {}

    fn add_pool(&mut self, group: Group, pool: &BufferPool) -> Result<(), Errno> {
        self.sockets.calls.add_pool(group, pool.clone());
        Ok(())
    }

    fn remove_pool(&mut self, group: Group) {
        self.sockets.calls.remove_pool(group);
    }

    fn lends(&self, _: Group) -> bool {
        false
    }

    fn overflows(&self) -> u64 {
        0
    }
}
