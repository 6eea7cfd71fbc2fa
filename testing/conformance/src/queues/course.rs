//! How messages are sent through the queues, there and back.

use std::thread;

use transload::device::{Device, QueueLayout, StreamOptions};
use transload::pump::{DeviceQueues, Pump, PumpError, PumpOptions, PumpStopper, Report};
use transload::staging::{Consumer, DequeueError, PinnedStagingBuffer, Producer};

use super::returned::{Returned, message, unbalanced};
use super::subject::Subject;
use crate::device::Random;

/// How messages are sent through the queues.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// How many messages.
    pub messages: u32,
    /// Bytes in each.
    pub message_size: usize,
    /// Of the rings on both sides.
    pub ring: usize,
    /// Of the queue that the kernel takes from.
    pub inbound: usize,
    /// Of the queue that it gives to.
    pub outbound: usize,
    /// How often the kernel runs at once.
    pub work_items: u32,
    /// The position that both queues begin with.
    pub start: u32,
    /// How often a failed transfer is tried again.
    pub retries: u32,
    /// Messages in a batch.
    pub batch: usize,
    /// The transfers that the stream takes at once, if it is opened before.
    pub in_flight: Option<usize>,
}

impl Course {
    /// A small one, in which everything wraps.
    pub fn small() -> Self {
        Self {
            messages: 200,
            message_size: 8,
            ring: 16,
            inbound: 8,
            outbound: 8,
            work_items: 8,
            start: 0,
            retries: 3,
            batch: 4,
            in_flight: None,
        }
    }

    /// One of sizes by chance, with positions that wrap.
    pub(super) fn by_chance(random: &mut Random) -> Self {
        let mut word = |limit| u32::try_from(random.below(limit)).unwrap();
        let (messages, work_items, before) = (word(400), 1 + word(130), word(500));
        let mut power = |least: usize, most: usize| 1 << (least + random.below(most - least + 1));
        let (ring, inbound, outbound) = (power(1, 6), power(0, 7), power(0, 7));
        Self {
            messages,
            message_size: (1 + random.below(40)) * 4,
            ring,
            inbound,
            outbound,
            work_items,
            start: u32::MAX - before,
            batch: 1 + random.below(20),
            ..Self::small()
        }
    }

    /// The queues and the ends of the rings around them.
    ///
    /// # Errors
    ///
    /// What the pump says.
    pub fn open(self, subject: &Subject) -> Result<(Producer, Pump, Consumer), PumpError> {
        let ring = || PinnedStagingBuffer::new(self.ring, self.message_size).unwrap().split();
        let ((producer, feed), (back, consumer)) = (ring(), ring());
        let mut queues = DeviceQueues::new();
        if let Some(in_flight) = self.in_flight {
            let layout = |capacity| QueueLayout::new(capacity, self.message_size).unwrap();
            let queue_bytes = layout(self.inbound).stride_bytes() + layout(self.outbound).len_bytes();
            queues = queues.on(subject.device.open_stream(&StreamOptions { queue_bytes, in_flight })?);
        }
        let queues = queues
            .inbound(feed, self.inbound)
            .outbound(back, self.outbound)
            .kernel(subject.echo.clone(), self.work_items)
            .starting_at(self.start);
        let options = PumpOptions {
            batch_bytes: self.batch * self.message_size,
            in_flight: 3,
            retries: self.retries,
            ..PumpOptions::default()
        };
        Ok((producer, Pump::open_queues(&subject.device, queues, options)?, consumer))
    }

    /// Sends all messages, as long as they are taken, and says what the pump reports and which came back.
    ///
    /// # Errors
    ///
    /// What the pump says when it is opened.
    pub fn run(self, subject: &Subject) -> Result<(Report, Returned), PumpError> {
        self.run_until(subject, |_| ())
    }

    /// As [`run`](Course::run), with somebody else who may stop the pump.
    pub(super) fn run_until(
        self,
        subject: &Subject,
        somebody: impl FnOnce(&PumpStopper) + Send + 'static,
    ) -> Result<(Report, Returned), PumpError> {
        let (producer, pump, mut consumer) = self.open(subject)?;
        let running = pump.spawn()?;
        let stopper = running.stopper().clone();
        let somebody = thread::spawn(move || somebody(&stopper));
        let sender = thread::spawn(move || {
            (0..self.messages)
                .take_while(|number| producer.enqueue(&message(*number, self.message_size)).is_ok())
                .count()
        });
        let mut returned = Returned::default();
        loop {
            match consumer.take(5) {
                Ok(batch) => batch.iter().for_each(|message| returned.note(message)),
                Err(DequeueError::Closed) => break,
                Err(_) => thread::yield_now(),
            }
        }
        sender.join().unwrap();
        somebody.join().unwrap();
        Ok((running.join(), returned))
    }
}

/// What is wrong with one course in which nothing may get lost.
pub fn check(subject: &Subject, course: Course) -> Vec<&'static str> {
    let (report, returned) = course.run(subject).unwrap();
    let mut findings = returned.findings(course.messages, subject.in_order && course.work_items == 1);
    findings.extend(unbalanced(&report, u64::from(course.messages)));
    findings
}
