//! What a pump takes messages from.

use std::sync::Arc;
use std::time::{Duration, Instant};

use transload_core::Flag;

use super::PumpError;
#[cfg(target_os = "linux")]
use super::shared_feed::{SharedFeed, SharedGauge};
use crate::device::Payload;
use crate::memory::Slab;
#[cfg(target_os = "linux")]
use crate::shared::SharedConsumer;
use crate::staging::{Consumer, DequeueError, StagingRing, Stall};

/// What a pump takes messages from. Made from the end that messages come out of.
#[derive(Debug)]
#[non_exhaustive]
pub enum Feed {
    /// A staging ring. Its slots go back to the producers when their messages have landed.
    Ring(Consumer),
    /// A ring that processes share. Its slots go back when their messages are delivered.
    #[cfg(target_os = "linux")]
    Shared(SharedFeed),
    /// Nothing: a pump that only brings messages back. It ends when it is told to stop.
    Nothing(NoFeed),
}

/// What a pump takes that takes no messages: it only notes when that is over.
#[derive(Clone, Debug)]
pub struct NoFeed {
    closed: Arc<Flag>,
}

impl NoFeed {
    pub(super) fn new() -> Self {
        Self { closed: Arc::new(Flag::new()) }
    }
}

/// Why nothing is there to be taken.
#[derive(Debug)]
pub(super) enum Dry {
    /// Nothing is there now.
    Empty,
    /// Nothing will come any more.
    Closed,
    /// What is there cannot be taken before something else has ended.
    Blocked,
    /// Nothing can be taken any more.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "said of shared rings only"))]
    Failed(PumpError),
}

/// The side of a feed that other threads have: they ask how far it is, and close it.
#[derive(Clone, Debug)]
pub(super) enum FeedGauge {
    Ring(Arc<StagingRing>),
    #[cfg(target_os = "linux")]
    Shared(Arc<SharedGauge>),
    Nothing(NoFeed),
}

/// What a feed has counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeedCounts {
    /// Messages that were taken, or are there to be taken.
    pub(super) accepted: u64,
    /// Those of them that an earlier consumer had taken.
    pub(super) redelivered: u64,
    /// Slots whose reservations were dropped.
    pub(super) skipped: u64,
    /// The reservation that keeps the pump waiting.
    pub(super) stalled: Option<Stall>,
}

impl From<Consumer> for Feed {
    fn from(consumer: Consumer) -> Self {
        Self::Ring(consumer)
    }
}

#[cfg(target_os = "linux")]
impl From<SharedFeed> for Feed {
    fn from(feed: SharedFeed) -> Self {
        Self::Shared(feed)
    }
}

#[cfg(target_os = "linux")]
impl From<SharedConsumer> for Feed {
    fn from(consumer: SharedConsumer) -> Self {
        Self::Shared(consumer.into())
    }
}

impl From<DequeueError> for Dry {
    fn from(error: DequeueError) -> Self {
        match error {
            DequeueError::Closed => Self::Closed,
            DequeueError::TooManyBatches => Self::Blocked,
            // The oldest position is still being written, or none is.
            DequeueError::Empty | DequeueError::ZeroMax | DequeueError::DestinationTooSmall { .. } => {
                Self::Empty
            }
        }
    }
}

impl Feed {
    pub(super) fn gauge(&self) -> FeedGauge {
        match self {
            Self::Ring(consumer) => FeedGauge::Ring(consumer.shared()),
            #[cfg(target_os = "linux")]
            Self::Shared(feed) => FeedGauge::Shared(feed.gauge()),
            Self::Nothing(none) => FeedGauge::Nothing(none.clone()),
        }
    }

    /// The memory of the slots, to be registered.
    pub(super) fn slab(&self) -> Option<&Slab> {
        match self {
            Self::Ring(consumer) => Some(consumer.slab()),
            #[cfg(target_os = "linux")]
            Self::Shared(feed) => Some(feed.consumer().region().slab()),
            Self::Nothing(_) => None,
        }
    }

    /// Bytes in a message.
    pub(super) fn message_size(&self) -> usize {
        match self {
            Self::Ring(consumer) => consumer.message_size(),
            #[cfg(target_os = "linux")]
            Self::Shared(feed) => feed.consumer().buffer_size(),
            Self::Nothing(_) => 1,
        }
    }

    /// How many messages there can be at once.
    pub(super) fn capacity(&self) -> usize {
        match self {
            Self::Ring(consumer) => consumer.capacity(),
            #[cfg(target_os = "linux")]
            Self::Shared(feed) => feed.capacity(),
            Self::Nothing(_) => 1,
        }
    }

    /// Whether so many messages seem to be there. Cheap for the producers.
    pub(super) fn reaches(&self, messages: usize) -> bool {
        match self {
            Self::Ring(consumer) => consumer.reaches(messages),
            #[cfg(target_os = "linux")]
            Self::Shared(feed) => feed.reaches(messages),
            Self::Nothing(_) => false,
        }
    }

