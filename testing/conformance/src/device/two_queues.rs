//! Two queues in the memory of a stream, kept by hand, and what is wrong with what a kernel has done to them.

use std::collections::VecDeque;
use std::ops::Range;

use transload::device::{Device, Dispatch, Fill, Kernel, QueueLayout, Stream, Transfer, Upload};

use super::rig::{Rig, all_of, next};
use crate::queues::TURN;

/// Where the queue is that the kernel takes from: not where the memory begins.
const INBOUND_AT: usize = 256;

/// How the queues are at first.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Bytes in a message.
    pub message_size: usize,
    /// Slots of the queue that the kernel takes from, and of the one that it gives to.
    pub slots: [usize; 2],
    /// The position that both begin with.
    pub position: u32,
    /// Messages in the first.
    pub messages: u32,
    /// Whether every third of them is marked, to be stepped over.
    pub marked: bool,
    /// Messages that are in the second already.
    pub waiting: u32,
}

impl Start {
    /// Four messages of 8 bytes, in queues of eight.
    pub fn small() -> Self {
        Self { message_size: 8, slots: [8, 8], position: 0, messages: 4, marked: false, waiting: 0 }
    }

    fn layouts(self) -> [QueueLayout; 2] {
        self.slots.map(|slots| QueueLayout::new(slots, self.message_size).unwrap())
    }

    /// Bytes of the memory that holds both, and some behind them.
    pub fn queue_bytes(self) -> usize {
        let [inbound, outbound] = self.layouts();
        INBOUND_AT + inbound.stride_bytes() + outbound.stride_bytes() + 100
    }

    /// Makes both, and puts the messages in. Nothing else is in flight.
    pub fn make(self, device: &dyn Device, stream: &mut dyn Stream) -> TwoQueues {
        let mut queues = self.make_empty(device, stream);
        if self.waiting > 0 {
            queues.rig.send(self.waiting as usize);
            let in_flight = queues.submit(stream, queues.outbound, self.waiting);
            (0..in_flight).for_each(|_| next(stream).result.unwrap());
            queues.outbound.tail = self.position.wrapping_add(self.waiting);
        }
        if self.messages > 0 {
            let in_flight = queues.send(stream, self.messages, self.marked);
            (0..in_flight).for_each(|_| next(stream).result.unwrap());
        }
        queues
    }

    /// Makes both, without messages.
    pub fn make_empty(self, device: &dyn Device, stream: &mut dyn Stream) -> TwoQueues {
        let [inbound, outbound] = self.layouts();
        let at = INBOUND_AT + inbound.stride_bytes();
        let queue = |at, layout| Queue { at, layout, head: self.position, tail: self.position };
        let (inbound, outbound) = (queue(INBOUND_AT, inbound), queue(at, outbound));
        for queue in [inbound, outbound] {
            queue.layout.make(stream, queue.at).unwrap();
            for word in [QueueLayout::HEAD_AT, QueueLayout::TAIL_AT] {
                stream.fill(queue.fill(word, self.position)).unwrap();
                next(stream).result.unwrap();
            }
        }
        let most = self.slots[0].max(self.slots[1]).max(2);
        TwoQueues { rig: Rig::new(device, most, self.message_size), inbound, outbound, sent: VecDeque::new() }
    }
}

/// One of the queues.
#[derive(Clone, Copy, Debug)]
struct Queue {
    at: usize,
    layout: QueueLayout,
    head: u32,
    tail: u32,
}

impl Queue {
    fn fill(&self, word_at: usize, word: u32) -> Fill {
        Fill { range: self.word(word_at), word }
    }

    fn word(&self, word_at: usize) -> Range<usize> {
        self.at + word_at..self.at + word_at + 4
    }

    /// Where something of so many positions is that begin at the tail: slots, or their marks.
    fn behind_tail(
        &self,
        what: fn(QueueLayout, u32, u32) -> [Range<usize>; 2],
        count: u32,
    ) -> [Range<usize>; 2] {
        what(self.layout, self.tail, count).map(|part| self.at + part.start..self.at + part.end)
    }
}

/// Two queues, and what must be in them.
#[derive(Debug)]
pub struct TwoQueues {
    rig: Rig,
    inbound: Queue,
    outbound: Queue,
    /// What was sent and not yet taken; nothing for a slot that is marked.
    sent: VecDeque<Option<Vec<u8>>>,
}

