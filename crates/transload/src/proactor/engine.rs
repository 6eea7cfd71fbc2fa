//! The proactor's own thread of work: starts attempts, takes their completions, and decides what follows.
//!
//! What goes from one attempt to the next is decided here, once for all back ends: a short send goes on before the next
//! on its socket begins; a zero-copy send that is refused is done again with a copy; a receive that finds no buffer
//! waits for one to come back; a stream that nobody empties is held.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::backend::{Backend, Completion, Event, Piece};
use super::capability::Capability;
use super::error::IoError;
use super::key::Key;
use super::lines::Lines;
use super::operation::{Operation, ZeroCopy};
use super::pools::{Asked, Pools};
use super::shared::{Command, Shared, State};
use super::socket::Socket;
use super::table::{Entry, Flow, Phase};

/// How many sends of one socket are handed to the kernel as one chain.
const LONGEST_CHAIN: usize = 8;

pub(super) struct Engine {
    pub(super) backend: Box<dyn Backend>,
    pub(super) shared: Arc<Shared>,
    /// Sends go without a copy from so many bytes on.
    zero_copy_from: usize,
    pub(super) lines: Lines,
    /// Lines that somebody has joined.
    joined: Vec<usize>,
    timers: BTreeSet<(Instant, Key)>,
    /// Streams with as many deliveries as are kept.
    pub(super) crowded: Vec<Key>,
    closing: Vec<Closing>,
    pub(super) pools: Pools,
    /// To be called and dropped when no lock is held.
    pub(super) aftermath: Aftermath,
    // Reused from turn to turn.
    pieces: Vec<Piece>,
    completions: Vec<Completion>,
    commands: Vec<Command>,
}

/// A socket that is being closed.
struct Closing {
    key: Key,
    /// Nothing was in flight on it when last looked at.
    is_quiet: bool,
}

/// What is called or dropped when no lock is held, since it may call anything.
#[derive(Default)]
pub(super) struct Aftermath {
    pub(super) wakers: Vec<Waker>,
    pub(super) entries: Vec<Entry>,
    pub(super) events: Vec<Event>,
    sockets: Vec<Socket>,
}

impl Aftermath {
    /// Whether anybody was woken. Wakers run anybody's code: when one panics, the others are called the next time.
    fn settle(&mut self) -> bool {
        let woke = !self.wakers.is_empty();
        // In their order.
        self.wakers.reverse();
        while let Some(waker) = self.wakers.pop() {
            waker.wake();
        }
        self.entries.clear();
        self.events.clear();
        self.sockets.clear();
        woke
    }
}

impl Engine {
    pub(super) fn new(backend: Box<dyn Backend>, shared: Arc<Shared>, zero_copy_from: usize) -> Self {
        Self {
            backend,
            shared,
            zero_copy_from,
            lines: Lines::default(),
            joined: Vec::new(),
            timers: BTreeSet::new(),
            crowded: Vec::new(),
            closing: Vec::new(),
            pools: Pools::default(),
            aftermath: Aftermath::default(),
            pieces: Vec::new(),
            completions: Vec::new(),
            commands: Vec::new(),
        }
    }

    /// Does what is to be done, waits for more at most so long (`None`: for ever), and does that. Says how many
    /// completions there were.
    pub(super) fn turn(&mut self, timeout: Option<Duration>) -> Result<usize, Errno> {
        self.hold_crowded();
        self.obey();
        self.feed_starving();
        self.expire();
        let busy = self.aftermath.settle() || self.closing.iter().any(|closing| closing.is_quiet);
        let timeout = if busy || !self.shared.doze() { Some(Duration::ZERO) } else { self.until(timeout) };
        let waited = self.backend.wait(timeout, &mut self.completions);
        self.shared.woke();
        let count = self.completions.len();
        self.apply();
        self.expire();
        self.aftermath.settle();
        waited.map(|()| count)
    }

