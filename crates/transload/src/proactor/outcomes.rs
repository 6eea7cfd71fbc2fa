//! What follows from a completion.

use rustix::io::Errno;

use super::backend::{Completion, Event};
use super::engine::Engine;
use super::error::IoError;
use super::key::Key;
use super::operation::Operation;
use super::shared::State;
use super::socket::Socket;
use super::table::{Delivery, Flow, Phase};

impl Engine {
    /// Takes one completion.
    pub(super) fn complete(&mut self, state: &mut State, Completion { key, event, more }: Completion) {
        let Some(entry) = state.table.get(key) else {
            self.aftermath.events.push(event);
            return;
        };
        if !more {
            entry.in_kernel = entry.in_kernel.saturating_sub(1);
        }
        if more && matches!(event, Event::Done(Err(_))) {
            entry.void_notifications += 1;
        }
        match event {
            Event::Done(result) if entry.operation.is_stream() => self.stream_ended(state, key, result),
            Event::Done(result) => self.attempt_ended(state, key, result),
            Event::Notified { copied } => self.notified(state, key, copied),
            Event::Data(lease) => {
                state.statistics.received_bytes += lease.len() as u64;
                self.deliver(state, key, Delivery::Data(lease), more);
            }
            Event::Accepted(fd) => self.deliver(state, key, Delivery::Accepted(Socket::from(fd)), more),
            Event::Starved => {
                state.statistics.starved += 1;
                self.starved(state, key);
            }
        }
        // What was abandoned goes when the kernel has let go.
        if state.table.get(key).is_some_and(|entry| entry.is_spent()) {
            self.aftermath.entries.extend(state.table.remove(key));
        }
    }

    fn attempt_ended(&mut self, state: &mut State, key: Key, result: Result<usize, Errno>) {
        let Some(entry) = state.table.get(key) else { return };
        let line = match &entry.operation {
            Operation::Send { socket, .. } => Some(socket.id()),
            _ => None,
        };
        let name = entry.operation.name();
        match result {
            Ok(moved) => {
                entry.done_bytes += moved;
                let done = entry.done_bytes;
                match &entry.operation {
                    Operation::Send { .. } => state.statistics.sent_bytes += moved as u64,
                    Operation::Receive { .. } => state.statistics.received_bytes += moved as u64,
                    _ => {}
                }
                let stuck = moved == 0
                    && matches!(entry.operation, Operation::Send { .. } | Operation::WriteAt { .. });
                if entry.operation.is_complete(done, moved) {
                    self.finish(state, key, Ok(done));
                } else if stuck {
                    self.finish(state, key, Err(IoError::os(name, Errno::IO)));
                } else if entry.cancel_requested {
                    self.finish(state, key, Err(IoError::Cancelled { operation: name }));
                } else {
                    state.statistics.short_sends += u64::from(line.is_some());
                    self.again(state, key);
                }
            }
            Err(Errno::CANCELED) if entry.cancel_requested => {
                self.finish(state, key, Err(IoError::Cancelled { operation: name }));
            }
            // The chain broke before it; or the kernel was interrupted.
            Err(Errno::CANCELED) if line.is_some() => self.again(state, key),
            Err(Errno::INTR) if !entry.cancel_requested => self.again(state, key),
            Err(Errno::NOMEM | Errno::OPNOTSUPP | Errno::INVAL) if entry.tried_zero_copy => {
                entry.refused_zero_copy = true;
                if let Operation::Send { socket, .. } = &entry.operation {
                    socket.give_up_zero_copy();
                }
                state.statistics.zero_copy_refused += 1;
                self.again(state, key);
            }
            Err(errno) => self.finish(state, key, Err(IoError::os(name, errno))),
        }
        if let Some(line) = line {
            self.lines.step(line);
            self.advance(state, line);
        }
    }

    /// Goes on with an operation: a send when its line comes to it, which is at once, as it stands first.
    pub(super) fn again(&mut self, state: &mut State, key: Key) {
        let Some(entry) = state.table.get(key) else { return };
        entry.phase = Phase::Queued;
        if !matches!(entry.operation, Operation::Send { .. }) {
            self.attempt(state, key, false);
        }
    }

