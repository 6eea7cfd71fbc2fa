//! A pump while it runs.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::after::After;
use super::control::Control;
use super::feed::{Dry, Feed, FeedGauge};
use super::flight::{Flight, State};
use super::idle::{Idle, LONG, SHORT};
use super::measure::Measure;
use super::queue::QueueSpace;
use super::sink::LandedCallback;
use super::{Landed, Pump, PumpError, PumpOptions, Report};
use crate::device::{
    Completion, CopyError, DeviceError, Download, Landing, Launch, Payload, Stream, Transfer, Upload,
};
use crate::region::Region;

/// How long a pump that ends waits for the device, and for reservations that are still being written.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// A pump while it runs: one thread, all of its state.
pub(super) struct Engine {
    feed: Feed,
    gauge: FeedGauge,
    stream: Box<dyn Stream>,
    region: Region,
    options: PumpOptions,
    control: Arc<Control>,
    on_landed: Option<LandedCallback>,
    after: After,
    message_size: usize,
    batch_messages: usize,
    space: QueueSpace,
    /// What has a place in the device queue, oldest first. The device's tail stands before the first.
    flights: VecDeque<Flight>,
    /// When the pump first saw the oldest message that it has not taken.
    first_seen: Option<Instant>,
    /// What stood before this position and was in the ring when a source last asked for room has been dropped.
    shed_before: u64,
    measure: Measure,
    error: Option<PumpError>,
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
        let Pump { feed, stream, region, options, control, on_landed, after } = pump;
        let message_size = feed.message_size();
        let batch_messages = options.batch_messages(message_size, feed.capacity());
        let space = QueueSpace::new(stream.queue_bytes());
        let flights = VecDeque::with_capacity(stream.in_flight_limit() + options.in_flight + 1);
        Self {
            gauge: feed.gauge(),
            feed,
            stream,
            region,
            options,
            control,
            on_landed,
            after,
            message_size,
            batch_messages,
            space,
            flights,
            first_seen: None,
            shed_before: 0,
            measure: Measure::new(),
            error: None,
        }
    }

    pub(super) fn run(mut self) -> Report {
        let started = Instant::now();
        let mut idle = Idle::default();
        while self.error.is_none() && !self.control.is_over() {
            let mut active = self.collect();
            active |= self.advance();
            let fed = self.feed();
            // A source that asks for room, and is answered by a batch that goes out, needs nothing dropped. If it still
            // has no room it asks again.
            let asked = self.control.shed.take();
            if asked && matches!(fed, Fed::DeviceBusy) {
                active |= self.shed();
            }
            if active || matches!(fed, Fed::Batch) {
                idle.reset();
                continue;
            }
            if matches!(fed, Fed::Drained) && self.flights.is_empty() {
                break;
            }
            if !idle.pause() {
                self.sleep(&fed, &idle);
            }
        }
        self.end();
        self.report(started.elapsed())
    }

    /// Handles what the device has finished. Says whether there was anything.
    fn collect(&mut self) -> bool {
        let mut any = false;
        while let Some(completion) = self.stream.poll() {
            self.complete(completion);
            any = true;
        }
        any
    }

    fn complete(&mut self, completion: Completion) {
        let Completion { ticket, transfer, result } = completion;
        let Some(index) = self.flights.iter().position(|flight| flight.has(ticket)) else {
            debug_assert!(false, "a completion of transfer {ticket}, which is not in flight");
            return;
        };
        let flight = &mut self.flights[index];
        match (transfer, &result) {
            (Transfer::Upload(upload), Ok(())) => {
                let payload = upload.into_payload();
                self.measure.ages(payload.sampled_ages());
                flight.failures = 0;
                flight.state = State::Landed;
                if self.feed.keeps_until_delivered() {
                    payload.take_back();
                    flight.kept = Some(payload);
                } else {
                    payload.done();
                }
            }
            (Transfer::Download(download), Ok(())) => flight.state = State::Fetched(download.into_landing()),
            (Transfer::Upload(upload), Err(error)) => {
                self.failed(index, error, State::UploadAgain(Box::new(upload)));
            }
            (Transfer::Download(download), Err(error)) => {
                self.failed(index, error, State::FetchAgain(download.into_landing()));
            }
            // Its messages are put back.
            (Transfer::Quarantined { .. }, _) if self.feed.keeps_until_delivered() => {
                flight.state = State::GivenUp;
            }
            (Transfer::Quarantined { .. }, _) => self.give_up(index, "the device is lost"),
            (Transfer::Launch(launch), Ok(())) => {
                launch.upload().payload().take_back();
                self.measure.ages(launch.upload().payload().sampled_ages());
                flight.state = State::Launched(launch);
            }
            (Transfer::Launch(launch), Err(error)) => {
                self.failed(index, error, State::LaunchAgain(Box::new(launch)));
            }
            (Transfer::Fill(_) | Transfer::Dispatch(_), _) => {
                debug_assert!(false, "nobody has submitted one");
            }
        }
        if let Err(CopyError::Lost { reason }) = result {
            self.error.get_or_insert(DeviceError::Lost { reason }.into());
        }
    }

    /// A copy of a flight has failed: it is tried `again`, unless that was often enough.
    fn failed(&mut self, index: usize, reason: impl Display, again: State) {
        self.control.failed_copies.add_as_only_writer(1);
        let flight = &mut self.flights[index];
        flight.failures += 1;
        if flight.failures <= self.options.retries {
            flight.state = again;
            return;
        }
        match (again, &mut self.after) {
            (State::FetchAgain(landing), After::ReadBack(read_back)) => read_back.landings.push(landing),
            (State::UploadAgain(upload), _) => upload.into_payload().done(),
            (State::LaunchAgain(launch), After::Kernel(through)) => {
                let (upload, output) = launch.into_parts();
                upload.into_payload().done();
                through.outputs.push(output);
            }
            _ => {}
        }
        self.give_up(index, reason);
    }

    fn give_up(&mut self, index: usize, reason: impl Display) {
        let flight = &mut self.flights[index];
        flight.state = State::GivenUp;
        if let Some(payload) = flight.kept.take() {
            payload.done();
        }
        self.control.dropped.add_as_only_writer(flight.messages as u64);
        tracing::warn!(messages = flight.messages, "a batch was given up: {reason}");
    }

    /// The device has refused to start a copy. What its driver refuses once may pass later; anything else does not.
    fn refused(&mut self, index: usize, error: DeviceError, again: State) {
        if matches!(error, DeviceError::Driver { .. }) {
            return self.failed(index, error, again);
        }
        if self.feed.keeps_until_delivered() {
            // Nobody touches it, and the pump ends: it is put back.
            self.flights[index].state = again;
        } else {
            self.give_up(index, &error);
        }
        self.error.get_or_insert(error.into());
    }

    /// Tries failed copies again, starts to read back what has landed, and moves the device's tail over what has come
    /// to its end. Says whether anything changed.
    fn advance(&mut self) -> bool {
        let mut changed = false;
        for index in 0..self.flights.len() {
            if self.error.is_some() || self.stream.in_flight() == self.stream.in_flight_limit() {
                break;
            }
            changed |= self.restart(index);
        }
        while self.error.is_none() && self.end_oldest() {
            changed = true;
        }
        changed
    }

    /// Starts the next transfer of a flight, if it needs one.
    fn restart(&mut self, index: usize) -> bool {
        let flight = &mut self.flights[index];
        match std::mem::replace(&mut flight.state, State::GivenUp) {
            State::UploadAgain(upload) => self.upload(index, *upload),
            State::LaunchAgain(launch) => self.launch(index, *launch),
            State::Landed => {
                // The last one is kept for the oldest flight: the others wait for it in the memory that they hold.
                let free = self.after.landings();
                let landing = free.filter(|free| index == 0 || free.len() > 1).and_then(Vec::pop);
                let Some(landing) = landing else {
                    flight.state = State::Landed;
                    return false;
                };
                return self.fetch(index, landing);
            }
            State::FetchAgain(landing) => return self.fetch(index, landing),
            other => {
                flight.state = other;
                return false;
            }
        }
        true
    }

    fn fetch(&mut self, index: usize, landing: Landing) -> bool {
        let flight = &mut self.flights[index];
        match self.stream.fetch(Download::new(flight.device_range.clone(), landing)) {
            Ok(ticket) => flight.state = State::Fetching(ticket),
            Err(refused) => {
                self.refused(index, refused.error, State::FetchAgain(refused.transfer.into_landing()));
            }
        }
        true
    }

    /// Moves the device's tail over the oldest flight if it has come to its end.
    fn end_oldest(&mut self) -> bool {
        let Some(flight) = self.flights.front_mut() else { return false };
        let delivered = match (&flight.state, &mut self.after) {
            (State::GivenUp, after) => {
                after.lost(flight.messages);
                false
            }
            (State::Landed, After::Nothing) => true,
            (State::Launched(launch), After::Kernel(through)) => {
                match through.receive(launch) {
                    Ok(filtered) => self.measure.launched(launch.route(), filtered),
                    Err(error) => {
                        self.error = Some(error);
                        return false;
                    }
                }
                true
            }
            (State::Fetched(landing), After::ReadBack(read_back)) => {
                let bytes = flight.messages * self.message_size;
                if let Err(error) = read_back.sink.receive(&landing.as_slice()[..bytes], self.message_size) {
                    self.error = Some(PumpError::Sink(error));
                    return false;
                }
                true
            }
            _ => return false,
        };
        if delivered {
            if let Some(on_landed) = &mut self.on_landed {
                on_landed(&Landed {
                    device_range: flight.device_range.clone(),
                    messages: flight.messages,
                    message_size: self.message_size,
                    first_position: flight.first_position,
                });
            }
            self.control.delivered.add_as_only_writer(flight.messages as u64);
        }
        let Some(Flight { state, kept, .. }) = self.flights.pop_front() else { return true };
        if let Some(payload) = kept {
            payload.done();
        }
        match (state, &mut self.after) {
            (State::Fetched(landing), After::ReadBack(read_back)) => read_back.landings.push(landing),
            (State::Launched(launch), After::Kernel(through)) => {
                let (upload, output) = launch.into_parts();
                upload.into_payload().done();
                through.outputs.push(output);
            }
            _ => {}
        }
        true
    }

    /// Drops the oldest batch that is not yet submitted, for a source that needs room, if there still is none.
    fn shed(&mut self) -> bool {
        let Some((messages, end)) = self.feed.shed(self.batch_messages, self.shed_before) else {
            return false;
        };
        self.control.dropped.add_as_only_writer(messages);
        self.shed_before = end;
        self.first_seen = None;
        true
    }

    /// Submits the next batch if it is time.
    fn feed(&mut self) -> Fed {
        let underway = self.flights.iter().filter(|flight| flight.is_underway()).count();
        let no_output = self.after.kernel().is_some_and(|through| through.outputs.is_empty());
        if no_output
            || underway >= self.options.in_flight
            || self.stream.in_flight() >= self.stream.in_flight_limit()
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
        let want = self.batch_messages * self.message_size;
        let oldest = self.flights.front().map(|flight| &flight.device_range);
        let room = self.space.room(want, oldest);
        if room.len() < self.message_size {
            return Fed::DeviceBusy;
        }
        match self.feed.take(room.len() / self.message_size) {
            Ok(payload) => {
                self.submit(payload, room.start);
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
                self.error.get_or_insert(error);
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

    fn submit(&mut self, payload: Payload, to: usize) {
        self.first_seen = None;
        let (messages, first_position) = (payload.messages(), payload.first_position());
        let upload = Upload::new(&self.region, payload, to);
        let device_range = upload.device_range();
        self.measure.batch(messages);
        self.space.hand_out(&device_range);
        let index = self.flights.len();
        self.flights.push_back(Flight {
            device_range,
            messages,
            first_position,
            failures: 0,
            state: State::GivenUp,
            kept: None,
        });
        let prepared = self
            .after
            .kernel()
            .and_then(|through| through.outputs.pop().map(|output| (output, through.options.prefix_bytes)));
        match prepared {
            Some((output, prefix_bytes)) => self.launch(index, Launch::new(upload, output, prefix_bytes)),
            None => self.upload(index, upload),
        }
    }

    fn upload(&mut self, index: usize, upload: Upload) {
        match self.stream.submit(upload) {
            Ok(ticket) => self.flights[index].state = State::Uploading(ticket),
            Err(refused) => {
                self.refused(index, refused.error, State::UploadAgain(Box::new(refused.transfer)));
            }
        }
    }

    fn launch(&mut self, index: usize, launch: Launch) {
        let Some(through) = self.after.kernel() else { return };
        match self.stream.launch(&through.kernel, launch) {
            Ok(ticket) => self.flights[index].state = State::Launching(ticket),
            Err(refused) => {
                self.refused(index, refused.error, State::LaunchAgain(Box::new(refused.transfer)));
            }
        }
    }

    /// Sleeps until something may have happened.
    fn sleep(&mut self, fed: &Fed, idle: &Idle) {
        if matches!(fed, Fed::Nothing) {
            self.feed.note_stall();
        }
        let left = match fed {
            Fed::Until(deadline) => deadline.saturating_duration_since(Instant::now()),
            Fed::DeviceBusy | Fed::Drained => LONG,
            Fed::Batch | Fed::Nothing => SHORT,
        };
        if self.stream.in_flight() > 0 {
            if let Some(completion) = self.stream.wait(left.min(SHORT)) {
                self.complete(completion);
            }
        } else if matches!(fed, Fed::Nothing) {
            // Woken by the producer of the next message.
            self.feed.wait_timeout(LONG);
        } else {
            // Nothing wakes us when the batch is full: look again and again, ever less often.
            std::thread::sleep(left.min(idle.longer(SHORT)));
        }
    }

    /// Ends: nothing more is accepted, what did not arrive is counted.
    fn end(&mut self) {
        self.gauge.close();
        let until = Instant::now() + LAST_WAIT;
        // Once in any case: what has landed has arrived.
        while self.error.is_none() {
            self.collect();
            self.advance();
            let over = self.control.abort.is_raised() || Instant::now() >= until;
            if over || self.stream.in_flight() == 0 {
                break;
            }
            if let Some(completion) = self.stream.wait(SHORT) {
                self.complete(completion);
            }
        }
        if !self.feed.keeps_until_delivered() {
            for flight in self.flights.iter().filter(|flight| !matches!(flight.state, State::GivenUp)) {
                self.control.dropped.add_as_only_writer(flight.messages as u64);
            }
        }
        self.control.dropped.add_as_only_writer(self.feed.drop_rest(until));
        if let Err(error) = self.after.finish() {
            self.error.get_or_insert(PumpError::Sink(error));
        }
    }

    fn report(self, elapsed: Duration) -> Report {
        // What is still in flight comes back or is quarantined now.
        drop((self.flights, self.stream));
        self.feed.settle(self.control.delivered.value() + self.control.dropped.value());
        let progress = self.control.progress(&self.gauge);
        let (batch_messages_p50, batch_messages_max) = self.measure.batch_messages();
        Report {
            elapsed,
            batches: self.measure.batch_count(),
            batch_messages_p50,
            batch_messages_max,
            filtered: self.measure.filtered(),
            mapped_batches: self.measure.mapped_batches(),
            failed_copies: self.control.failed_copies.value(),
            latency: self.measure.latency(),
            error: self.error,
            ..Report::of(&progress, &self.gauge)
        }
    }
}