    /// Does what was asked for.
    pub(super) fn obey(&mut self) {
        let shared = self.shared.clone();
        let mut commands = std::mem::take(&mut self.commands);
        commands.extend(shared.lock().commands.drain(..));
        for command in commands.drain(..) {
            match command {
                Command::Start(key) => self.start(&mut shared.lock(), key),
                Command::Cancel(key) => self.cancel(&mut shared.lock(), key),
                Command::Unregister { slots, slab } => {
                    self.backend.unregister(&slots);
                    drop(slab);
                }
                Command::RemovePool { group, pool } => {
                    self.pools.remove(&mut *self.backend, group);
                    drop(pool);
                }
            }
        }
        self.commands = commands;
        while let Some(line) = self.joined.pop() {
            self.advance(&mut shared.lock(), line);
        }
        self.register_what_waits();
        self.look_at_closing(&mut shared.lock(), false);
    }

    /// Registrations run drivers and drop handles, so they are done when no lock is held.
    fn register_what_waits(&mut self) {
        while let Some(key) = self.pools.next_to_register() {
            let shared = self.shared.clone();
            let asked = shared.lock().entry(key).and_then(|entry| match &entry.operation {
                Operation::Register { slab, access, pinning } => {
                    Some(Asked::Slab(slab.clone(), *access, *pinning))
                }
                Operation::MakePool { region } => Some(Asked::Pool(region.clone())),
                _ => None,
            });
            let Some(asked) = asked else { continue };
            let extra = self.pools.answer(&mut *self.backend, &shared, asked);
            let mut state = shared.lock();
            if let Some(entry) = state.entry(key) {
                entry.extra = Some(extra);
            } else {
                drop(state);
                drop(extra);
                continue;
            }
            self.finish(&mut state, key, Ok(0));
        }
    }

    /// Starts an operation, or goes on with it.
    fn start(&mut self, state: &mut State, key: Key) {
        let Some(entry) = state.entry(key) else { return };
        if entry.phase == Phase::Over || entry.in_kernel > 0 {
            return;
        }
        // A stream that goes on after a pause comes here too.
        entry.phase = Phase::Queued;
        if let Err(error) = entry.operation.check_access() {
            self.finish(state, key, Err(error));
            return;
        }
        match &entry.operation {
            Operation::Send { socket, buffers, .. } if buffers.len_bytes() > 0 => {
                let line = socket.id();
                self.lines.join(line, key);
                // Not at once: what was submitted together goes as one chain.
                self.joined.push(line);
            }
            Operation::Timeout { at } => {
                self.timers.insert((*at, key));
                entry.phase = Phase::Running;
            }
            Operation::Close { socket } => {
                let socket = socket.clone();
                entry.phase = Phase::Running;
                self.closing.push(Closing { key, is_quiet: false });
                self.cancel_all_on(state, &socket, key);
            }
            Operation::Register { .. } | Operation::MakePool { .. } => {
                entry.phase = Phase::Running;
                self.pools.register_later(key);
            }
            Operation::ReceiveMany { pool, .. } if !pool.is_of(self.shared.id) => {
                let error = IoError::ForeignPool { operation: entry.operation.name() };
                self.finish(state, key, Err(error));
            }
            _ => self.attempt(state, key, false),
        }
    }

    /// Hands one attempt to the back end.
    pub(super) fn attempt(&mut self, state: &mut State, key: Key, linked: bool) {
        let Some(entry) = state.entry(key) else { return };
        let done = entry.done_bytes;
        entry.operation.pieces(self.shared.id, done, &mut self.pieces);
        if entry.operation.total_bytes() == Some(0) {
            self.finish(state, key, Ok(0));
            return;
        }
        if let Err(error) = entry.operation.check_alignment(&self.pieces) {
            self.finish(state, key, Err(error));
            return;
        }
        let zero_copy = !entry.refused_zero_copy && self.sends_zero_copy(&entry.operation, done);
        entry.tried_zero_copy = zero_copy;
        entry.phase = Phase::Running;
        if let Some(attempt) = entry.operation.attempt(&self.pieces, done, zero_copy, linked) {
            entry.in_kernel += 1;
            self.backend.start(key, attempt);
        }
    }

    fn sends_zero_copy(&self, operation: &Operation, done: usize) -> bool {
        let Operation::Send { socket, buffers, zero_copy } = operation else { return false };
        let chosen = match zero_copy {
            ZeroCopy::On => true,
            ZeroCopy::Off => false,
            ZeroCopy::Auto => buffers.len_bytes() - done >= self.zero_copy_from && !socket.copies(),
        };
        chosen && self.shared.capabilities.has(Capability::ZeroCopySend)
    }

