//! Descriptors that attempts wait for.

use std::collections::{HashMap, VecDeque};
use std::ops::Index;
use std::os::fd::{AsRawFd, RawFd};

use super::super::socket::Socket;
use super::slots::Slots;

/// Where attempts wait for their turn, each in the order in which they were started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// For what can be received or accepted.
    Read,
    /// For room to send, or a connection.
    Write,
    /// For a look at whether something can be received. They take nothing, so they wait for nobody's turn.
    Look,
}

/// Which sides of a descriptor something is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sides {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl Sides {
    pub(super) const NONE: Sides = Sides { read: false, write: false };

    pub(super) fn any(self) -> bool {
        self.read || self.write
    }

    /// Whether they include others.
    pub(super) fn cover(self, other: Sides) -> bool {
        (self.read || !other.read) && (self.write || !other.write)
    }
}

/// A descriptor, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Descriptor {
    /// Keeps it open while the poller knows it. `None` if the place is free.
    pub(super) socket: Option<Socket>,
    queues: [VecDeque<usize>; 3],
    /// Whether the poller knows it.
    pub(super) is_known: bool,
    /// What the poller was told to wake us for, once.
    pub(super) armed: Sides,
    /// Sides that may have more to do at once: they are served in the next wait, without asking the poller.
    pub(super) hot: Sides,
    /// Whether it is in the list of those to be settled.
    pub(super) is_unsettled: bool,
}

impl Descriptor {
    pub(super) fn queue(&mut self, queue: Queue) -> &mut VecDeque<usize> {
        &mut self.queues[queue as usize]
    }

    pub(super) fn first(&self, queue: Queue) -> Option<usize> {
        self.queues[queue as usize].front().copied()
    }

    /// Whether nobody waits.
    pub(super) fn is_idle(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// What the poller has to wake us for.
    pub(super) fn wanted(&self) -> Sides {
        let waits = |queue: Queue| !self.queues[queue as usize].is_empty();
        Sides {
            read: !self.hot.read && (waits(Queue::Read) || waits(Queue::Look)),
            write: !self.hot.write && waits(Queue::Write),
        }
    }

    /// Takes any attempt out.
    pub(super) fn pop(&mut self) -> Option<usize> {
        self.queues.iter_mut().find_map(VecDeque::pop_front)
    }
}

/// All of them. The number of a place is what the poller knows a descriptor by.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    places: Slots<Descriptor>,
    by_fd: HashMap<RawFd, usize>,
}

impl Descriptors {
    /// A descriptor that is waited for. Two sockets do not have one number while both are open, and those here are.
    pub(super) fn find(&self, socket: &Socket) -> Option<usize> {
        self.by_fd.get(&socket.as_raw_fd()).copied()
    }

    pub(super) fn find_or_add(&mut self, socket: &Socket) -> usize {
        *self.by_fd.entry(socket.as_raw_fd()).or_insert_with(|| {
            let place = self.places.take();
            self.places[place].socket = Some(socket.clone());
            place
        })
    }

    pub(super) fn get_mut(&mut self, place: usize) -> &mut Descriptor {
        &mut self.places[place]
    }

    /// Forgets one for which nobody waits, and which the poller does not know.
    pub(super) fn remove(&mut self, place: usize) {
        let descriptor = &mut self.places[place];
        debug_assert!(descriptor.is_idle() && !descriptor.is_known, "a descriptor in use");
        (descriptor.armed, descriptor.hot) = (Sides::NONE, Sides::NONE);
        if let Some(socket) = descriptor.socket.take() {
            self.by_fd.remove(&socket.as_raw_fd());
        }
        self.places.give_back(place);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_fd.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Descriptor> {
        self.places.iter()
    }
}

impl Index<usize> for Descriptors {
    type Output = Descriptor;

    fn index(&self, place: usize) -> &Descriptor {
        &self.places[place]
    }
}
