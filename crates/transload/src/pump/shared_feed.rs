//! A ring that processes share, as what a pump takes messages from.

use std::sync::Arc;
use std::time::Duration;

use transload_core::{Counter, Flag};

use super::feed::{Dry, FeedCounts};
use crate::shared::{SharedBatch, SharedConsumer, SharedRegion, TakeError};

/// A ring that processes share, as what a pump takes messages from. Each message is a whole buffer to the device.
///
/// Messages stay in the ring until they are delivered: landed, and taken by the sink if there is one. Those that are not
/// when the pump ends, or when its process dies, are put back: the next consumer gets them once more, counted
/// `redelivered`. They are no part of what this pump has accepted.
///
/// When the pump is told to stop, it delivers what is in the ring then. Senders may go on, so it takes no more than a
/// ringful.
///
/// ```
/// use transload::device::{Driver, host};
/// use transload::pump::{Pump, PumpOptions, SharedFeed};
/// use transload::shared::{SharedPool, SharedRegion};
///
/// let region = SharedRegion::builder(64, 256).create()?;
/// let pool = SharedPool::join(&region, "pump")?;
/// let feed = SharedFeed::new(pool.ring().consumer()?).at_most(1);
/// let device = host::Host.open(0)?;
/// let running = Pump::open(&*device, feed, PumpOptions::default())?.spawn()?;
///
/// // Another process, in fact.
/// let sender = SharedPool::join(&region, "sender")?;
/// sender.ring().try_send_copy(&[7; 256])?;
/// assert_eq!(running.join().delivered, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedFeed {
    consumer: SharedConsumer,
    gauge: Arc<SharedGauge>,
    /// How many more messages it gives.
    left: u64,
    /// It was seen that the feed is closed.
    is_closing: bool,
}

/// What other threads may ask of it.
#[derive(Debug)]
pub(super) struct SharedGauge {
    region: SharedRegion,
    closed: Flag,
    /// Messages that were taken. Written by the pump, as are the others.
    taken: Counter,
    /// Those of them that an earlier consumer had taken, and was not done with.
    redelivered: Counter,
    /// Those that were neither delivered nor dropped when the pump ended.
    put_back: Counter,
}

impl SharedFeed {
    /// All that comes, until the pump is told to stop.
    pub fn new(consumer: SharedConsumer) -> Self {
        let gauge = SharedGauge {
            region: consumer.region().clone(),
            closed: Flag::new(),
            taken: Counter::new(),
            redelivered: Counter::new(),
            put_back: Counter::new(),
        };
        Self { consumer, gauge: Arc::new(gauge), left: u64::MAX, is_closing: false }
    }

    /// No more than so many messages: the pump ends when it has taken them, and all have come to their ends.
    #[must_use]
    pub fn at_most(self, messages: u64) -> Self {
        Self { left: messages, ..self }
    }

    /// The end of the ring that it takes from.
    pub fn consumer(&self) -> &SharedConsumer {
        &self.consumer
    }

    pub(super) fn gauge(&self) -> Arc<SharedGauge> {
        self.gauge.clone()
    }

    /// How many messages there can be at once: each is a buffer, and named by a cell.
    pub(super) fn capacity(&self) -> usize {
        self.consumer.capacity().min(self.consumer.region().buffer_count())
    }

    pub(super) fn reaches(&self, messages: usize) -> bool {
        self.consumer.available() >= messages
    }

    pub(super) fn is_ready(&mut self) -> Result<bool, Dry> {
        if self.wanted() == 0 {
            return Err(Dry::Closed);
        }
        match self.consumer.is_ready() {
            Ok(false) if self.is_closing => Err(Dry::Closed),
            Ok(is_ready) => Ok(is_ready),
            Err(error) => Err(Dry::Failed(error.into())),
        }
    }

    pub(super) fn take(&mut self, max: usize) -> Result<SharedBatch, Dry> {
        let wanted = self.wanted();
        if wanted == 0 {
            return Err(Dry::Closed);
        }
        let max = usize::try_from(wanted).map_or(max, |wanted| wanted.min(max));
        let batch = self.consumer.take(max).map_err(|error| match error {
            TakeError::Empty if self.is_closing => Dry::Closed,
            TakeError::Empty => Dry::Empty,
            TakeError::Blocked { .. } => Dry::Blocked,
            error => Dry::Failed(error.into()),
        })?;
        let messages = batch.messages() as u64;
        let redelivered = batch.iter().filter(|message| message.redelivered).count();
        self.left -= messages;
        self.gauge.taken.add_as_only_writer(messages);
        self.gauge.redelivered.add_as_only_writer(redelivered as u64);
        Ok(batch.unless_done())
    }

    /// How many more messages are wanted.
    fn wanted(&mut self) -> u64 {
        if self.gauge.closed.is_raised() && !self.is_closing {
            self.is_closing = true;
            self.left = self.left.min(self.consumer.capacity() as u64);
        }
        self.left
    }

    pub(super) fn must_go(&self) -> bool {
        self.gauge.closed.is_raised()
            || self.consumer.available() as u64 >= self.left
            // Those that are under way keep their buffers.
            || self.consumer.len() >= self.capacity()
    }

    pub(super) fn wait_timeout(&mut self, timeout: Duration) {
        let _ = self.consumer.wait_timeout(timeout);
    }

    /// Counts what was put back: all but the messages that were delivered or dropped.
    pub(super) fn settle(&self, ended: u64) {
        self.gauge.put_back.set(self.gauge.taken.value().saturating_sub(ended));
    }
}

impl From<SharedConsumer> for SharedFeed {
    fn from(consumer: SharedConsumer) -> Self {
        Self::new(consumer)
    }
}

impl SharedGauge {
    pub(super) fn close(&self) {
        self.closed.raise();
    }

    pub(super) fn message_size(&self) -> usize {
        self.region.buffer_size()
    }

    pub(super) fn quarantined(&self) -> usize {
        self.region.statistics().quarantined
    }

    pub(super) fn counts(&self) -> FeedCounts {
        FeedCounts {
            accepted: self.taken.value() - self.put_back.value(),
            redelivered: self.redelivered.value(),
            skipped: 0,
            stalled: None,
        }
    }
}
