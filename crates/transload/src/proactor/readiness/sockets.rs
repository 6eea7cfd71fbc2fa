//! Attempts on sockets: tried, queued, tried again when the poller says so.

use std::sync::Arc;
use std::time::Duration;

use polling::{Events, Poller};
use rustix::io::Errno;

use super::super::backend::{Completion, Event, Piece};
use super::super::key::Key;
use super::super::socket::Socket;
use super::call::{self, Calls, Outcome};
use super::descriptor::{Descriptors, Queue, Sides};
use super::waiting::{Waiting, Work};

/// So many calls are made for one side of a descriptor in one wait: a peer that never stops holds up nobody else.
const TURN: usize = 16;

/// Sockets, who waits for them, and the poller that wakes us for them.
///
/// What the poller is told is put off until the next wait: an attempt that follows another on the same descriptor then
/// costs one change instead of a deletion and an addition. Until then the descriptor stays open.
#[derive(Debug)]
pub(super) struct Sockets {
    poller: Arc<Poller>,
    events: Events,
    /// The events of one look, copied.
    woken: Vec<polling::Event>,
    descriptors: Descriptors,
    waiting: Waiting,
    pub(super) calls: Calls,
    /// Descriptors whose wishes may differ from what the poller knows, or that have more to do at once.
    unsettled: Vec<usize>,
    /// The same list, while it is worked off.
    settling: Vec<usize>,
}

impl Sockets {
    pub(super) fn new(poller: Arc<Poller>) -> Self {
        Self {
            poller,
            events: Events::new(),
            woken: Vec::new(),
            descriptors: Descriptors::default(),
            waiting: Waiting::default(),
            calls: Calls::default(),
            unsettled: Vec::new(),
            settling: Vec::new(),
        }
    }

    /// Tries what can end at once, unless others wait for their turn; queues the rest.
    pub(super) fn start(
        &mut self,
        key: Key,
        work: Work,
        socket: &Socket,
        pieces: &[Piece],
        ready: &mut Vec<Completion>,
    ) {
        let has_turn = match self.descriptors.find(socket) {
            Some(place) => self.descriptors[place].first(work.queue()).is_none(),
            None => true,
        };
        // What goes on and on is served in `wait`, where its turn is bounded. A connection has just been begun.
        if has_turn
            && !work.is_many()
            && work != Work::Connect
            && let Outcome::Ended(event) = self.calls.attempt(work, socket, pieces)
        {
            ready.push(Completion { key, event, more: false });
            return;
        }
        let place = self.descriptors.find_or_add(socket);
        let waiter = self.waiting.add(key, work, place, pieces);
        let descriptor = self.descriptors.get_mut(place);
        descriptor.queue(work.queue()).push_back(waiter);
        descriptor.hot.read |= work.is_many();
        self.unsettle(place);
    }

    /// Ends an attempt that waits; says whether there was one.
    pub(super) fn cancel(&mut self, key: Key, ready: &mut Vec<Completion>) -> bool {
        let Some(waiter) = self.waiting.find(key) else { return false };
        let (place, work) = (self.waiting.waiter(waiter).descriptor, self.waiting.waiter(waiter).work);
        self.descriptors.get_mut(place).queue(work.queue()).retain(|&other| other != waiter);
        self.end(waiter, Event::Done(Err(Errno::CANCELED)), ready);
        self.unsettle(place);
        true
    }

    /// Tells the poller what is wanted, after serving what may have more to do at once.
    pub(super) fn settle(&mut self, ready: &mut Vec<Completion>) {
        std::mem::swap(&mut self.unsettled, &mut self.settling);
        for at in 0..self.settling.len() {
            let place = self.settling[at];
            let descriptor = self.descriptors.get_mut(place);
            descriptor.is_unsettled = false;
            let hot = std::mem::replace(&mut descriptor.hot, Sides::NONE);
            self.serve(place, hot, ready);
            if let Err(errno) = self.arm(place) {
                while let Some(waiter) = self.descriptors.get_mut(place).pop() {
                    self.end(waiter, Event::Done(Err(errno)), ready);
                }
            }
            if self.descriptors[place].is_idle() {
                self.forget(place);
            } else if self.descriptors[place].hot.any() {
                self.unsettle(place);
            }
        }
        self.settling.clear();
    }

    /// Whether something is to be done before anybody sleeps.
    pub(super) fn is_unsettled(&self) -> bool {
        !self.unsettled.is_empty()
    }

    /// Whether a look at the poller could find anything but the alarm.
    pub(super) fn is_idle(&self) -> bool {
        self.descriptors.is_empty()
    }

