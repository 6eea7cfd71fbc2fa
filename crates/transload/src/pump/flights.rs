//! The batches between the ring and the end of their stay on the device.

use std::collections::VecDeque;
use std::fmt::Display;

use super::after::After;
use super::flight::{Flight, State};
use super::link::Link;
use super::measure::Measure;
use super::queue::QueueSpace;
use super::sink::LandedCallback;
use super::{Landed, PumpError};
use crate::device::{
    Completion, CopyError, DeviceError, Download, Fill, Landing, Launch, Payload, Transfer, Upload,
};
use crate::region::Region;

/// The batches that have a place on the device, oldest first: each ends behind those before it.
pub(super) struct Flights {
    list: VecDeque<Flight>,
    space: QueueSpace,
    region: Region,
    message_size: usize,
    /// Whether messages are kept in the ring until they are delivered.
    keeps: bool,
    pub(super) after: After,
    pub(super) on_landed: Option<LandedCallback>,
    pub(super) measure: Measure,
}

impl Flights {
    pub(super) fn new(
        region: Region,
        (message_size, keeps): (usize, bool),
        (queue_bytes, most): (usize, usize),
        after: After,
    ) -> Self {
        Self {
            list: VecDeque::with_capacity(most),
            space: QueueSpace::new(queue_bytes),
            region,
            message_size,
            keeps,
            after,
            on_landed: None,
            measure: Measure::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many messages of at most so many a batch can have.
    pub(super) fn most_messages(&self, messages: usize) -> usize {
        match &self.after {
            After::Queue(inbound) => messages.min(inbound.capacity()),
            _ => messages,
        }
    }

    /// Whether the next batch has to wait for memory that its outputs go to.
    pub(super) fn has_no_output(&self) -> bool {
        matches!(&self.after, After::Kernel(through) if through.outputs.is_empty())
    }

    /// How many are on their way to the device.
    pub(super) fn underway(&self) -> usize {
        self.list.iter().filter(|flight| flight.is_underway()).count()
    }

    /// How many messages of at most so many have a place now, and where that is.
    pub(super) fn room(&mut self, messages: usize) -> (usize, usize) {
        if let Some(inbound) = self.after.queue() {
            return inbound.room(messages);
        }
        let oldest = self.list.front().map(|flight| &flight.device_range);
        let room = self.space.room(messages * self.message_size, oldest);
        (room.len() / self.message_size, room.start)
    }

    /// Sends a batch to the place that [`room`](Flights::room) has given.
    pub(super) fn submit(&mut self, link: &mut Link, payload: Payload, to: usize) {
        let (messages, first_position) = (payload.messages(), payload.first_position());
        let upload = Upload::new(&self.region, payload, to);
        let device_range = upload.device_range();
        self.measure.batch(messages);
        match &mut self.after {
            After::Queue(inbound) => inbound.hand_out(messages),
            _ => self.space.hand_out(&device_range),
        }
        let index = self.list.len();
        self.list.push_back(Flight {
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
            Some((output, prefix_bytes)) => {
                self.launch(link, index, Launch::new(upload, output, prefix_bytes));
            }
            None => self.upload(link, index, upload),
        }
    }

    /// Handles what is its own.
    pub(super) fn complete(&mut self, link: &mut Link, completion: Completion) -> Option<Completion> {
        let ticket = completion.ticket;
        let Some(index) = self.list.iter().position(|flight| flight.has(ticket)) else {
            return match self.after.queue() {
                Some(inbound) => inbound.complete(link, completion),
                None => Some(completion),
            };
        };
        let flight = &mut self.list[index];
        match (completion.transfer, completion.result) {
            (Transfer::Upload(upload), Ok(())) => {
                let payload = upload.into_payload();
                self.measure.ages(payload.sampled_ages());
                flight.failures = 0;
                flight.state = State::Landed;
                if self.keeps {
                    payload.take_back();
                    flight.kept = Some(payload);
                } else {
                    payload.done();
                }
            }
            (Transfer::Download(download), Ok(())) => flight.state = State::Fetched(download.into_landing()),
            (Transfer::Upload(upload), Err(error)) => {
                self.failed(link, index, error, State::UploadAgain(Box::new(upload)));
            }
            (Transfer::Download(download), Err(error)) => {
                self.failed(link, index, error, State::FetchAgain(download.into_landing()));
            }
            (Transfer::Launch(launch), Ok(())) => {
                launch.upload().payload().take_back();
                self.measure.ages(launch.upload().payload().sampled_ages());
                flight.state = State::Launched(launch);
            }
            (Transfer::Launch(launch), Err(error)) => {
                self.failed(link, index, error, State::LaunchAgain(Box::new(launch)));
            }
            // Marks, of which it is known what they are to say.
            (Transfer::Fill(_) | Transfer::Dispatch(_) | Transfer::Quarantined { .. }, result)
                if matches!(flight.state, State::Marking { .. }) =>
            {
                self.has_marked(link, index, result);
            }
            // Its messages are put back.
            (Transfer::Quarantined { .. }, _) if self.keeps => flight.state = State::GivenUp,
            (Transfer::Quarantined { .. }, _) => self.give_up(link, index, "the device is lost"),
            (Transfer::Fill(_) | Transfer::Dispatch(_), _) => debug_assert!(false, "nothing of a batch's"),
        }
        None
    }

    /// A transfer of a batch has failed: it is tried `again`, unless that was often enough.
    fn failed(&mut self, link: &mut Link, index: usize, reason: impl Display, again: State) {
        let flight = &mut self.list[index];
        if link.tries_again(&mut flight.failures) {
            flight.state = again;
            return;
        }
        self.after.let_go(again);
        self.give_up(link, index, reason);
    }

    fn give_up(&mut self, link: &mut Link, index: usize, reason: impl Display) {
        let flight = &mut self.list[index];
        flight.state = State::GivenUp;
        flight.failures = 0;
        if let Some(payload) = flight.kept.take() {
            payload.done();
        }
        link.control.dropped.add_as_only_writer(flight.messages as u64);
        tracing::warn!(messages = flight.messages, "a batch was given up: {reason}");
    }

    /// The device has refused to start a transfer. What its driver refuses once may pass later; anything else does not.
    fn refused(&mut self, link: &mut Link, index: usize, error: DeviceError, again: State) {
        if matches!(error, DeviceError::Driver { .. }) {
            return self.failed(link, index, error, again);
        }
        if self.keeps {
            // Nobody touches it, and the pump ends: it is put back.
            self.list[index].state = again;
        } else {
            self.give_up(link, index, &error);
        }
        link.end(error);
    }

    /// Tries again what has failed, starts what follows for batches that have landed, and lets go of those that have come
    /// to their ends. Says whether anything changed.
    pub(super) fn advance(&mut self, link: &mut Link) -> bool {
        let mut changed = false;
        for index in 0..self.list.len() {
            if !link.is_free() {
                break;
            }
            changed |= self.restart(link, index);
        }
        if let After::Queue(inbound) = &mut self.after {
            let ready = self.list.iter().take_while(|flight| matches!(flight.state, State::Marked { .. }));
            let ready = ready.map(|flight| flight.messages).sum::<usize>();
            inbound.pass(link, u32::try_from(ready).unwrap_or(0));
        }
        while link.error.is_none() && self.end_oldest(link) {
            changed = true;
        }
        changed
    }

    /// Starts the next transfer of a batch, if it needs one.
    fn restart(&mut self, link: &mut Link, index: usize) -> bool {
        let flight = &mut self.list[index];
        match std::mem::replace(&mut flight.state, State::GivenUp) {
            State::UploadAgain(upload) => self.upload(link, index, *upload),
            State::LaunchAgain(launch) => self.launch(link, index, *launch),
            State::FetchAgain(landing) => self.fetch(link, index, landing),
            State::MarkAgain { arrived } => self.mark(link, index, arrived),
            State::Landed if matches!(self.after, After::Queue(_)) => self.mark(link, index, true),
            State::GivenUp if matches!(self.after, After::Queue(_)) => self.mark(link, index, false),
            State::Landed => {
                // The last one is kept for the oldest batch: the others wait for it in the memory that they hold.
                let free = self.after.landings();
                let landing = free.filter(|free| index == 0 || free.len() > 1).and_then(Vec::pop);
                let Some(landing) = landing else {
                    flight.state = State::Landed;
                    return false;
                };
                self.fetch(link, index, landing);
            }
            other => {
                flight.state = other;
                return false;
            }
        }
        true
    }

    fn upload(&mut self, link: &mut Link, index: usize, upload: Upload) {
        match link.stream.submit(upload) {
            Ok(ticket) => self.list[index].state = State::Uploading(ticket),
            Err(refused) => {
                self.refused(link, index, refused.error, State::UploadAgain(Box::new(refused.transfer)));
            }
        }
    }

    fn launch(&mut self, link: &mut Link, index: usize, launch: Launch) {
        let Some(through) = self.after.kernel() else { return };
        match link.stream.launch(&through.kernel, launch) {
            Ok(ticket) => self.list[index].state = State::Launching(ticket),
            Err(refused) => {
                self.refused(link, index, refused.error, State::LaunchAgain(Box::new(refused.transfer)));
            }
        }
    }

    fn fetch(&mut self, link: &mut Link, index: usize, landing: Landing) {
        let flight = &mut self.list[index];
        match link.stream.fetch(Download::new(flight.device_range.clone(), landing)) {
            Ok(ticket) => flight.state = State::Fetching(ticket),
            Err(refused) => {
                let again = State::FetchAgain(refused.transfer.into_landing());
                self.refused(link, index, refused.error, again);
            }
        }
    }

    /// Makes the marks of a batch's slots say whether there are messages.
    fn mark(&mut self, link: &mut Link, index: usize, arrived: bool) {
        let Some(inbound) = self.after.queue() else { return };
        let flight = &mut self.list[index];
        match inbound.marks(&flight.device_range, arrived).map(|fill: Fill| link.stream.fill(fill)) {
            None => flight.state = State::Marked { arrived },
            Some(Ok(ticket)) => flight.state = State::Marking { ticket, arrived },
            Some(Err(refused)) => self.not_marked(link, index, arrived, refused.error),
        }
    }

    fn has_marked(&mut self, link: &mut Link, index: usize, result: Result<(), CopyError>) {
        let flight = &mut self.list[index];
        let State::Marking { arrived, .. } = flight.state else { return };
        match (result, self.after.queue()) {
            (Ok(()), Some(inbound)) => {
                inbound.marked(&flight.device_range, arrived);
                flight.state = State::Marked { arrived };
            }
            (Ok(()), None) => {}
            (Err(CopyError::Failed { reason }), _) => {
                let error = DeviceError::from(CopyError::Failed { reason });
                self.not_marked(link, index, arrived, error);
            }
            (Err(CopyError::Lost { .. }), _) => flight.state = State::MarkAgain { arrived },
        }
    }

    fn not_marked(&mut self, link: &mut Link, index: usize, arrived: bool, error: DeviceError) {
        let flight = &mut self.list[index];
        flight.state = State::MarkAgain { arrived };
        if !matches!(error, DeviceError::Driver { .. } | DeviceError::Copy(_)) {
            link.end(error);
        } else if !link.tries_again(&mut flight.failures) {
            link.end_without("marking the slots of a batch", error);
        }
    }

    /// Lets go of the oldest batch if it has come to its end.
    fn end_oldest(&mut self, link: &mut Link) -> bool {
        let Some(flight) = self.list.front() else { return false };
        let ended = match (&flight.state, &mut self.after) {
            (State::Marked { arrived }, After::Queue(inbound)) => {
                inbound.end(flight.messages).then_some(*arrived)
            }
            (_, After::Queue(_)) => None,
            (State::GivenUp, after) => {
                after.lost(flight.messages);
                Some(false)
            }
            (State::Landed, After::Nothing) => Some(true),
            (State::Launched(launch), After::Kernel(through)) => match through.receive(launch) {
                Ok(filtered) => {
                    self.measure.launched(launch.route(), filtered);
                    Some(true)
                }
                Err(error) => {
                    link.end(error);
                    None
                }
            },
            (State::Fetched(landing), After::ReadBack(read_back)) => {
                let bytes = flight.messages * self.message_size;
                let received = read_back.sink.receive(&landing.as_slice()[..bytes], self.message_size);
                received.map_err(|error| link.end(PumpError::Sink(error))).ok().map(|()| true)
            }
            _ => None,
        };
        let Some(delivered) = ended else { return false };
        let Some(Flight { state, kept, device_range, messages, first_position, .. }) = self.list.pop_front()
        else {
            return false;
        };
        if delivered {
            if let Some(on_landed) = &mut self.on_landed {
                let message_size = self.message_size;
                on_landed(&Landed { device_range, messages, message_size, first_position });
            }
            link.control.delivered.add_as_only_writer(messages as u64);
        }
        if let Some(payload) = kept {
            payload.done();
        }
        self.after.let_go(state);
        true
    }

    /// What was measured of them. All that is left goes.
    pub(super) fn into_measure(self) -> Measure {
        self.measure
    }

    /// How many messages are neither delivered nor counted as dropped.
    pub(super) fn left(&self) -> u64 {
        let left = self.list.iter().filter(|flight| !flight.is_given_up());
        left.map(|flight| flight.messages as u64).sum()
    }
}