    /// Starts the sends that stand first in a socket's line, unless some are under way.
    pub(super) fn advance(&mut self, state: &mut State, line: usize) {
        let longest = if self.shared.capabilities.has(Capability::LinkedSends) { LONGEST_CHAIN } else { 1 };
        let is_queued = |key: Key| state.entry(key).is_some_and(|entry| entry.phase == Phase::Queued);
        let chain = self.lines.next_chain(line, longest, is_queued);
        for (position, &key) in chain.iter().enumerate() {
            self.attempt(state, key, position + 1 < chain.len());
        }
        self.lines.keep(chain);
    }

    /// Ends an operation early, or asks the back end to.
    fn cancel(&mut self, state: &mut State, key: Key) {
        let Some(entry) = state.entry(key) else { return };
        if entry.phase == Phase::Over || entry.cancel_requested {
            return;
        }
        let cancelled = Err(IoError::Cancelled { operation: entry.operation.name() });
        if entry.in_kernel == 0 || entry.phase != Phase::Running {
            if let Operation::Timeout { at } = &entry.operation {
                self.timers.remove(&(*at, key));
            }
            self.finish(state, key, cancelled);
            return;
        }
        entry.cancel_requested = true;
        // A stream that is being held is on its way out already.
        if entry.flow != Flow::Pausing {
            self.backend.cancel(key);
        }
    }

    fn cancel_all_on(&mut self, state: &mut State, socket: &Socket, except: Key) {
        let on_socket = |(key, entry): (Key, &Entry)| {
            let same = entry.operation.socket().is_some_and(|other| other.is(socket));
            (key != except && same && !entry.is_free()).then_some(key)
        };
        let keys: Vec<Key> = state.table.iter().filter_map(on_socket).collect();
        for key in keys {
            self.cancel(state, key);
        }
    }

    /// Ends the closes of sockets on which nothing is in flight any more, if there was a wait since that was first seen:
    /// a back end may keep a descriptor open until then.
    fn look_at_closing(&mut self, state: &mut State, has_waited: bool) {
        if self.closing.is_empty() {
            return;
        }
        let mut closing = std::mem::take(&mut self.closing);
        closing.retain_mut(|Closing { key, is_quiet }| {
            let Some(Operation::Close { socket }) = state.entry(*key).map(|entry| &entry.operation) else {
                return false;
            };
            let socket = socket.clone();
            let is_busy = state.table.iter().any(|(other, entry)| {
                other != *key
                    && !entry.is_free()
                    && !matches!(entry.operation, Operation::Close { .. })
                    && entry.operation.socket().is_some_and(|on| on.is(&socket))
            });
            if !is_busy && *is_quiet && has_waited {
                self.finish(state, *key, Ok(0));
                return false;
            }
            *is_quiet = !is_busy;
            true
        });
        self.closing = closing;
    }

    /// Gives an operation its outcome, and lets the next of its sequence begin.
    pub(super) fn finish(&mut self, state: &mut State, key: Key, result: Result<usize, IoError>) {
        let mut next = Some((key, result));
        while let Some((key, result)) = next.take() {
            let Some(entry) = state.entry(key) else { return };
            if entry.phase == Phase::Over {
                return;
            }
            entry.phase = Phase::Over;
            entry.outcome = Some(result);
            self.aftermath.sockets.extend(entry.operation.let_go_of_socket());
            self.aftermath.wakers.extend(entry.waker.take());
            let follower = entry.next_in_sequence.take();
            let is_spent = entry.is_spent();
            state.statistics.finished += 1;
            if is_spent {
                self.aftermath.entries.extend(state.table.remove(key));
            }
            let Some(follower) = follower else { return };
            match (result, state.entry(follower)) {
                (Ok(_), Some(_)) => state.commands.push_back(Command::Start(follower)),
                (Err(_), Some(entry)) => {
                    next = Some((follower, Err(IoError::Cancelled { operation: entry.operation.name() })));
                }
                (_, None) => {}
            }
        }
    }

    fn apply(&mut self) {
        let shared = self.shared.clone();
        let mut completions = std::mem::take(&mut self.completions);
        let mut state = shared.lock();
        state.statistics.overflows = self.backend.overflows();
        for completion in completions.drain(..) {
            self.complete(&mut state, completion);
        }
        self.look_at_closing(&mut state, true);
        drop(state);
        self.completions = completions;
    }