impl TwoQueues {
    /// Sends messages to the kernel. Gives how many transfers are in flight for that; nothing else is, if some are marked.
    pub fn send(&mut self, stream: &mut dyn Stream, messages: u32, marked: bool) -> usize {
        let bytes = self.rig.send(messages as usize);
        let inbound = self.inbound;
        for (nth, message) in (0..messages).zip(bytes.chunks_exact(inbound.layout.message_size())) {
            let is_marked = marked && nth % 3 == 2;
            if is_marked {
                let [mark, _] = inbound.layout.marks(inbound.tail.wrapping_add(nth), 1);
                stream.fill(inbound.fill(mark.start, QueueLayout::SKIPPED)).unwrap();
                next(stream).result.unwrap();
            }
            self.sent.push_back((!is_marked).then(|| message.to_vec()));
        }
        self.inbound.tail = inbound.tail.wrapping_add(messages);
        self.submit(stream, inbound, messages)
    }

    /// Starts to bring what is in the ring into a queue, and its tail behind it.
    fn submit(&mut self, stream: &mut dyn Stream, queue: Queue, messages: u32) -> usize {
        let mut in_flight = 1;
        for part in
            queue.behind_tail(QueueLayout::slots, messages).into_iter().filter(|part| !part.is_empty())
        {
            let batch = self.rig.take(part.len() / queue.layout.message_size());
            stream.submit(Upload::new(&self.rig.region, batch, part.start)).unwrap();
            in_flight += 1;
        }
        stream.fill(queue.fill(QueueLayout::TAIL_AT, queue.tail.wrapping_add(messages))).unwrap();
        in_flight
    }

    /// Writes what was sent, and not taken, into an image of the memory.
    pub fn note_sent(&self, image: &mut [u8]) {
        let inbound = self.inbound;
        image[inbound.word(QueueLayout::TAIL_AT)].copy_from_slice(&inbound.tail.to_le_bytes());
        for (nth, message) in (0..).zip(&self.sent) {
            let [slot, _] = inbound.layout.slots(inbound.head.wrapping_add(nth), 1);
            if let Some(message) = message {
                image[inbound.at + slot.start..inbound.at + slot.end].copy_from_slice(message);
            }
        }
    }

    /// So many work items over these queues.
    pub fn dispatch(&self, work_items: u32) -> Dispatch {
        Dispatch { work_items, inbound: self.inbound.at, outbound: self.outbound.at }
    }

    /// Whether all that was sent was taken.
    pub fn is_taken(&self) -> bool {
        self.sent.iter().all(Option::is_none)
    }

    /// Takes all that was given.
    pub fn empty_outbound(&mut self, stream: &mut dyn Stream) {
        self.outbound.head = self.outbound.tail;
        stream.fill(self.outbound.fill(QueueLayout::HEAD_AT, self.outbound.head)).unwrap();
        next(stream).result.unwrap();
    }

