//! What handles, futures and the proactor share.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use transload_core::Flag;

use super::backend::{Alarm, Group};
use super::capability::Capabilities;
use super::choice::Choice;
use super::error::IoError;
use super::key::Key;
use super::operation::Operation;
use super::pending::Ticket;
use super::statistics::Statistics;
use super::table::{Entry, Phase, Table};
use crate::memory::Slab;
use crate::pool::BufferPool;

/// What the proactor's thread is asked to do.
#[derive(Debug)]
pub(super) enum Command {
    Start(Key),
    Cancel(Key),
    /// With what must stay until it is done.
    Unregister {
        slots: Vec<u16>,
        slab: Slab,
    },
    RemovePool {
        group: Group,
        pool: BufferPool,
    },
}

pub(super) struct Shared {
    /// Different for each proactor of a process.
    pub(super) id: u64,
    pub(super) choice: Choice,
    pub(super) capabilities: Capabilities,
    state: Mutex<State>,
    /// Somebody wants the proactor to look around. A lock of its own, since wakers are called by whoever gives a
    /// buffer back, who may hold the other.
    nudged: Mutex<bool>,
    /// Raised while the proactor sleeps, or is about to.
    sleeping: Flag,
    alarm: Arc<dyn Alarm>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) table: Table,
    pub(super) commands: VecDeque<Command>,
    /// Nothing more is started.
    pub(super) closed: bool,
    pub(super) statistics: Statistics,
}

impl Shared {
    pub(super) fn new(id: u64, choice: Choice, capabilities: Capabilities, alarm: Arc<dyn Alarm>) -> Self {
        Self {
            id,
            choice,
            capabilities,
            state: Mutex::default(),
            nudged: Mutex::default(),
            sleeping: Flag::new(),
            alarm,
        }
    }

    /// Nothing that may call back (buffers, wakers, regions) is dropped or called while it is held.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an operation, to be started; after a shut-down it is over at once, and its memory comes back.
    pub(super) fn submit(self: &Arc<Self>, operation: Operation) -> Ticket {
        let mut state = self.lock();
        let key = state.insert(operation, Phase::Queued);
        if !state.closed {
            state.commands.push_back(Command::Start(key));
        }
        drop(state);
        self.rouse();
        Ticket::new(self.clone(), key)
    }

    /// Adds an operation that begins when the one before it has succeeded.
    pub(super) fn submit_behind(self: &Arc<Self>, before: Option<Key>, operation: Operation) -> Ticket {
        let mut state = self.lock();
        let key = state.insert(operation, Phase::Waiting);
        if let Some(before) = before {
            match state.table.get(before) {
                Some(entry) if entry.phase != Phase::Over => entry.next_in_sequence = Some(key),
                // Nothing of a sequence succeeds before it is started, so that one was cancelled.
                _ => state.end(key, |operation| IoError::Cancelled { operation }),
            }
        }
        drop(state);
        Ticket::new(self.clone(), key)
    }

    pub(super) fn command(&self, command: Command) {
        let mut state = self.lock();
        let refused = if state.closed {
            Some(command)
        } else {
            state.commands.push_back(command);
            None
        };
        drop(state);
        drop(refused);
        self.rouse();
    }

    /// Nobody will ask for this outcome.
    pub(super) fn abandon(&self, key: Key) {
        let mut state = self.lock();
        let Some(entry) = state.table.get(key) else { return };
        entry.abandoned = true;
        let waker = entry.waker.take();
        let deliveries = std::mem::take(&mut entry.deliveries);
        let (is_spent, is_over) = (entry.is_spent(), entry.phase == Phase::Over);
        let spent = if is_spent { state.table.remove(key) } else { None };
        if !is_over {
            state.commands.push_back(Command::Cancel(key));
        }
        drop(state);
        drop((waker, deliveries, spent));
        self.rouse();
    }

    /// Wakes the proactor if it sleeps. The caller has changed the state before: the proactor raises the flag first and
    /// then looks at the state, under its lock, so one of the two sees the other.
    pub(super) fn rouse(&self) {
        if self.sleeping.take() {
            self.alarm.ring();
        }
    }

    /// Forgets the nudges so far: the caller looks around now, and then takes a turn.
    pub(super) fn heed(&self) {
        *self.nudged.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Whether somebody nudged since the last call; raises `sleeping` if nobody did and nothing is to be done.
    pub(super) fn doze(&self) -> bool {
        self.sleeping.raise();
        let nudged = std::mem::take(&mut *self.nudged.lock().unwrap_or_else(PoisonError::into_inner));
        let awake = nudged || !self.lock().commands.is_empty();
        if awake {
            self.sleeping.take();
        }
        !awake
    }

    pub(super) fn woke(&self) {
        self.sleeping.take();
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.nudged.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rouse();
    }
}

impl State {
    fn insert(&mut self, operation: Operation, phase: Phase) -> Key {
        self.statistics.submitted += 1;
        let key = self.table.insert(operation, phase);
        if self.closed {
            self.end(key, |operation| IoError::ShutDown { operation });
        }
        key
    }

    /// Ends an operation that was just added and of which nobody knows yet.
    fn end(&mut self, key: Key, error: impl FnOnce(&'static str) -> IoError) {
        if let Some(entry) = self.table.get(key).filter(|entry| entry.phase != Phase::Over) {
            entry.phase = Phase::Over;
            entry.outcome = Some(Err(error(entry.operation.name())));
            self.statistics.finished += 1;
        }
    }

    pub(super) fn entry(&mut self, key: Key) -> Option<&mut Entry> {
        self.table.get(key)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("id", &self.id).field("choice", &self.choice).finish_non_exhaustive()
    }
}
