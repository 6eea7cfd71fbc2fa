//! Makes messages that are in memory already come out of a ring, again and again.

use anyhow::{Context, Result, ensure};
use transload::staging::{EnqueueError, Producer};

use super::shape::{SOURCE_BYTES, Shape};
use super::side::{Budget, Until};

/// Publishes slots of a ring in place, a batch at a time, without a look at their bytes: these have been there since the
/// memory was filled. The ring closes when all batches of a run are published.
#[derive(Debug)]
pub(super) struct Publisher {
    producer: Option<Producer>,
    budget: Budget,
    batch_messages: usize,
}

impl Publisher {
    /// Fills the ring, as far as the run goes.
    pub(super) fn new(producer: Producer, shape: &Shape, until: Until) -> Result<Self> {
        let batch_messages = shape.batch_messages();
        let mut publisher = Self { producer: Some(producer), budget: Budget::new(until), batch_messages };
        for _ in 0..SOURCE_BYTES / shape.batch_bytes {
            publisher.publish_next()?;
        }
        Ok(publisher)
    }

    /// Publishes the next batch into the room that one has left, if there is to be one.
    pub(super) fn publish_next(&mut self) -> Result<()> {
        let Some(producer) = &self.producer else { return Ok(()) };
        if self.budget.next().is_none() {
            self.producer = None;
            return Ok(());
        }
        let slots = producer.try_reserve_batch(self.batch_messages)?;
        ensure!(slots.len() == self.batch_messages, "room for {} messages only", slots.len());
        slots.commit();
        Ok(())
    }

    /// Publishes until there is nothing more to be published, waiting for room as any producer does.
    pub(super) fn publish_all(mut self) -> Result<()> {
        let Some(producer) = self.producer.take() else { return Ok(()) };
        while self.budget.next().is_some() {
            let mut left = self.batch_messages;
            while left > 0 {
                let slots = match producer.reserve_batch_timeout(left, LONGEST) {
                    Err(EnqueueError::Closed) => return Ok(()),
                    slots => slots.context("nobody makes room")?,
                };
                left -= slots.len();
                slots.commit();
            }
        }
        Ok(())
    }
}

/// The longest wait for room.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(20);
