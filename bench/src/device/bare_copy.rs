//! Bare loops of copies on one thread: out of a ring, and out of plain memory.

use std::time::Instant;

use anyhow::{Result, ensure};
use transload::staging::{DequeueError, PinnedStagingBuffer};

use super::publisher::Publisher;
use super::shape::Shape;
use super::side::{BLANK, Budget, Last, Run, Side, Until};
use super::source::Source;
use crate::adapter::Role;

/// The rival of the pump to the host: takes batches out of the ring and copies each, on one thread.
#[derive(Debug)]
pub struct TakeAndCopy {
    source: Source,
    shape: Shape,
}

impl TakeAndCopy {
    /// Out of this memory.
    pub fn new(source: Source, shape: Shape) -> Self {
        Self { source, shape }
    }
}

impl Side for TakeAndCopy {
    fn name(&self) -> &'static str {
        "take, memcpy"
    }

    fn role(&self) -> Role {
        Role::Rival
    }

    fn run(&mut self, until: Until) -> Result<Run> {
        let shape = self.shape;
        let ring = PinnedStagingBuffer::builder(shape.capacity(), shape.message_bytes);
        let (producer, mut consumer) = ring.slab(self.source.slab().clone()).build()?.split();
        let mut queue = vec![BLANK; shape.queue_bytes()];
        let mut publisher = Publisher::new(producer, &shape, until)?;
        let (mut batches, mut last) = (0, Last::default());
        let begun = Instant::now();
        loop {
            let batch = match consumer.take(shape.batch_messages()) {
                Err(DequeueError::Closed) => break,
                batch => batch?,
            };
            let (bytes, rest) = batch.as_slices();
            ensure!(
                bytes.len() == shape.batch_bytes && rest.is_empty(),
                "{} messages only",
                batch.messages()
            );
            queue[shape.place(batches)..][..bytes.len()].copy_from_slice(bytes);
            drop(batch);
            last.note_batch(&shape, batches);
            batches += 1;
            publisher.publish_next()?;
        }
        let elapsed = begun.elapsed();
        Ok(Run { messages: batches * shape.batch_messages() as u64, elapsed, last: last.take(), queue })
    }
}

/// What one thread's copies of the same bytes reach, with nothing else to do: a ceiling, no rival.
#[derive(Debug)]
pub struct Memcpy {
    source: Source,
    shape: Shape,
}

impl Memcpy {
    /// Out of this memory.
    pub fn new(source: Source, shape: Shape) -> Self {
        Self { source, shape }
    }
}

impl Side for Memcpy {
    fn name(&self) -> &'static str {
        "memcpy"
    }

    fn role(&self) -> Role {
        Role::Baseline
    }

    fn run(&mut self, until: Until) -> Result<Run> {
        let shape = self.shape;
        let source = self.source.bytes();
        let mut queue = vec![BLANK; shape.queue_bytes()];
        let (mut budget, mut batches, mut last) = (Budget::new(until), 0, Last::default());
        let begun = Instant::now();
        while let Some(batch) = budget.next() {
            let bytes = &source[shape.origin(batch)..][..shape.batch_bytes];
            queue[shape.place(batch)..][..bytes.len()].copy_from_slice(bytes);
            last.note_batch(&shape, batch);
            batches += 1;
        }
        let elapsed = begun.elapsed();
        Ok(Run { messages: batches * shape.batch_messages() as u64, elapsed, last: last.take(), queue })
    }
}
