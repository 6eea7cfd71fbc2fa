//! A pump while it runs.

use std::time::{Duration, Instant};

use super::feed::{Dry, Feed, FeedGauge};
use super::flights::Flights;
use super::idle::{Idle, LONG, SHORT};
use super::link::Link;
use super::rounds::Rounds;
use super::{Pump, PumpError, PumpOptions, Report};
use crate::device::Completion;

/// How long a pump that ends waits for the device, and for reservations that are still being written.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// A pump while it runs: one thread, all of its state.
pub(super) struct Engine {
    feed: Feed,
    gauge: FeedGauge,
    options: PumpOptions,
    batch_messages: usize,
    link: Link,
    /// What has a place on the device. The device's tail stands before the first.
    flights: Flights,
    /// What is done there beside, for a pump over queues.
    rounds: Option<Rounds>,
    /// When the pump first saw the oldest message that it has not taken.
    first_seen: Option<Instant>,
    /// What stood before this position and was in the ring when a source last asked for room has been dropped.
    shed_before: u64,
    idle: Idle,
}

/// What came of trying to feed the device.
enum Fed {
    /// A batch was submitted.
    Batch,
    /// Nothing can go out before a completion.
    DeviceBusy,
    /// Messages are there, but a batch waits for more until then.
    Until(Instant),
    /// No message is there.
    Nothing,
    /// None will come any more.
    Drained,
}

impl Engine {
    pub(super) fn new(pump: Pump) -> Self {
        let Pump { feed, stream, region, options, control, on_landed, after, rounds } = pump;
        let batch_messages = options.batch_messages(feed.message_size(), feed.capacity());
        let most = stream.in_flight_limit() + options.in_flight + 1;
        let feed_is = (feed.message_size(), feed.keeps_until_delivered());
        let mut flights = Flights::new(region, feed_is, (stream.queue_bytes(), most), after);
        flights.on_landed = on_landed;
        Self {
            gauge: feed.gauge(),
            feed,
            batch_messages: flights.most_messages(batch_messages),
            link: Link { stream, control, retries: options.retries, error: None },
            options,
            flights,
            rounds,
            first_seen: None,
            shed_before: 0,
            idle: Idle::default(),
        }
    }

    pub(super) fn run(mut self) -> Report {
        let started = Instant::now();
        let mut is_last = false;
        while self.link.error.is_none() && !self.link.control.is_over() {
            let mut active = self.collect();
            active |= self.flights.advance(&mut self.link);
            active |= self.advance_rounds(is_last);
            let fed = self.feed();
            // A source that asks for room, and is answered by a batch that goes out, needs nothing dropped. If it still
            // has no room it asks again.
            let asked = self.link.control.shed.take();
            if asked && matches!(fed, Fed::DeviceBusy) {
                active |= self.shed();
            }
            if active || matches!(fed, Fed::Batch) {
                self.idle.reset();
                continue;
            }
            is_last = matches!(fed, Fed::Drained) && self.flights.is_empty();
            if is_last && self.rounds_are_done() {
                break;
            }
            if !self.idle.pause(self.link.stream.in_flight() > 0) {
                self.sleep(&fed);
            }
        }
        self.end();
        self.report(started.elapsed())
    }

    /// Handles what the device has finished. Says whether there was anything.
    fn collect(&mut self) -> bool {
        let mut any = false;
        while let Some(completion) = self.link.stream.poll() {
            self.complete(completion);
            any = true;
        }
        any
    }

    fn complete(&mut self, completion: Completion) {
        let result = completion.result.clone();
        let mut left = self.flights.complete(&mut self.link, completion);
        if let (Some(completion), Some(rounds)) = (left.take(), &mut self.rounds) {
            left = rounds.complete(&mut self.link, completion);
        }
        debug_assert!(left.is_none(), "a completion of what is not in flight: {left:?}");
        self.link.look_at(&result);
    }

    fn advance_rounds(&mut self, is_last: bool) -> bool {
        let Some(rounds) = &mut self.rounds else { return false };
        let changed = rounds.advance(&mut self.link, self.flights.after.queue(), is_last);
        if rounds.is_abandoned() && matches!(self.feed, Feed::Nothing(_)) {
            self.gauge.close();
        }
        changed
    }

    fn rounds_are_done(&mut self) -> bool {
        let inbound = self.flights.after.queue();
        self.rounds.as_ref().is_none_or(|rounds| rounds.is_done(inbound.as_deref()))
    }

    /// Drops the oldest batch that is not yet submitted, for a source that needs room, if there still is none.
    fn shed(&mut self) -> bool {
        let Some((messages, end)) = self.feed.shed(self.batch_messages, self.shed_before) else {
            return false;
        };
        self.link.control.dropped.add_as_only_writer(messages);
        self.shed_before = end;
        self.first_seen = None;
        true
    }

