//! Attempts that wait for a descriptor.

use std::collections::HashMap;

use super::super::backend::{Group, Piece};
use super::super::key::Key;
use super::descriptor::Queue;
use super::slots::Slots;

/// What is tried when the descriptor is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Send,
    Receive,
    ReceiveMany {
        group: Group,
        /// A receive that leaves room has taken all there was.
        is_stream: bool,
    },
    Accept,
    /// Learns how a connection that was begun has ended.
    Connect,
    Readable,
}

impl Work {
    /// Where it waits.
    pub(super) fn queue(self) -> Queue {
        match self {
            Self::Receive | Self::ReceiveMany { .. } | Self::Accept => Queue::Read,
            Self::Send | Self::Connect => Queue::Write,
            Self::Readable => Queue::Look,
        }
    }

    /// Whether it goes on after something has happened.
    pub(super) fn is_many(self) -> bool {
        matches!(self, Self::ReceiveMany { .. } | Self::Accept)
    }
}

/// One of them.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) key: Key,
    pub(super) work: Work,
    /// The number of its descriptor's place.
    pub(super) descriptor: usize,
    pub(super) pieces: Vec<Piece>,
}

impl Default for Waiter {
    /// Nobody's.
    fn default() -> Self {
        let key = Key { index: 0, generation: 0 };
        Self { key, work: Work::Readable, descriptor: 0, pieces: Vec::new() }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    waiters: Slots<Waiter>,
    by_key: HashMap<Key, usize>,
}

impl Waiting {
    pub(super) fn add(&mut self, key: Key, work: Work, descriptor: usize, pieces: &[Piece]) -> usize {
        let place = self.waiters.take();
        let waiter = &mut self.waiters[place];
        (waiter.key, waiter.work, waiter.descriptor) = (key, work, descriptor);
        waiter.pieces.extend_from_slice(pieces);
        let before = self.by_key.insert(key, place);
        debug_assert!(before.is_none(), "two attempts of one key");
        place
    }

    pub(super) fn find(&self, key: Key) -> Option<usize> {
        self.by_key.get(&key).copied()
    }

    pub(super) fn waiter(&self, place: usize) -> &Waiter {
        &self.waiters[place]
    }

    /// Forgets one, and says which attempt it was.
    pub(super) fn remove(&mut self, place: usize) -> Key {
        let waiter = &mut self.waiters[place];
        waiter.pieces.clear();
        let key = waiter.key;
        self.by_key.remove(&key);
        self.waiters.give_back(place);
        key
    }
}