    /// Waits for descriptors, and serves those that are ready.
    pub(super) fn look(
        &mut self,
        timeout: Option<Duration>,
        ready: &mut Vec<Completion>,
    ) -> Result<(), Errno> {
        self.events.clear();
        self.poller.wait(&mut self.events, timeout).map_err(|error| errno_of(&error))?;
        self.woken.clear();
        self.woken.extend(self.events.iter());
        for at in 0..self.woken.len() {
            let event = self.woken[at];
            let place = event.key;
            // Where both sides share an event, both are disarmed by it; elsewhere one is armed again for nothing.
            self.descriptors.get_mut(place).armed = Sides::NONE;
            let before = ready.len();
            self.serve(place, Sides { read: event.readable, write: event.writable }, ready);
            if event.is_priority() && ready.len() == before {
                self.descriptors[place].socket.as_ref().map(call::drop_urgent);
            }
            self.unsettle(place);
        }
        Ok(())
    }

    /// Tries attempts on a descriptor, each side's in their order, for one turn.
    fn serve(&mut self, place: usize, sides: Sides, ready: &mut Vec<Completion>) {
        if sides.read {
            self.serve_queue(place, Queue::Look, ready);
            let has_more = self.serve_queue(place, Queue::Read, ready);
            self.descriptors.get_mut(place).hot.read |= has_more;
        }
        if sides.write {
            let has_more = self.serve_queue(place, Queue::Write, ready);
            self.descriptors.get_mut(place).hot.write |= has_more;
        }
    }

    /// Says whether its turn was over before it had to wait.
    fn serve_queue(&mut self, place: usize, queue: Queue, ready: &mut Vec<Completion>) -> bool {
        for _ in 0..TURN {
            let descriptor = &self.descriptors[place];
            let (Some(socket), Some(first)) = (&descriptor.socket, descriptor.first(queue)) else {
                return false;
            };
            let waiter = self.waiting.waiter(first);
            match self.calls.attempt(waiter.work, socket, &waiter.pieces) {
                Outcome::Blocked => return false,
                Outcome::Happened { event, is_drained } => {
                    ready.push(Completion { key: waiter.key, event, more: true });
                    if is_drained {
                        return false;
                    }
                }
                Outcome::Ended(event) => {
                    self.descriptors.get_mut(place).queue(queue).pop_front();
                    self.end(first, event, ready);
                }
            }
        }
        true
    }

    fn end(&mut self, waiter: usize, event: Event, ready: &mut Vec<Completion>) {
        let key = self.waiting.remove(waiter);
        ready.push(Completion { key, event, more: false });
    }

    fn unsettle(&mut self, place: usize) {
        let descriptor = self.descriptors.get_mut(place);
        if !std::mem::replace(&mut descriptor.is_unsettled, true) {
            self.unsettled.push(place);
        }
    }

    /// Sees to it that the poller wakes us for what is wanted.
    fn arm(&mut self, place: usize) -> Result<(), Errno> {
        let descriptor = self.descriptors.get_mut(place);
        let wanted = descriptor.wanted();
        let Some(socket) = &descriptor.socket else { return Ok(()) };
        if descriptor.armed.cover(wanted) {
            return Ok(());
        }
        let interest = polling::Event::new(place, wanted.read, wanted.write);
        let told = if descriptor.is_known {
            self.poller.modify(socket, interest)
        } else {
            // SAFETY: the poller demands that a descriptor is deleted before it is closed. This one is kept open by
            // the handle beside `is_known`, which is let go in `forget` and `drop` only, after the deletion.
            unsafe { self.poller.add(socket, interest) }
        };
        told.map_err(|error| errno_of(&error))?;
        (descriptor.is_known, descriptor.armed) = (true, wanted);
        Ok(())
    }

    /// Lets go of a descriptor for which nobody waits.
    fn forget(&mut self, place: usize) {
        let descriptor = self.descriptors.get_mut(place);
        if let Some(socket) = descriptor.socket.as_ref().filter(|_| descriptor.is_known) {
            delete(&self.poller, socket);
        }
        descriptor.is_known = false;
        self.descriptors.remove(place);
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        // Alarms may outlive this, and the poller with them.
        for descriptor in self.descriptors.iter().filter(|descriptor| descriptor.is_known) {
            descriptor.socket.iter().for_each(|socket| delete(&self.poller, socket));
        }
    }
}

/// The poller knows the descriptor, so this cannot fail; if it did, closing would delete it on Linux all the same.
fn delete(poller: &Poller, socket: &Socket) {
    let deleted = poller.delete(socket);
    debug_assert!(deleted.is_ok(), "{deleted:?}");
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
