//! The queue on the device that a pump brings messages back from.

use std::collections::VecDeque;
use std::ops::Range;

use super::PumpError;
use super::errand::{Errand, Look};
use super::link::Link;
use super::pace::Pace;
use crate::device::{
    Completion, CopyError, Device, DeviceError, Download, Fill, Landing, QueueLayout, Ticket, Transfer,
};
use crate::region::Region;
use crate::staging::{EnqueueError, OwnedReservation, Producer};

/// The queue on the device that a pump brings messages back from: into slots of a staging ring, then the head passes them.
///
/// ```text
///        head            back              next                tail
///         v               v                 v                   v
///  ..free | (the same,    | on their way    | given by kernels, | free..
///         |  mostly)      | into the ring   | not yet fetched   |
/// ```
pub(super) struct Outbound {
    layout: QueueLayout,
    at: usize,
    producer: Producer,
    region: Region,
    most: Most,
    /// How far the head is on the device.
    head: u32,
    /// How far it was last told to be.
    sent: u32,
    /// Behind the last that has come back, with all before it.
    back: u32,
    /// The next to be fetched.
    next: u32,
    /// How far kernels have given, when it was last looked at.
    tail: u32,
    /// How many slots kernels had marked as skipped then.
    skipped: u32,
    runs: VecDeque<Run>,
    head_fill: Errand,
    look: Look,
    marks: Look,
    /// Up to where the marks were read: behind it, none are set.
    marked_to: u32,
    pace: Pace,
    /// The ring was full when it was last asked.
    is_held_up: bool,
    /// The ring takes nothing any more: what kernels give is dropped, and counted.
    is_closed: bool,
}

/// The most transfers at once, and messages in each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) runs: usize,
    pub(super) messages: usize,
}

/// Messages that are fetched together, or not at all.
#[derive(Debug)]
struct Run {
    slots: Range<usize>,
    messages: u32,
    failures: u32,
    state: Fetch,
}

#[derive(Debug)]
enum Fetch {
    Underway(Ticket),
    /// It failed, or could not yet be started.
    Again(Landing),
    /// It has come to its end.
    Over,
}

impl Outbound {
    pub(super) fn new(
        device: &dyn Device,
        (layout, at, start): (QueueLayout, usize, u32),
        (producer, region): (Producer, Region),
        most: Most,
    ) -> Result<Self, DeviceError> {
        let words = at + QueueLayout::TAIL_AT..at + QueueLayout::SKIPPED_AT + 4;
        let [marks, _] = layout.marks(0, layout.capacity());
        Ok(Self {
            layout,
            at,
            producer,
            region,
            most,
            head: start,
            sent: start,
            back: start,
            next: start,
            tail: start,
            skipped: 0,
            // One more, where the ring wraps; and one that is stepped over.
            runs: VecDeque::with_capacity(most.runs + 2),
            head_fill: Errand::new("moving the head of the outbound queue"),
            look: Look::new(
                "reading the tail of the outbound queue",
                Landing::new(device, words.len())?,
                words,
            ),
            marks: Look::new(
                "reading the marks of the outbound queue",
                Landing::new(device, marks.len())?,
                marks,
            ),
            marked_to: start,
            pace: Pace::default(),
            is_held_up: false,
            is_closed: false,
        })
    }

    /// Wants to know how far the tail is from now on.
    pub(super) fn look_again(&mut self) {
        self.look.want();
    }

    /// The same, if it is time: for queues that kernels fill of which the pump knows nothing.
    pub(super) fn look_now_and_then(&mut self) {
        if !self.look.is_pending() && self.pace.is_due() {
            self.look.want();
        }
    }

    /// Whether it is not yet known how far the tail is.
    pub(super) fn is_looking(&self) -> bool {
        self.look.is_pending()
    }