    /// Goes on with the receives for which a buffer has come back.
    fn feed_starving(&mut self) {
        let shared = self.shared.clone();
        let waker = Waker::from(shared.clone());
        while let Some(keys) = self.pools.next_fed(&*self.backend, &waker) {
            let mut state = shared.lock();
            for key in keys {
                let Some(entry) = state.table.get(key) else { continue };
                if entry.flow == Flow::Starved && entry.phase != Phase::Over {
                    entry.flow = Flow::Flowing;
                    state.statistics.resumed += 1;
                    self.again(&mut state, key);
                }
            }
        }
    }

    /// Ends the time-outs that are due.
    fn expire(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let (shared, now) = (self.shared.clone(), Instant::now());
        let mut state = shared.lock();
        while let Some(&(at, key)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            self.finish(&mut state, key, Ok(0));
        }
    }

    /// How long to wait: no longer than to the next time-out.
    fn until(&self, timeout: Option<Duration>) -> Option<Duration> {
        let next = self.timers.first().map(|(at, _)| at.saturating_duration_since(Instant::now()));
        match (timeout, next) {
            (Some(timeout), Some(next)) => Some(timeout.min(next)),
            (timeout, next) => timeout.or(next),
        }
    }

    /// Accepts nothing more, cancels everything, and works on until the kernel has let go of all memory or the deadline
    /// is there. What it still has then is never freed or used again; says how many operations that are.
    pub(super) fn shut_down(&mut self, deadline: Instant) -> usize {
        self.obey();
        let shared = self.shared.clone();
        let mut state = shared.lock();
        state.closed = true;
        let keys: Vec<Key> = state.table.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.cancel(&mut state, key);
        }
        drop(state);
        loop {
            let is_held = |(_, entry): (Key, &Entry)| entry.in_kernel > 0;
            if !shared.lock().table.iter().any(is_held) || Instant::now() >= deadline {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.turn(Some(left)).is_err() {
                break;
            }
        }
        let mut state = shared.lock();
        let quarantined = self.end_all(&mut state);
        let left: Vec<Command> = state.commands.drain(..).collect();
        drop(state);
        self.aftermath.settle();
        for command in left {
            match command {
                Command::Unregister { slots, slab } => {
                    self.backend.unregister(&slots);
                    drop(slab);
                }
                Command::RemovePool { group, pool } if quarantined == 0 => {
                    self.pools.remove(&mut *self.backend, group);
                    drop(pool);
                }
                Command::RemovePool { .. } | Command::Start(_) | Command::Cancel(_) => {}
            }
        }
        quarantined
    }

    /// Ends all operations. The memory that the kernel has nobody gets back: says how many operations that are.
    fn end_all(&mut self, state: &mut State) -> usize {
        let mut quarantined = 0;
        let keys: Vec<Key> = state.table.iter().map(|(key, _)| key).collect();
        for key in keys {
            let Some(entry) = state.table.get(key) else { continue };
            let shut_down = IoError::ShutDown { operation: entry.operation.name() };
            if entry.in_kernel > 0 {
                quarantined += 1;
                entry.in_kernel = 0;
                // The memory is the kernel's, for all that we know (I2, I6).
                let operation = std::mem::replace(&mut entry.operation, Operation::Nop);
                let _never_dropped = std::mem::ManuallyDrop::new(operation);
                entry.cancel_requested = true;
            }
            self.finish(state, key, Err(shut_down));
            if state.table.get(key).is_some_and(|entry| entry.is_spent()) {
                self.aftermath.entries.extend(state.table.remove(key));
            }
        }
        state.statistics.quarantined += quarantined as u64;
        quarantined
    }
}

impl Drop for Engine {
    /// Usually finds nothing: it has been shut down. But a waker that panics in the middle of that ends it here, and the
    /// table, which others share, would give the kernel's memory back with the last of them (I6).
    fn drop(&mut self) {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        state.closed = true;
        self.end_all(&mut state);
        drop(state);
        // Each call that panics has taken a waker out, or an entry.
        while std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.aftermath.settle())).is_err() {}
    }
}
