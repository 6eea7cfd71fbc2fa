//! The queue on the device that a pump gives messages to.

use std::ops::Range;

use super::PumpError;
use super::errand::{Errand, Look};
use super::link::Link;
use super::pace::Pace;
use crate::device::{Completion, Device, DeviceError, Fill, Landing, QueueLayout};

/// The queue on the device that a pump gives messages to: batches land in its slots, then the tail passes them.
///
/// ```text
///        head              tail           ended             next
///         v                 v              v                 v
///  ..free | for the kernel  | (the same,   | batches in      | free..
///         |                 |  mostly)     | flight          |
/// ```
#[derive(Debug)]
pub(super) struct Inbound {
    layout: QueueLayout,
    /// Where it begins.
    at: usize,
    /// What the kernel has taken, when it was last looked at.
    head: u32,
    /// How far the tail is on the device.
    tail: u32,
    /// How far it was last told to be.
    sent: u32,
    /// Behind the last batch that has come to its end.
    ended: u32,
    /// Where the next batch goes.
    next: u32,
    tail_fill: Errand,
    look: Look,
    pace: Pace,
    /// The slots whose marks say, or may say, that there is no message.
    skipped: Box<[bool]>,
    skipped_count: usize,
}

impl Inbound {
    pub(super) fn new(device: &dyn Device, layout: QueueLayout, start: u32) -> Result<Self, DeviceError> {
        let (at, head) = (0, QueueLayout::HEAD_AT);
        Ok(Self {
            layout,
            at,
            head: start,
            tail: start,
            sent: start,
            ended: start,
            next: start,
            tail_fill: Errand::new("moving the tail of the inbound queue"),
            look: Look::new(
                "reading the head of the inbound queue",
                Landing::new(device, 4)?,
                head..head + 4,
            ),
            pace: Pace::default(),
            skipped: vec![false; layout.capacity() as usize].into(),
            skipped_count: 0,
        })
    }

    pub(super) fn capacity(&self) -> usize {
        self.layout.capacity() as usize
    }

    /// How many messages of at most so many have room up to the wrap, and where that is. If there is none, it is looked,
    /// now and then, whether some has come.
    pub(super) fn room(&mut self, messages: usize) -> (usize, usize) {
        let free = self.layout.capacity() - self.next.wrapping_sub(self.head);
        if free == 0 && !self.look.is_pending() && self.pace.is_due() {
            self.look.want();
        }
        let [slots, _] = self.layout.slots(self.next, 1);
        let room = free.min(self.layout.until_wrap(self.next)) as usize;
        (room.min(messages), self.at + slots.start)
    }

    #[expect(clippy::cast_possible_truncation, reason = "no more than there was room for")]
    pub(super) fn hand_out(&mut self, messages: usize) {
        self.next = self.next.wrapping_add(messages as u32);
    }

    /// Wants to know how far the head is from now on.
    pub(super) fn look_again(&mut self) {
        self.look.want();
    }

    /// Whether it is not yet known how far the head is.
    pub(super) fn is_looking(&self) -> bool {
        self.look.is_pending()
    }

    pub(super) fn head(&self) -> u32 {
        self.head
    }

    pub(super) fn tail(&self) -> u32 {
        self.tail
    }

    /// How many messages, or marked slots, are there for kernels to take.
    pub(super) fn untaken(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Moves the tail so that so many messages behind the last batch that has ended are passed.
    pub(super) fn pass(&mut self, link: &mut Link, messages: u32) {
        let to = self.ended.wrapping_add(messages);
        if to != self.tail && self.tail_fill.is_free(link) {
            let tail = self.at + QueueLayout::TAIL_AT;
            self.sent = to;
            self.tail_fill.fill(link, Fill { range: tail..tail + 4, word: to });
        }
    }

    /// Starts to look at the head, if that is wanted.
    pub(super) fn look(&mut self, link: &mut Link) {
        self.look.start(link);
    }

    /// Lets the oldest batch, of so many messages, end if the tail has passed it.
    #[expect(clippy::cast_possible_truncation, reason = "no more than were handed out")]
    pub(super) fn end(&mut self, messages: usize) -> bool {
        let messages = messages as u32;
        let has_passed = self.tail.wrapping_sub(self.ended) >= messages;
        if has_passed {
            self.ended = self.ended.wrapping_add(messages);
        }
        has_passed
    }

    /// What makes the marks of the slots of a batch say whether there are messages, unless they do.
    pub(super) fn marks(&self, device_range: &Range<usize>, arrived: bool) -> Option<Fill> {
        let slots = self.slots(device_range);
        if arrived && (self.skipped_count == 0 || !self.skipped[slots.clone()].contains(&true)) {
            return None;
        }
        let [first, _] = self.layout.marks(0, 1);
        let at = self.at + first.start;
        let word = if arrived { 0 } else { QueueLayout::SKIPPED };
        Some(Fill { range: at + slots.start * 4..at + slots.end * 4, word })
    }

    /// The marks of a batch say so now.
    pub(super) fn marked(&mut self, device_range: &Range<usize>, arrived: bool) {
        let slots = self.slots(device_range);
        let before = self.skipped[slots.clone()].iter().filter(|skipped| **skipped).count();
        self.skipped_count -= before;
        self.skipped_count += if arrived { 0 } else { slots.len() };
        self.skipped[slots].fill(!arrived);
    }

    fn slots(&self, device_range: &Range<usize>) -> Range<usize> {
        let [all, _] = self.layout.slots(0, self.layout.capacity());
        let slot = |offset: usize| (offset - self.at - all.start) / self.layout.message_size();
        slot(device_range.start)..slot(device_range.end)
    }

    /// Handles what is its own.
    pub(super) fn complete(&mut self, link: &mut Link, completion: Completion) -> Option<Completion> {
        let Completion { ticket, transfer, result } = completion;
        if self.tail_fill.has(ticket) {
            if self.tail_fill.ended(link, &result) {
                self.tail = self.sent;
            }
        } else if self.look.has(ticket) {
            if self.look.ended(link, transfer, &result) {
                self.seen(link);
            }
        } else {
            return Some(Completion { ticket, transfer, result });
        }
        None
    }

    fn seen(&mut self, link: &mut Link) {
        let head = self.look.word(self.at + QueueLayout::HEAD_AT);
        if head.wrapping_sub(self.head) > self.sent.wrapping_sub(self.head) {
            let (from, to) = (self.head, self.sent);
            return link.end(PumpError::QueueSpoilt { what: "inbound head", position: head, from, to });
        }
        if head == self.head {
            self.pace.slow_down();
        } else {
            self.pace.reset();
            self.head = head;
        }
    }
}