    /// Whether a message can be taken now.
    pub(super) fn is_ready(&mut self) -> Result<bool, Dry> {
        match self {
            Self::Ring(consumer) => Ok(consumer.is_ready()?),
            #[cfg(target_os = "linux")]
            Self::Shared(feed) => feed.is_ready(),
            Self::Nothing(none) if none.closed.is_raised() => Err(Dry::Closed),
            Self::Nothing(_) => Ok(false),
        }
    }

    /// Takes at most so many messages, at least one, for one transfer.
    pub(super) fn take(&mut self, max: usize) -> Result<Payload, Dry> {
        match self {
            Self::Ring(consumer) => Ok(consumer.take_contiguous(max)?.into()),
            #[cfg(target_os = "linux")]
            Self::Shared(feed) => feed.take(max).map(Payload::from),
            Self::Nothing(_) => Err(Dry::Empty),
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
            #[cfg(target_os = "linux")]
            Self::Shared(feed) => feed.must_go(),
            Self::Nothing(_) => false,
        }
    }

    /// Whether the slots of messages that have landed are kept until these are delivered, and put back if they are not.
    pub(super) fn keeps_until_delivered(&self) -> bool {
        match self {
            Self::Ring(_) | Self::Nothing(_) => false,
            #[cfg(target_os = "linux")]
            Self::Shared(_) => true,
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
            // Its senders are no sources of ours, and have asked for nothing.
            #[cfg(target_os = "linux")]
            Self::Shared(_) => None,
            Self::Nothing(_) => None,
        }
    }

    /// Before a sleep: notes whether a reservation is waited for rather than a message.
    pub(super) fn note_stall(&self) {
        match self {
            Self::Ring(consumer) => consumer.note_stall(),
            #[cfg(target_os = "linux")]
            Self::Shared(_) => {}
            Self::Nothing(_) => {}
        }
    }

    /// Sleeps until a message can be taken, for at most so long. Errors show again at the next look.
    pub(super) fn wait_timeout(&mut self, timeout: Duration) {
        match self {
            Self::Ring(consumer) => {
                let _ = consumer.wait_timeout(timeout);
            }
            #[cfg(target_os = "linux")]
            Self::Shared(feed) => feed.wait_timeout(timeout),
            Self::Nothing(_) => std::thread::sleep(timeout.min(Duration::from_millis(5))),
        }
    }

    /// Drops what is left of a closed ring, reservations that are just being committed included, and says how many
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
            // The next consumer's.
            #[cfg(target_os = "linux")]
            Self::Shared(_) => 0,
            Self::Nothing(_) => 0,
        }
    }

    /// At the end: counts what was put back, where that is done. So many messages were delivered or dropped.
    #[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "memory is shared on Linux only"))]
    pub(super) fn settle(&self, ended: u64) {
        match self {
            Self::Ring(_) | Self::Nothing(_) => {}
            #[cfg(target_os = "linux")]
            Self::Shared(feed) => feed.settle(ended),
        }
    }
}

impl FeedGauge {
    /// Nothing more is accepted; what was, can be taken.
    pub(super) fn close(&self) {
        match self {
            Self::Ring(ring) => ring.close(),
            #[cfg(target_os = "linux")]
            Self::Shared(gauge) => gauge.close(),
            Self::Nothing(none) => none.closed.raise(),
        }
    }

    /// Bytes in a message.
    pub(super) fn message_size(&self) -> usize {
        match self {
            Self::Ring(ring) => ring.message_size(),
            #[cfg(target_os = "linux")]
            Self::Shared(gauge) => gauge.message_size(),
            Self::Nothing(_) => 1,
        }
    }

    /// Slots that are never used again.
    pub(super) fn quarantined(&self) -> usize {
        match self {
            Self::Ring(ring) => ring.statistics().quarantined,
            #[cfg(target_os = "linux")]
            Self::Shared(gauge) => gauge.quarantined(),
            Self::Nothing(_) => 0,
        }
    }

    /// How many of so many accepted messages are lost if the pump never ends, and so many were delivered, and so many are
    /// known to be dropped: all the others of a ring, and none of those that come to the next consumer.
    pub(super) fn dropped_without_end(&self, accepted: u64, delivered: u64, dropped: u64) -> u64 {
        match self {
            Self::Ring(_) => accepted.saturating_sub(delivered),
            #[cfg(target_os = "linux")]
            Self::Shared(_) => dropped,
            Self::Nothing(_) => dropped,
        }
    }

    pub(super) fn counts(&self) -> FeedCounts {
        match self {
            Self::Ring(ring) => {
                let statistics = ring.statistics();
                FeedCounts {
                    accepted: statistics.delivered + statistics.cleared + ring.len() as u64,
                    redelivered: 0,
                    skipped: statistics.skipped,
                    stalled: statistics.stalled,
                }
            }
            #[cfg(target_os = "linux")]
            Self::Shared(gauge) => gauge.counts(),
            Self::Nothing(_) => FeedCounts { accepted: 0, redelivered: 0, skipped: 0, stalled: None },
        }
    }
}
