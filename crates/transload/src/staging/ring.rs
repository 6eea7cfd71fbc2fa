//! What the two ends of a ring share, and what either may ask.

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event_listener::Event;
use transload_core::{Claim, Counter, Mark, Padded, Ring, Word};

use super::latency::Stamps;
use super::statistics::{Stall, Statistics};
use crate::barrier::ProcessBarrier;
use crate::memory::{Slab, Tenancy};

/// No sleep is longer than this, so that a fault on the other side is a delay and not a hang.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// The ring of `transload-core` as it is used here.
pub(super) type CoreRing = Ring<Box<[Word]>, ProcessBarrier>;

/// What both ends of a staging ring share. [`PinnedStagingBuffer`](super::PinnedStagingBuffer),
/// [`Producer`](super::Producer) and [`Consumer`](super::Consumer) dereference to it.
pub struct StagingRing {
    pub(super) ring: CoreRing,
    base: Base,
    message_size: usize,
    stamps: Option<Stamps>,
    tenancy: Arc<Tenancy>,
    /// Where the consumer sleeps.
    pub(super) messages: Padded<Event>,
    /// Where producers sleep.
    pub(super) room: Padded<Event>,
    /// Written while others read what stands before.
    notes: Padded<Notes>,
}

/// The start of the slab.
struct Base(NonNull<u8>);

// SAFETY: an address. Who may access which bytes behind it is decided by the ring (I1), not by who holds this.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

/// What is counted and noted, seldom.
#[derive(Debug)]
struct Notes {
    wake_ups: Counter,
    stall: StallNote,
}

/// Where and since when the sleeping consumer waits for a claimed position; written by it alone.
#[derive(Debug)]
struct StallNote {
    epoch: Instant,
    /// One more than the position, or 0 for none.
    position: Counter,
    since_nanos: Counter,
}

impl StagingRing {
    pub(super) fn new(ring: CoreRing, message_size: usize, tenancy: Tenancy, sample_latency: bool) -> Self {
        let base = NonNull::new(tenancy.slab().as_ptr()).unwrap_or(NonNull::dangling());
        let stamps = sample_latency.then(|| Stamps::new(ring.slots()));
        let note = StallNote { epoch: Instant::now(), position: Counter::new(), since_nanos: Counter::new() };
        let shared = Self {
            ring,
            base: Base(base),
            message_size,
            stamps,
            tenancy: Arc::new(tenancy),
            messages: Padded(Event::new()),
            room: Padded(Event::new()),
            notes: Padded(Notes { wake_ups: Counter::new(), stall: note }),
        };
        // An event allocates when it is first listened to: do it now, so that no later call allocates.
        drop((shared.messages.listen(), shared.room.listen()));
        shared
    }

    /// How many messages fit. Less than at first if slots were quarantined.
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Bytes in a message.
    pub fn message_size(&self) -> usize {
        self.message_size
    }

    /// How many messages are there or being written, not yet taken. Exact when nobody is active, else a hint; always
    /// from 0 to the capacity at first. A reservation that was given up counts until the consumer steps over it.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether nothing is there. Exact when nobody is active, else a hint.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Whether there is no room: slots in open batches count as used. Exact when nobody is active, else a hint.
    pub fn is_full(&self) -> bool {
        self.ring.is_full()
    }

    /// How many slots there are from the next message to be taken to the wrap.
    pub fn until_wrap(&self) -> usize {
        self.ring.until_wrap()
    }

    /// Slots before this position have come back to the producers.
    pub(crate) fn freed_before(&self) -> u64 {
        self.ring.head()
    }

