//! What a pump takes messages from.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device::Payload;
use crate::memory::Slab;
use crate::staging::{Consumer, DequeueError, StagingRing, Stall};

/// What a pump takes messages from. Made from the end that messages come out of.
#[derive(Debug)]
#[non_exhaustive]
pub enum Feed {
    /// A staging ring. Its slots go back to the producers when their messages have landed.
    Ring(Consumer),
}

/// The side of a feed that other threads have: they ask how far it is, and close it.
#[derive(Clone, Debug)]
pub(super) enum FeedGauge {
    Ring(Arc<StagingRing>),
}

/// What a feed has counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeedCounts {
    /// Messages that were taken, or are there to be taken.
    pub(super) accepted: u64,
    /// Slots whose reservations were dropped.
    pub(super) skipped: u64,
    /// Slots that are never used again.
    pub(super) quarantined: usize,
    /// The reservation that keeps the pump waiting.
    pub(super) stalled: Option<Stall>,
}

impl From<Consumer> for Feed {
    fn from(consumer: Consumer) -> Self {
        Self::Ring(consumer)
    }
}

impl Feed {
    pub(super) fn gauge(&self) -> FeedGauge {
        match self {
            Self::Ring(consumer) => FeedGauge::Ring(consumer.shared()),
        }
    }

    /// The memory of the slots, to be registered.
    pub(super) fn slab(&self) -> &Slab {
        match self {
            Self::Ring(consumer) => consumer.slab(),
        }
    }

    /// Bytes in a message.
    pub(super) fn message_size(&self) -> usize {
        match self {
            Self::Ring(consumer) => consumer.message_size(),
        }
    }

    /// How many messages there can be at once.
    pub(super) fn capacity(&self) -> usize {
        match self {
            Self::Ring(consumer) => consumer.capacity(),
        }
    }

    /// Whether so many messages seem to be there. Cheap for the producers.
    pub(super) fn reaches(&self, messages: usize) -> bool {
        match self {
            Self::Ring(consumer) => consumer.reaches(messages),
        }
    }

    /// Whether a message can be taken now.
    pub(super) fn is_ready(&mut self) -> Result<bool, DequeueError> {
        match self {
            Self::Ring(consumer) => consumer.is_ready(),
        }
    }

    /// Takes at most so many messages, at least one, for one transfer.
    pub(super) fn take(&mut self, max: usize) -> Result<Payload, DequeueError> {
        match self {
            Self::Ring(consumer) => consumer.take_contiguous(max).map(Payload::from),
        }
    }

    /// Whether a batch that is not full must not wait for more messages, as they would not come, or not be part of it.
    pub(super) fn must_go(&self) -> bool {
        match self {
            Self::Ring(consumer) => {
                consumer.is_closed()
                    || consumer.reaches(consumer.until_wrap())
                    // Last, as it takes the line of the ring's tail from the producers.
                    || consumer.is_full()
            }
        }
    }

    /// Whether the slots of messages that have landed are kept until these are delivered.
    pub(super) fn keeps_until_delivered(&self) -> bool {
        match self {
            Self::Ring(_) => false,
        }
    }

    /// Drops at most so many messages for a source that needs room, if there is none, and if what stood before a
    /// position has come back already. Says how many, and the position behind them.
    ///
    /// Slots come back in the order of the ring, so the room that this makes may have to wait for batches in flight.
    /// Until it is there, dropping more would help nobody.
    pub(super) fn shed(&mut self, max: usize, shed_before: u64) -> Option<(u64, u64)> {
        match self {
            Self::Ring(consumer) => {
                if !consumer.is_full() || consumer.freed_before() < shed_before {
                    return None;
                }
                let batch = consumer.take(max).ok()?;
                let messages = batch.messages() as u64;
                Some((messages, batch.first_position() + messages))
            }
        }
    }

    /// Before a sleep: notes whether a reservation is waited for rather than a message.
    pub(super) fn note_stall(&self) {
        match self {
            Self::Ring(consumer) => consumer.note_stall(),
        }
    }

    /// Sleeps until a message can be taken, for at most so long. Errors show again at the next look.
    pub(super) fn wait_timeout(&mut self, timeout: Duration) {
        match self {
            Self::Ring(consumer) => {
                let _ = consumer.wait_timeout(timeout);
            }
        }
    }

    /// Drops what is left of a closed feed, reservations that are just being committed included, and says how many
    /// messages that were. What is claimed and not committed in time, or cannot be taken since too many batches are
    /// open, counts as accepted and dropped too.
    pub(super) fn drop_rest(&mut self, until: Instant) -> u64 {
        match self {
            Self::Ring(consumer) => {
                let mut dropped = 0;
                loop {
                    dropped += consumer.clear();
                    match consumer.is_ready() {
                        Err(_) => break,
                        _ if Instant::now() >= until => break,
                        _ => std::thread::yield_now(),
                    }
                }
                dropped + consumer.len() as u64
            }
        }
    }
}

impl FeedGauge {
    /// Nothing more is accepted; what was, can be taken.
    pub(super) fn close(&self) {
        match self {
            Self::Ring(ring) => ring.close(),
        }
    }

    /// Bytes in a message.
    pub(super) fn message_size(&self) -> usize {
        match self {
            Self::Ring(ring) => ring.message_size(),
        }
    }

    pub(super) fn counts(&self) -> FeedCounts {
        match self {
            Self::Ring(ring) => {
                let statistics = ring.statistics();
                FeedCounts {
                    accepted: statistics.delivered + statistics.cleared + ring.len() as u64,
                    skipped: statistics.skipped,
                    quarantined: statistics.quarantined,
                    stalled: statistics.stalled,
                }
            }
        }
    }
}
