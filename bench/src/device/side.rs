//! Who moves batches, and what a run of it leaves behind.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::shape::{QUEUE_BATCHES, Shape};
use crate::adapter::Role;

/// What the device's queue is filled with before a run, so that a batch which is not sent is missing.
pub const BLANK: u8 = 0xA5;

/// One side of the comparison: moves batches out of the same host memory into a queue of the same size.
pub trait Side {
    /// In the report.
    fn name(&self) -> &str;

    /// Whether it counts, and for whom.
    fn role(&self) -> Role;

    /// Moves batches into a blank queue, the first from the start of the host memory, each behind the one before.
    ///
    /// # Errors
    ///
    /// What the device or the pump answers.
    fn run(&mut self, until: Until) -> Result<Run>;
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After so many batches.
    Batches(u64),
    /// When no more are begun after that time; what was begun arrives.
    Time(Duration),
}

/// Where messages have landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the first message, from 0.
    pub position: u64,
    /// How many there are.
    pub messages: usize,
    /// Offsets in the device's queue.
    pub at: Range<usize>,
}

/// What a run has done.
#[derive(Debug)]
pub struct Run {
    /// Messages that have landed.
    pub messages: u64,
    /// From the first batch to the last.
    pub elapsed: Duration,
    /// The last that have landed, oldest first.
    pub last: VecDeque<Place>,
    /// What stands in the device's queue afterwards.
    pub queue: Vec<u8>,
}

impl Run {
    /// Bytes a second.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn rate(&self, shape: &Shape) -> f64 {
        (self.messages * shape.message_bytes as u64) as f64 / self.elapsed.as_secs_f64()
    }
}

/// The last places, as many as a queue holds.
#[derive(Debug, Default)]
pub(super) struct Last(VecDeque<Place>);

impl Last {
    pub(super) fn note(&mut self, place: Place) {
        if self.0.len() == QUEUE_BATCHES {
            self.0.pop_front();
        }
        self.0.push_back(place);
    }

    /// Notes a whole batch, counted from 0.
    pub(super) fn note_batch(&mut self, shape: &Shape, batch: u64) {
        let (messages, start) = (shape.batch_messages(), shape.place(batch));
        let at = start..start + shape.batch_bytes;
        self.note(Place { position: batch * messages as u64, messages, at });
    }

    pub(super) fn take(&mut self) -> VecDeque<Place> {
        std::mem::take(&mut self.0)
    }
}

/// Says of each batch whether it is still to be sent.
#[derive(Debug)]
pub(super) struct Budget {
    until: Until,
    begun: Instant,
    batches: u64,
}

impl Budget {
    pub(super) fn new(until: Until) -> Self {
        Self { until, begun: Instant::now(), batches: 0 }
    }

    /// Counts one more batch, if there is to be one, and gives its number.
    pub(super) fn next(&mut self) -> Option<u64> {
        let more = match self.until {
            Until::Batches(batches) => self.batches < batches,
            Until::Time(time) => self.begun.elapsed() < time,
        };
        self.batches += u64::from(more);
        more.then(|| self.batches - 1)
    }
}
