//! What must be so: the pool and the ring as plain collections.

use std::collections::VecDeque;
use transload_core::Recovered;

/// What a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffer {
    Free,
    /// Claimed or kept.
    Held {
        by: u16,
        lent: bool,
    },
    /// In the ring.
    Message,
    Quarantined,
}

/// What a message in the ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Sent { redelivered: bool },
    Taken { by: u16, lent: bool },
    Done,
}

/// A message, from when it is published until all before it are done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) buffer: usize,
    pub(crate) value: u32,
    pub(crate) stage: Stage,
}

/// What a take finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Find {
    /// The first position, and of each message buffer, value, and whether it comes again.
    Run(u64, Vec<(u32, u32, bool)>),
    Empty,
    Blocked(u16),
}

pub(crate) struct Shadow {
    pub(crate) buffers: Vec<Buffer>,
    /// Buffers that a dead member had lent.
    tainted: Vec<bool>,
    pub(crate) ring: VecDeque<Message>,
    /// The position of the first in the ring.
    pub(crate) first: u64,
    room: usize,
    pub(crate) redelivered: u64,
    pub(crate) recovered: Recovered,
    pub(crate) retired: u64,
}

impl Shadow {
    pub(crate) fn new(buffers: usize, room: usize, first: u64) -> Self {
        Self {
            buffers: vec![Buffer::Free; buffers],
            tainted: vec![false; buffers],
            ring: VecDeque::new(),
            first,
            room,
            redelivered: 0,
            recovered: Recovered::default(),
            retired: 0,
        }
    }

    pub(crate) fn can_claim(&self) -> bool {
        self.buffers.contains(&Buffer::Free)
    }

    pub(crate) fn can_send(&self) -> bool {
        self.ring.len() < self.room
    }

    pub(crate) fn send(&mut self, buffer: usize, value: u32) {
        self.buffers[buffer] = Buffer::Message;
        self.ring.push_back(Message { buffer, value, stage: Stage::Sent { redelivered: false } });
    }

    /// Takes for a consumer at this place, and moves it on.
    pub(crate) fn take(&mut self, by: u16, next: &mut u64, max: usize) -> Find {
        let mut run = Vec::new();
        while run.len() < max {
            let Some(ahead) = next.checked_sub(self.first) else {
                *next = self.first;
                continue;
            };
            let Some(message) = self.ring.get_mut(usize::try_from(ahead).unwrap()) else { break };
            match message.stage {
                Stage::Done if run.is_empty() => {}
                Stage::Taken { by, .. } if run.is_empty() => return Find::Blocked(by),
                Stage::Done | Stage::Taken { .. } => break,
                Stage::Sent { redelivered } => {
                    message.stage = Stage::Taken { by, lent: false };
                    self.redelivered += u64::from(redelivered);
                    run.push((u32::try_from(message.buffer).unwrap(), message.value, redelivered));
                }
            }
            *next += 1;
        }
        if run.is_empty() { Find::Empty } else { Find::Run(*next - run.len() as u64, run) }
    }

    /// A message that was taken, by its position.
    pub(crate) fn message(&mut self, position: u64) -> &mut Message {
        &mut self.ring[usize::try_from(position - self.first).unwrap()]
    }

    /// Leaves a message for the next consumer.
    pub(crate) fn put_back(&mut self, position: u64) {
        let message = self.message(position);
        let Stage::Taken { lent, .. } = message.stage else { panic!("not taken") };
        message.stage = Stage::Sent { redelivered: true };
        let buffer = message.buffer;
        self.tainted[buffer] |= lent;
    }

    /// Is done with a position, and says which buffer it was.
    pub(crate) fn done(&mut self, position: u64) -> usize {
        let message = self.message(position);
        message.stage = Stage::Done;
        let buffer = message.buffer;
        while self.ring.front().is_some_and(|message| message.stage == Stage::Done) {
            self.ring.pop_front();
            self.first += 1;
        }
        buffer
    }

    pub(crate) fn free(&mut self, buffer: usize) {
        if self.tainted[buffer] {
            self.retire(buffer);
        } else {
            self.buffers[buffer] = Buffer::Free;
        }
    }

    pub(crate) fn retire(&mut self, buffer: usize) {
        self.buffers[buffer] = Buffer::Quarantined;
        self.retired += 1;
    }

    pub(crate) fn recover(&mut self, dead: u16) -> Recovered {
        let mut found = Recovered::default();
        for (buffer, state) in self.buffers.iter_mut().enumerate() {
            match *state {
                Buffer::Held { by, lent } if by == dead => {
                    let keeps = lent || self.tainted[buffer];
                    *state = if keeps { Buffer::Quarantined } else { Buffer::Free };
                    found.quarantined += u64::from(keeps);
                    found.freed += u64::from(!keeps);
                }
                _ => {}
            }
        }
        for message in &mut self.ring {
            if let Stage::Taken { by, lent } = message.stage
                && by == dead
            {
                message.stage = Stage::Sent { redelivered: true };
                self.tainted[message.buffer] |= lent;
                found.put_back += 1;
            }
        }
        self.recovered = self.recovered.and(found);
        self.retired += found.quarantined;
        found
    }
}