    /// Runs a kernel, and says what is wrong with what it has done. Nothing else is in flight.
    pub fn run(
        &mut self,
        device: &dyn Device,
        stream: &mut dyn Stream,
        kernel: &Kernel,
        work_items: u32,
    ) -> Vec<&'static str> {
        let before = all_of(device, stream);
        let dispatch = self.dispatch(work_items);
        let ticket = stream.dispatch(kernel, dispatch).unwrap();
        let done = next(stream);
        assert_eq!((done.ticket, done.result), (ticket, Ok(())));
        assert!(matches!(done.transfer, Transfer::Dispatch(back) if back == dispatch));
        self.findings(&before, &all_of(device, stream), work_items)
    }

    /// What is wrong with what so many work items at least have made of the memory: nothing, for `echo`.
    pub fn findings(&mut self, before: &[u8], after: &[u8], work_items: u32) -> Vec<&'static str> {
        let (inbound, outbound) = (self.inbound, self.outbound);
        let word = |bytes: &[u8], range: Range<usize>| u32::from_le_bytes(bytes[range].try_into().unwrap());
        let head = word(after, inbound.word(QueueLayout::HEAD_AT));
        let tail = word(after, outbound.word(QueueLayout::TAIL_AT));
        let taken = head.wrapping_sub(inbound.head) as usize;
        let given = tail.wrapping_sub(outbound.tail);
        let room = outbound.layout.capacity() - outbound.tail.wrapping_sub(outbound.head);
        if taken > self.sent.len() {
            return vec!["more was taken than there was"];
        }
        if given > room {
            return vec!["more was given than there was room for"];
        }
        let mut findings = Vec::new();
        let marks = outbound.behind_tail(QueueLayout::marks, given);
        let slots = outbound.behind_tail(QueueLayout::slots, given);
        let bytes = |parts: &[Range<usize>; 2]| parts.clone().map(|part| &after[part]).concat();
        let is_kept: Vec<bool> =
            bytes(&marks).as_chunks::<4>().0.iter().map(|mark| *mark == [0; 4]).collect();
        let given_bytes = bytes(&slots);
        let messages = given_bytes.chunks_exact(outbound.layout.message_size());
        let turned = |message: &[u8]| message.iter().map(|byte| byte ^ TURN).collect::<Vec<u8>>();
        let mut came: Vec<_> = messages
            .zip(&is_kept)
            .filter(|(_, is_kept)| **is_kept)
            .map(|(message, _)| turned(message))
            .collect();
        let there = self.sent.iter().flatten().count();
        let least = there.min(work_items as usize).min(room as usize);
        let mut expected: Vec<_> = self.sent.drain(..taken).flatten().collect();
        if expected.len() < least {
            findings.push("messages were left that there was room for");
        }
        // Work items are side by side: what they give comes in any order.
        came.sort_unstable();
        expected.sort_unstable();
        if came != expected {
            findings.push("what was given is not what was taken");
        }
        let skipped = outbound.word(QueueLayout::SKIPPED_AT);
        let counted = word(after, skipped.clone()).wrapping_sub(word(before, skipped.clone())) as usize;
        if counted != is_kept.len() - came.len() {
            findings.push("slots without a message are counted wrongly");
        }
        let ends = [inbound.word(QueueLayout::HEAD_AT), outbound.word(QueueLayout::TAIL_AT), skipped];
        let mut rest = before.to_vec();
        for part in ends.into_iter().chain(marks).chain(slots) {
            rest[part.clone()].copy_from_slice(&after[part]);
        }
        if rest != after {
            findings.push("something else was written");
        }
        (self.inbound.head, self.outbound.tail) = (head, tail);
        findings
    }
}

#[cfg(test)]
mod tests {
    use transload::device::StreamOptions;

    use super::*;
    use crate::device::example::Example;
    use crate::host;

    /// What a kernel of the host cannot do wrong, and one on a device can.
    #[test]
    fn each_word_that_is_wrong_is_found() {
        let device = (host::subject().open)().unwrap();
        let kernel = device.build(&(host::subject().kernel)(Example::Echo)).unwrap();
        let start = Start { position: u32::MAX - 1, waiting: 2, ..Start::small() };
        let outbound = INBOUND_AT + start.layouts()[0].stride_bytes();
        let wrong = [
            (None, vec![]),
            (Some((INBOUND_AT + QueueLayout::HEAD_AT, 9)), vec!["more was taken than there was"]),
            (Some((outbound + QueueLayout::TAIL_AT, 9)), vec!["more was given than there was room for"]),
            (
                Some((outbound + QueueLayout::SKIPPED_AT, 1)),
                vec!["slots without a message are counted wrongly"],
            ),
            // A mark of a message that was given, and a slot of one that waited.
            (
                Some((outbound + 256, 1)),
                vec!["what was given is not what was taken", "slots without a message are counted wrongly"],
            ),
            (Some((outbound + 512 + 6 * 8, 1)), vec!["something else was written"]),
            (Some((0, 1)), vec!["something else was written"]),
        ];
        for (change, expected) in wrong {
            let options = StreamOptions { queue_bytes: start.queue_bytes(), in_flight: 8 };
            let mut stream = device.open_stream(&options).unwrap();
            let mut queues = start.make(&*device, &mut *stream);
            let before = all_of(&*device, &mut *stream);
            stream.dispatch(&kernel, queues.dispatch(4)).unwrap();
            next(&mut *stream).result.unwrap();
            let mut after = all_of(&*device, &mut *stream);
            if let Some((at, word)) = change {
                after[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
            }
            assert_eq!(queues.findings(&before, &after, 4), expected, "{change:?}");
        }
    }
}