    /// The start of the whole memory, for devices that are given its address. Slot `i` begins `i * message_size`
    /// bytes behind it. Reading what producers may be writing is the caller's own risk; published messages are
    /// reached through a [`Batch`](super::Batch).
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.0.as_ptr()
    }

    /// How many bytes all slots have together.
    pub fn len_bytes(&self) -> usize {
        self.ring.slots() * self.message_size
    }

    /// The memory, to be registered with a device.
    pub fn slab(&self) -> &Slab {
        self.tenancy.slab()
    }

    /// Keeps the memory there for ever, and keeps other rings off it: somebody may access a slot of whom nobody will
    /// know when he is done.
    pub(super) fn keep_memory(&self) {
        let _never_dropped = std::mem::ManuallyDrop::new(Arc::clone(&self.tenancy));
    }

    /// Closes the ring, from either end: nothing more is accepted, and the consumer is told `Closed` when it has taken
    /// everything. Wakes all who wait.
    pub fn close(&self) {
        if self.ring.close() {
            self.messages.notify(usize::MAX);
            self.room.notify(usize::MAX);
        }
    }

    /// Whether the ring is closed. Accepted messages may still be there.
    pub fn is_closed(&self) -> bool {
        self.ring.is_closed()
    }

    /// What the ring has done so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            claimed: self.ring.tail(),
            delivered: self.ring.delivered(),
            cleared: self.ring.discarded(),
            skipped: self.ring.skipped(),
            quarantined: self.ring.held(),
            wake_ups: self.notes.wake_ups.value(),
            stalled: self.stalled(),
        }
    }

    fn stalled(&self) -> Option<Stall> {
        let position = self.notes.stall.position.value().checked_sub(1)?;
        // Only while the consumer still stands there.
        (position == self.ring.taken() && position < self.ring.tail()).then(|| Stall {
            position,
            since: self
                .notes
                .stall
                .epoch
                .elapsed()
                .saturating_sub(Duration::from_nanos(self.notes.stall.since_nanos.value())),
        })
    }

    /// Notes, before the consumer sleeps or gives up, whether it waits for a reservation rather than for a message.
    pub(crate) fn note_stall(&self) {
        let position = self.ring.taken();
        if position >= self.ring.tail() {
            self.notes.stall.position.set(0);
        } else if self.notes.stall.position.value() != position + 1 {
            let now = u64::try_from(self.notes.stall.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.notes.stall.since_nanos.set(now);
            self.notes.stall.position.set(position + 1);
        }
    }

    /// The bytes of `count` slots from a position on, as one or two ranges of offsets into the slab; the second is
    /// empty unless they wrap.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a slot number is below the number of slots")]
    pub(super) fn pieces(&self, first: u64, count: usize) -> [Range<usize>; 2] {
        let slots = self.ring.slots();
        let slot = (first & (slots as u64 - 1)) as usize;
        let before_wrap = count.min(slots - slot);
        let start = slot * self.message_size;
        [start..start + before_wrap * self.message_size, 0..(count - before_wrap) * self.message_size]
    }

    /// The address of an offset that [`pieces`](StagingRing::pieces) gave.
    #[inline]
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        self.base.0.as_ptr().wrapping_add(offset)
    }

    /// Publishes what a producer claimed, and wakes the consumer if it sleeps for it.
    #[inline]
    pub(super) fn publish(&self, claim: Claim, mark: Mark) {
        if let Some(stamps) = &self.stamps {
            stamps.stamp(claim.first(), claim.count() as u64);
        }
        if self.ring.publish(claim, mark) {
            self.wake_consumer();
        }
    }

    #[cold]
    fn wake_consumer(&self) {
        self.notes.wake_ups.add(1);
        // All, though there is one consumer: a future of its that was forgotten still stands in the list, and would
        // take a single notification for itself.
        self.messages.notify(usize::MAX);
    }

    /// Wakes so many sleeping producers, as the ring counted when it freed slots.
    #[inline]
    pub(super) fn wake_producers(&self, count: usize) {
        if count > 0 {
            self.wake_producers_cold(count);
        }
    }

    #[cold]
    fn wake_producers_cold(&self, count: usize) {
        self.notes.wake_ups.add(1);
        self.room.notify_additional(count);
    }

    /// The ages of the sampled messages in a range, if the ring samples latency.
    pub(super) fn ages(&self, first: u64, count: u64) -> impl Iterator<Item = Duration> {
        self.stamps.iter().flat_map(move |stamps| stamps.ages(first, count))
    }
}

impl fmt::Debug for StagingRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagingRing")
            .field("capacity", &self.capacity())
            .field("message_size", &self.message_size)
            .field("len", &self.len())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