    /// Whether all that is known of has come back.
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.tail && self.runs.is_empty() && !self.look.is_pending() && !self.marks.is_pending()
    }

    pub(super) fn head(&self) -> u32 {
        self.head
    }

    /// How many messages kernels have given, marked slots not counted: from a number of its own on.
    pub(super) fn given(&self) -> u32 {
        self.tail.wrapping_sub(self.skipped)
    }

    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Whether what is on the device has to wait for room in the ring.
    pub(super) fn is_held_up(&self) -> bool {
        self.is_held_up
    }

    /// Whether whoever should get the messages has gone.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed || self.producer.is_closed()
    }

    /// Counts what was known of and has not come back. What is still on its way comes back, or is quarantined, with the
    /// stream; the consumer is not told of it.
    pub(super) fn end(self, link: &mut Link) {
        let underway = self.runs.iter().filter(|run| !matches!(run.state, Fetch::Over));
        let underway = underway.map(|run| u64::from(run.messages)).sum::<u64>();
        let waiting = 0..self.tail.wrapping_sub(self.next);
        let waiting =
            waiting.filter(|step| self.marks.is_pending() || !self.is_skipped(self.next.wrapping_add(*step)));
        link.control.unreturned.add_as_only_writer(underway + waiting.count() as u64);
    }

    /// Starts what can be started. Says whether any messages were.
    pub(super) fn advance(&mut self, link: &mut Link) -> bool {
        self.look.start(link);
        self.marks.start(link);
        let mut changed = false;
        for nth in 0..self.runs.len() {
            changed |= self.restart(link, nth);
        }
        self.is_held_up = false;
        while self.next != self.tail
            && self.runs.len() < self.most.runs
            && !self.marks.is_pending()
            && link.is_free()
            && self.fetch_next(link)
        {
            changed = true;
        }
        while self.runs.front().is_some_and(|run| matches!(run.state, Fetch::Over)) {
            let messages = self.runs.pop_front().map_or(0, |run| run.messages);
            self.back = self.back.wrapping_add(messages);
        }
        if self.back != self.head && self.head_fill.is_free(link) {
            let head = self.at + QueueLayout::HEAD_AT;
            self.sent = self.back;
            self.head_fill.fill(link, Fill { range: head..head + 4, word: self.back });
        }
        changed
    }

    /// Starts to fetch the next messages, or steps over slots that have none. Says whether it did.
    fn fetch_next(&mut self, link: &mut Link) -> bool {
        let left = self.tail.wrapping_sub(self.next).min(self.layout.until_wrap(self.next));
        let is_skipped = self.is_skipped(self.next);
        let alike = (1..left).take_while(|step| self.is_skipped(self.next.wrapping_add(*step)) == is_skipped);
        // Without marks, all are alike.
        let run = if self.has_marks() { 1 + alike.count() } else { left as usize };
        if is_skipped {
            self.step_over(run);
            return true;
        }
        match self.producer.try_reserve_owned(run.min(self.most.messages)) {
            Ok((slots, behind_wrap)) => {
                self.fetch(link, slots);
                if let Some(slots) = behind_wrap {
                    self.fetch(link, slots);
                }
                true
            }
            Err(EnqueueError::Closed) => {
                self.is_closed = true;
                link.control.unreturned.add_as_only_writer(run as u64);
                self.step_over(run);
                true
            }
            Err(_) => {
                self.is_held_up = true;
                false
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "no more than the queue has")]
    fn run(&mut self, messages: usize, state: Fetch) -> Run {
        let messages = messages as u32;
        let [slots, _] = self.layout.slots(self.next, messages);
        self.next = self.next.wrapping_add(messages);
        Run { slots: self.at + slots.start..self.at + slots.end, messages, failures: 0, state }
    }

    fn step_over(&mut self, slots: usize) {
        let run = self.run(slots, Fetch::Over);
        self.runs.push_back(run);
    }

    fn fetch(&mut self, link: &mut Link, slots: OwnedReservation) {
        let messages = slots.len();
        match Landing::over(&self.region, slots) {
            Ok(landing) => {
                let run = self.run(messages, Fetch::Again(landing));
                self.runs.push_back(run);
                self.restart(link, self.runs.len() - 1);
            }
            Err(error) => link.end(error),
        }
    }

    /// Starts a transfer that is to be started.
    fn restart(&mut self, link: &mut Link, nth: usize) -> bool {
        let run = &mut self.runs[nth];
        if !matches!(run.state, Fetch::Again(_)) || !link.is_free() {
            return false;
        }
        let Fetch::Again(landing) = std::mem::replace(&mut run.state, Fetch::Over) else { return false };
        match link.stream.fetch(Download::new(run.slots.clone(), landing)) {
            Ok(ticket) => run.state = Fetch::Underway(ticket),
            Err(refused) => {
                let is_final = !matches!(refused.error, DeviceError::Driver { .. });
                run.failed(link, refused.transfer.into_landing());
                if is_final {
                    link.end(refused.error);
                }
            }
        }
        true
    }

    /// Handles what is its own.
    pub(super) fn complete(&mut self, link: &mut Link, completion: Completion) -> Option<Completion> {
        let Completion { ticket, transfer, result } = completion;
        if self.head_fill.has(ticket) {
            if self.head_fill.ended(link, &result) {
                self.head = self.sent;
            }
        } else if self.look.has(ticket) {
            if self.look.ended(link, transfer, &result) {
                self.seen(link);
            }
        } else if self.marks.has(ticket) {
            self.marks.ended(link, transfer, &result);
        } else if let Some(run) = self.runs.iter_mut().find(|run| run.has(ticket)) {
            run.ended(link, transfer, &result);
        } else {
            return Some(Completion { ticket, transfer, result });
        }
        None
    }

    /// Takes note of how far kernels have given.
    fn seen(&mut self, link: &mut Link) {
        let tail = self.look.word(self.at + QueueLayout::TAIL_AT);
        let (from, to) = (self.tail, self.back.wrapping_add(self.layout.capacity()));
        if tail.wrapping_sub(from) > to.wrapping_sub(from) {
            return link.end(PumpError::QueueSpoilt { what: "outbound tail", position: tail, from, to });
        }
        if tail == from {
            return self.pace.slow_down();
        }
        self.pace.reset();
        self.tail = tail;
        let skipped = self.look.word(self.at + QueueLayout::SKIPPED_AT);
        if skipped != self.skipped {
            self.skipped = skipped;
            self.marked_to = tail;
            let count = tail.wrapping_sub(self.next);
            // All of them where they wrap: one transfer is less than two.
            let range = match self.layout.marks(self.next, count) {
                [part, rest] if rest.is_empty() => part,
                _ => self.layout.marks(0, self.layout.capacity())[0].clone(),
            };
            self.marks.want_range(self.at + range.start..self.at + range.end);
        }
    }

    /// Whether the marks of what comes next were read, as some are set.
    fn has_marks(&self) -> bool {
        let ahead = self.marked_to.wrapping_sub(self.next);
        ahead != 0 && ahead <= self.layout.capacity()
    }

    fn is_skipped(&self, position: u32) -> bool {
        let ahead = self.marked_to.wrapping_sub(position);
        let [mark, _] = self.layout.marks(position, 1);
        ahead != 0 && ahead <= self.layout.capacity() && self.marks.word(self.at + mark.start) != 0
    }
}

impl Run {
    fn has(&self, ticket: Ticket) -> bool {
        matches!(self.state, Fetch::Underway(own) if own == ticket)
    }

    fn ended(&mut self, link: &mut Link, transfer: Transfer, result: &Result<(), CopyError>) {
        self.state = Fetch::Over;
        let Transfer::Download(download) = transfer else {
            // Lost with the device: the slots are quarantined.
            link.control.unreturned.add_as_only_writer(u64::from(self.messages));
            return;
        };
        let landing = download.into_landing();
        if result.is_err() {
            return self.failed(link, landing);
        }
        if let Some(slots) = landing.into_slots() {
            slots.commit();
            link.control.returned.add_as_only_writer(u64::from(self.messages));
        }
    }

    /// Is tried again, unless that was often enough: then its messages are given up, and so are the slots for them.
    fn failed(&mut self, link: &mut Link, landing: Landing) {
        if link.tries_again(&mut self.failures) {
            self.state = Fetch::Again(landing);
        } else {
            link.control.unreturned.add_as_only_writer(u64::from(self.messages));
            tracing::warn!(messages = self.messages, "messages on the device could not be brought back");
        }
    }
}