    fn notified(&mut self, state: &mut State, key: Key, copied: bool) {
        let Some(entry) = state.table.get(key) else { return };
        if entry.void_notifications > 0 {
            entry.void_notifications -= 1;
        } else {
            let (of_entry, of_all) = if copied {
                (&mut entry.copied, &mut state.statistics.copied)
            } else {
                (&mut entry.zero_copied, &mut state.statistics.zero_copied)
            };
            *of_entry += 1;
            *of_all += 1;
            match &entry.operation {
                Operation::Send { socket, .. } => socket.note_copied(copied),
                Operation::Sent { socket, .. } => {
                    if let Some(socket) = socket.upgrade() {
                        socket.note_copied(copied);
                    }
                }
                _ => {}
            }
        }
        if entry.is_free() {
            self.aftermath.wakers.extend(entry.waker.take());
        }
    }

    fn deliver(&mut self, state: &mut State, key: Key, delivery: Delivery, more: bool) {
        let Some(entry) = state.table.get(key) else { return };
        if entry.abandoned {
            self.aftermath.events.push(match delivery {
                Delivery::Data(lease) => Event::Data(lease),
                Delivery::Accepted(_) | Delivery::End => Event::Done(Ok(0)),
            });
        } else {
            entry.deliveries.push_back(delivery);
            self.aftermath.wakers.extend(entry.waker.take());
        }
        let is_crowded = entry.deliveries.len() >= entry.backlog_limit();
        if is_crowded && entry.flow == Flow::Flowing {
            self.crowded.push(key);
        }
        if more {
            return;
        }
        if entry.cancel_requested {
            let cancelled = IoError::Cancelled { operation: entry.operation.name() };
            self.finish(state, key, Err(cancelled));
        } else if entry.flow == Flow::Pausing {
            self.pause(state, key);
        } else {
            self.again(state, key);
        }
    }

    /// Holds the streams that nobody has emptied since the turn before: what comes within one turn is no sign of that.
    pub(super) fn hold_crowded(&mut self) {
        let shared = self.shared.clone();
        while let Some(key) = self.crowded.pop() {
            let mut state = shared.lock();
            let Some(entry) = state.table.get(key) else { continue };
            let is_crowded = entry.deliveries.len() >= entry.backlog_limit();
            let is_flowing =
                entry.flow == Flow::Flowing && entry.phase == Phase::Running && entry.in_kernel > 0;
            if is_crowded && is_flowing && !entry.cancel_requested {
                entry.flow = Flow::Pausing;
                state.statistics.paused += 1;
                self.backend.cancel(key);
            }
        }
    }

    /// A stream that was told to stop has stopped; somebody may have emptied it meanwhile.
    fn pause(&mut self, state: &mut State, key: Key) {
        let Some(entry) = state.table.get(key) else { return };
        if entry.deliveries.len() > entry.backlog_limit() / 2 {
            entry.flow = Flow::Paused;
        } else {
            entry.flow = Flow::Flowing;
            self.again(state, key);
        }
    }

    fn stream_ended(&mut self, state: &mut State, key: Key, result: Result<usize, Errno>) {
        let Some(entry) = state.table.get(key) else { return };
        let name = entry.operation.name();
        match result {
            Ok(_) if matches!(entry.operation, Operation::ReceiveMany { .. }) => {
                entry.deliveries.push_back(Delivery::End);
                self.finish(state, key, Ok(0));
            }
            _ if entry.cancel_requested => {
                self.finish(state, key, Err(IoError::Cancelled { operation: name }));
            }
            // Also when it was over by itself: going on, it would be neither held nor cancelled any more.
            Ok(_) | Err(Errno::CANCELED | Errno::INTR | Errno::CONNABORTED)
                if entry.flow == Flow::Pausing =>
            {
                self.pause(state, key);
            }
            Ok(_) | Err(Errno::INTR | Errno::CONNABORTED) => self.again(state, key),
            Err(errno) => self.finish(state, key, Err(IoError::os(name, errno))),
        }
    }

    fn starved(&mut self, state: &mut State, key: Key) {
        let Some(entry) = state.table.get(key) else { return };
        let Operation::ReceiveMany { pool, .. } = &entry.operation else { return };
        if entry.cancel_requested {
            let cancelled = IoError::Cancelled { operation: entry.operation.name() };
            self.finish(state, key, Err(cancelled));
            return;
        }
        entry.flow = Flow::Starved;
        // Never the last handle: the entry has one.
        let pool = pool.clone();
        self.pools.starve(&pool, key, |key| {
            state
                .table
                .get(key)
                .is_some_and(|entry| entry.flow == Flow::Starved && entry.phase != Phase::Over)
        });
    }
}
