//! The operations that are known: each owns its memory and descriptors until the kernel has let go.

use std::collections::VecDeque;
use std::task::Waker;

use super::error::IoError;
use super::key::Key;
use super::operation::Operation;
use super::pending::Extra;
use super::socket::Socket;
use crate::pool::Lease;

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It waits for the operation before it in a sequence, or for the sequence to be started.
    Waiting,
    /// It is to be started, or to go on, when its turn comes.
    Queued,
    /// A back end, or the engine, is at work on it.
    Running,
    /// It has an outcome; the kernel may still have its memory.
    Over,
}

/// Whether a stream delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Flowing,
    /// It was told to stop for a while, because nobody takes what it delivers.
    Pausing,
    /// It has stopped for that reason.
    Paused,
    /// It waits for a buffer.
    Starved,
}

/// What a stream delivers.
#[derive(Debug)]
pub(super) enum Delivery {
    Data(Lease),
    Accepted(Socket),
    /// The end of the stream, by the peer.
    End,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub(super) struct Entry {
    pub(super) operation: Operation,
    pub(super) phase: Phase,
    /// Attempts whose last completion is still to come. While there are any, the memory is the kernel's.
    pub(super) in_kernel: u32,
    pub(super) done_bytes: usize,
    pub(super) outcome: Option<Result<usize, IoError>>,
    pub(super) extra: Option<Extra>,
    pub(super) deliveries: VecDeque<Delivery>,
    pub(super) flow: Flow,
    pub(super) waker: Option<Waker>,
    /// Nobody will ask for the outcome.
    pub(super) abandoned: bool,
    pub(super) cancel_requested: bool,
    pub(super) next_in_sequence: Option<Key>,
    /// The last attempt was to send without a copy.
    pub(super) tried_zero_copy: bool,
    pub(super) refused_zero_copy: bool,
    /// Notifications still to come of attempts that have sent nothing.
    pub(super) void_notifications: u32,
    pub(super) zero_copied: u32,
    pub(super) copied: u32,
}

impl Entry {
    fn new(operation: Operation, phase: Phase) -> Self {
        Self {
            operation,
            phase,
            in_kernel: 0,
            done_bytes: 0,
            outcome: None,
            extra: None,
            deliveries: VecDeque::new(),
            flow: Flow::Flowing,
            waker: None,
            abandoned: false,
            cancel_requested: false,
            next_in_sequence: None,
            tried_zero_copy: false,
            refused_zero_copy: false,
            void_notifications: 0,
            zero_copied: 0,
            copied: 0,
        }
    }

    /// Whether nothing of it is needed any more.
    pub(super) fn is_spent(&self) -> bool {
        self.abandoned && self.is_free()
    }

    /// Whether it has an outcome, and the kernel has let go.
    pub(super) fn is_free(&self) -> bool {
        self.phase == Phase::Over && self.in_kernel == 0
    }

    /// The most deliveries that are kept for somebody who does not take them.
    pub(super) fn backlog_limit(&self) -> usize {
        match &self.operation {
            // So that one receiver that is not looked after leaves buffers for the others.
            Operation::ReceiveMany { pool, .. } => (pool.capacity() as usize / 4).clamp(1, 32),
            _ => 64,
        }
    }
}

/// Places that are reused, each time with another generation.
#[derive(Debug, Default)]
pub(super) struct Table {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    entry: Option<Entry>,
}

impl Table {
    /// Adds an operation.
    ///
    /// # Panics
    ///
    /// With 2^32 operations at once, for which no machine has memory.
    pub(super) fn insert(&mut self, operation: Operation, phase: Phase) -> Key {
        let entry = Some(Entry::new(operation, phase));
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.generation = place.generation.wrapping_add(1);
            place.entry = entry;
            return Key { index, generation: place.generation };
        }
        #[expect(clippy::expect_used, reason = "stated under Panics")]
        let index = u32::try_from(self.places.len()).expect("fewer than 2^32 operations");
        self.places.push(Place { generation: 0, entry });
        Key { index, generation: 0 }
    }

    pub(super) fn get(&mut self, key: Key) -> Option<&mut Entry> {
        let place =
            self.places.get_mut(key.index as usize).filter(|place| place.generation == key.generation);
        place.and_then(|place| place.entry.as_mut())
    }

    /// Takes an operation out. The caller drops it when it holds no lock: that may call anything.
    pub(super) fn remove(&mut self, key: Key) -> Option<Entry> {
        let place =
            self.places.get_mut(key.index as usize).filter(|place| place.generation == key.generation)?;
        let entry = place.entry.take();
        if entry.is_some() {
            self.free.push(key.index);
        }
        entry
    }

    /// Each operation that is there.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &Entry)> {
        (0..).zip(&self.places).filter_map(|(index, place)| {
            place.entry.as_ref().map(|entry| (Key { index, generation: place.generation }, entry))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_used_again_has_another_key() {
        let mut table = Table::default();
        let first = table.insert(Operation::Nop, Phase::Queued);
        assert!(table.remove(first).is_some());
        let second = table.insert(Operation::Nop, Phase::Queued);
        assert_eq!(first.index, second.index);
        assert!(table.get(first).is_none());
        assert!(table.remove(first).is_none());
        assert!(table.get(second).is_some());
    }

    #[test]
    fn generations_wrap() {
        let mut table = Table::default();
        let key = table.insert(Operation::Nop, Phase::Queued);
        assert!(table.remove(key).is_some());
        table.places[0].generation = u32::MAX;
        let wrapped = table.insert(Operation::Nop, Phase::Queued);
        assert_eq!(wrapped, Key { index: 0, generation: 0 });
        assert!(table.get(wrapped).is_some());
        assert!(table.get(Key { index: 0, generation: u32::MAX }).is_none());
    }
}