    /// Submits the next batch if it is time.
    fn feed(&mut self) -> Fed {
        if self.flights.has_no_output()
            || self.flights.underway() >= self.options.in_flight
            || !self.link.is_free()
        {
            return Fed::DeviceBusy;
        }
        if !self.feed.reaches(self.batch_messages) {
            match self.feed.is_ready() {
                Err(dry) => return self.dry(dry),
                Ok(false) => {
                    self.first_seen = None;
                    return Fed::Nothing;
                }
                Ok(true) if !self.must_go() => return Fed::Until(self.deadline()),
                Ok(true) => {}
            }
        }
        let (room, to) = self.flights.room(self.batch_messages);
        if room == 0 {
            return Fed::DeviceBusy;
        }
        match self.feed.take(room) {
            Ok(payload) => {
                self.first_seen = None;
                self.flights.submit(&mut self.link, payload, to);
                Fed::Batch
            }
            Err(dry) => self.dry(dry),
        }
    }

    fn dry(&mut self, dry: Dry) -> Fed {
        match dry {
            Dry::Empty => Fed::Nothing,
            Dry::Closed => Fed::Drained,
            Dry::Blocked => Fed::DeviceBusy,
            Dry::Failed(error) => {
                self.link.end(error);
                Fed::Drained
            }
        }
    }

    /// Whether a batch goes out although it is not full.
    fn must_go(&mut self) -> bool {
        let now = Instant::now();
        let first_seen = *self.first_seen.get_or_insert(now);
        now.duration_since(first_seen) >= self.options.batch_delay || self.feed.must_go()
    }

    /// When the batch that is being gathered goes out whatever its size.
    fn deadline(&self) -> Instant {
        let due = self.first_seen.and_then(|seen| seen.checked_add(self.options.batch_delay));
        due.unwrap_or_else(|| Instant::now() + LONG)
    }

    /// Sleeps until something may have happened.
    fn sleep(&mut self, fed: &Fed) {
        if matches!(fed, Fed::Nothing) {
            self.feed.note_stall();
        }
        let left = match fed {
            Fed::Until(deadline) => deadline.saturating_duration_since(Instant::now()),
            Fed::DeviceBusy | Fed::Drained => LONG,
            Fed::Batch | Fed::Nothing => SHORT,
        };
        if self.link.stream.in_flight() > 0 {
            if let Some(completion) = self.link.stream.wait(left.min(SHORT)) {
                self.complete(completion);
                self.idle.reset();
            }
        } else if matches!(fed, Fed::Nothing) {
            // Woken by the producer of the next message.
            self.feed.wait_timeout(self.rounds.as_ref().map_or(LONG, Rounds::rest));
        } else {
            // Nothing wakes us when the batch is full: look again and again, ever less often.
            std::thread::sleep(left.min(self.idle.longer(SHORT)));
        }
    }

    /// Ends: nothing more is accepted, what did not arrive is counted.
    fn end(&mut self) {
        self.gauge.close();
        let until = Instant::now() + LAST_WAIT;
        // Once in any case: what has landed has arrived.
        while self.link.error.is_none() {
            self.collect();
            self.flights.advance(&mut self.link);
            if let Some(rounds) = &mut self.rounds {
                rounds.finish(&mut self.link);
            }
            let over = self.link.control.abort.is_raised() || Instant::now() >= until;
            if over || self.link.stream.in_flight() == 0 {
                break;
            }
            if let Some(completion) = self.link.stream.wait(SHORT) {
                self.complete(completion);
            }
        }
        if !self.feed.keeps_until_delivered() {
            self.link.control.dropped.add_as_only_writer(self.flights.left());
        }
        self.link.control.dropped.add_as_only_writer(self.feed.drop_rest(until));
        if let Err(error) = self.flights.after.finish() {
            self.link.end(PumpError::Sink(error));
        }
    }

    fn report(mut self, elapsed: Duration) -> Report {
        let inbound = self.flights.after.queue();
        let untaken = self.rounds.as_mut().map_or(0, |rounds| rounds.end(&mut self.link, inbound.as_deref()));
        let Link { stream, control, error, .. } = self.link;
        // What is still in flight comes back or is quarantined now.
        let measure = self.flights.into_measure();
        drop(stream);
        self.feed.settle(control.delivered.value() + control.dropped.value());
        let progress = control.progress(&self.gauge);
        let (batch_messages_p50, batch_messages_max) = measure.batch_messages();
        Report {
            elapsed,
            batches: measure.batch_count(),
            batch_messages_p50,
            batch_messages_max,
            filtered: measure.filtered(),
            mapped_batches: measure.mapped_batches(),
            untaken,
            unreturned: control.unreturned.value(),
            failed_copies: control.failed_copies.value(),
            latency: measure.latency(),
            error,
            ..Report::of(&progress, &self.gauge)
        }
    }
}
