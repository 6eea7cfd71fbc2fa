//! The sends of one socket, in order.

use std::collections::{HashMap, VecDeque};

use super::key::Key;

/// A line for each socket on which something is to be sent: only what stands first is under way, as one chain, since
/// two sends at once may mix their bytes (seen on Linux 6.18 with TCP).
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// By the number of the socket.
    by_socket: HashMap<usize, Line>,
    /// Emptied lines, kept for their memory.
    spare: Vec<VecDeque<Key>>,
    chain: Vec<Key>,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Key>,
    /// How many of the first are under way.
    running: usize,
}

impl Lines {
    /// Joins a line at its end.
    pub(super) fn join(&mut self, line: usize, key: Key) {
        let spare = &mut self.spare;
        let line = self
            .by_socket
            .entry(line)
            .or_insert_with(|| Line { waiting: spare.pop().unwrap_or_default(), running: 0 });
        line.waiting.push_back(key);
    }

    /// One of those under way has come to an end.
    pub(super) fn step(&mut self, line: usize) {
        if let Some(line) = self.by_socket.get_mut(&line) {
            line.running = line.running.saturating_sub(1);
        }
    }

    /// What is to be started next, in order: nothing while something is under way. Those that are not to be sent any
    /// more leave the line.
    pub(super) fn next_chain(
        &mut self,
        id: usize,
        longest: usize,
        mut is_queued: impl FnMut(Key) -> bool,
    ) -> Vec<Key> {
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        if let Some(line) = self.by_socket.get_mut(&id)
            && line.running == 0
        {
            line.waiting.retain(|&key| is_queued(key));
            chain.extend(line.waiting.iter().take(longest));
            line.running = chain.len();
            if line.waiting.is_empty()
                && let Some(line) = self.by_socket.remove(&id)
            {
                self.spare.push(line.waiting);
            }
        }
        chain
    }
    /// Takes the list back, for its memory.
    pub(super) fn keep(&mut self, chain: Vec<Key>) {
        self.chain = chain;
    }
}
