//! The queues that a kernel of the host takes from and gives to.

use std::fmt;
use std::iter::Chain;
use std::ops::{Deref, DerefMut, Range};
use std::slice::{ChunksExact, ChunksExactMut};

use crate::device::{Dispatch, QueueLayout};

/// Messages, or their marks, in the order of their positions.
type Run<'a> = Chain<ChunksExact<'a, u8>, ChunksExact<'a, u8>>;
/// The same, to be written.
type RunMut<'a> = Chain<ChunksExactMut<'a, u8>, ChunksExactMut<'a, u8>>;

/// The queues in device memory, as a kernel of the host sees them: where a kernel on a device calls the functions of
/// `transload_device.h`.
///
/// What it takes, and the places that it gives, are its own until the run of all work items is over: one run takes only
/// what was there when it began, and uses only the room that there was.
pub struct HostQueues<'a> {
    messages: Run<'a>,
    message_marks: Run<'a>,
    taken: u32,
    places: RunMut<'a>,
    place_marks: RunMut<'a>,
    given: u32,
    /// How many places there were.
    room: u32,
}

/// A slot of the outbound queue, to be written; dereferences to its bytes, which are those of an earlier message. It is
/// given in any case: if there is to be no message in it, [`skip`](Place::skip) says so.
pub struct Place<'a> {
    bytes: &'a mut [u8],
    mark: &'a mut [u8],
}

impl<'a> HostQueues<'a> {
    /// Takes the next message; nothing if there is none.
    pub fn take(&mut self) -> Option<&'a [u8]> {
        loop {
            let (message, mark) = (self.messages.next()?, self.message_marks.next()?);
            self.taken += 1;
            if mark == 0_u32.to_le_bytes() {
                return Some(message);
            }
        }
    }

    /// Gives a message, which is to be written into its place; nothing if there is no room.
    pub fn give(&mut self) -> Option<Place<'a>> {
        let (bytes, mark) = (self.places.next()?, self.place_marks.next()?);
        self.given += 1;
        mark.copy_from_slice(&0_u32.to_le_bytes());
        Some(Place { bytes, mark })
    }

    /// Whether there is room for a message. A kernel asks before it takes a message that it must not lose.
    pub fn has_room(&self) -> bool {
        self.given < self.room
    }
}

impl Place<'_> {
    /// Marks the slot: whoever takes from the queue steps over it.
    pub fn skip(self) {
        self.mark.copy_from_slice(&QueueLayout::SKIPPED.to_le_bytes());
    }
}

impl Deref for Place<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl DerefMut for Place<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

/// A queue as it stands in the device's memory.
#[derive(Clone, Copy)]
struct Queue {
    at: usize,
    layout: QueueLayout,
    head: u32,
    tail: u32,
}

impl Queue {
    /// Reads what stands there, and refuses what is no queue.
    fn open(memory: &[u8], at: usize) -> Result<Self, String> {
        let own = memory.get(at..).unwrap_or_default();
        if own.len() < QueueLayout::SKIPPED_AT + 4 {
            return Err(format!("there is no queue at offset {at}: the memory ends before"));
        }
        let words = [0, 1, 2, 3].map(|nth| word(own, nth * 4));
        let layout = QueueLayout::of_words(words).filter(|layout| layout.len_bytes() <= own.len());
        let layout =
            layout.ok_or_else(|| format!("there is no queue at offset {at}: it begins with {words:?}"))?;
        let (head, tail) = (word(own, QueueLayout::HEAD_AT), word(own, QueueLayout::TAIL_AT));
        if tail.wrapping_sub(head) > layout.capacity() {
            return Err(format!(
                "the queue at offset {at} says that {} of its {} slots are used",
                tail.wrapping_sub(head),
                layout.capacity()
            ));
        }
        Ok(Self { at, layout, head, tail })
    }

    fn used(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    fn range(&self) -> Range<usize> {
        self.at..self.at + self.layout.len_bytes()
    }
}

/// Runs a function as a kernel over the queues in the device's memory, once for each work item.
pub(super) fn run(
    memory: &mut [u8],
    dispatch: Dispatch,
    kernel: &dyn Fn(&mut HostQueues<'_>),
) -> Result<(), String> {
    let inbound = Queue::open(memory, dispatch.inbound)?;
    let outbound = Queue::open(memory, dispatch.outbound)?;
    let room = outbound.layout.capacity() - outbound.used();
    let work = |(messages, message_marks), (places, place_marks)| {
        let mut queues =
            HostQueues { messages, message_marks, taken: 0, places, place_marks, given: 0, room };
        (0..dispatch.work_items).for_each(|_| kernel(&mut queues));
        (queues.taken, queues.given)
    };
    let (taken, given) = if inbound.at == outbound.at {
        let parts = Parts::of(&mut memory[inbound.range()], &inbound)?;
        work((parts.messages, parts.message_marks), (parts.places, parts.place_marks))
    } else {
        let ranges = [inbound.range(), outbound.range()];
        let [from, to] = memory
            .get_disjoint_mut(ranges)
            .map_err(|_| format!("the queues at {} and {} overlap", inbound.at, outbound.at))?;
        let (from, to) = (Parts::of(from, &inbound)?, Parts::of(to, &outbound)?);
        work((from.messages, from.message_marks), (to.places, to.place_marks))
    };
    let marks = outbound.layout.marks(outbound.tail, given).map(|marks| {
        let marks = memory[outbound.at + marks.start..outbound.at + marks.end].chunks_exact(4);
        marks.filter(|mark| *mark != 0_u32.to_le_bytes()).count()
    });
    let skipped = u32::try_from(marks[0] + marks[1]).unwrap_or(u32::MAX);
    let own = &mut memory[inbound.at..];
    set_word(own, QueueLayout::HEAD_AT, inbound.head.wrapping_add(taken));
    let own = &mut memory[outbound.at..];
    set_word(own, QueueLayout::TAIL_AT, outbound.tail.wrapping_add(given));
    let before = word(own, QueueLayout::SKIPPED_AT);
    set_word(own, QueueLayout::SKIPPED_AT, before.wrapping_add(skipped));
    Ok(())
}

/// The slots of a queue that are free, with their marks, and those that are used.
struct Parts<'a> {
    places: RunMut<'a>,
    place_marks: RunMut<'a>,
    messages: Run<'a>,
    message_marks: Run<'a>,
}

impl<'a> Parts<'a> {
    fn of(memory: &'a mut [u8], queue: &Queue) -> Result<Self, String> {
        let Queue { layout, head, tail, .. } = *queue;
        let room = layout.capacity() - queue.used();
        let ([places, more_places], [free_marks, more_free_marks]) =
            (layout.slots(tail, room), layout.marks(tail, room));
        let ([messages, more_messages], [marks, more_marks]) =
            (layout.slots(head, queue.used()), layout.marks(head, queue.used()));
        let ranges =
            [places, more_places, free_marks, more_free_marks, messages, more_messages, marks, more_marks];
        let [places, more_places, free_marks, more_free_marks, messages, more_messages, marks, more_marks] =
            memory
                .get_disjoint_mut(ranges)
                .map_err(|_| format!("the queue at offset {} contradicts itself", queue.at))?;
        let size = layout.message_size();
        Ok(Self {
            places: places.chunks_exact_mut(size).chain(more_places.chunks_exact_mut(size)),
            place_marks: free_marks.chunks_exact_mut(4).chain(more_free_marks.chunks_exact_mut(4)),
            messages: messages.chunks_exact(size).chain(more_messages.chunks_exact(size)),
            message_marks: marks.chunks_exact(4).chain(more_marks.chunks_exact(4)),
        })
    }
}

fn word(memory: &[u8], at: usize) -> u32 {
    memory[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn set_word(memory: &mut [u8], at: usize, word: u32) {
    memory[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

impl fmt::Debug for HostQueues<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostQueues")
            .field("taken", &self.taken)
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}
