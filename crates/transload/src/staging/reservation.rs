//! Slots that a producer owns and writes in place.

use std::fmt;
use std::ops::{Deref, DerefMut};

use transload_core::{Claim, Mark};

use super::ring::StagingRing;

/// From 1 to as many slots as were asked for, to be written in place and then committed.
///
/// What is not committed when it is dropped, by a panic too, is stepped over and counted: its bytes are never
/// delivered. The bytes are those of earlier messages until they are overwritten.
///
/// ```
/// # use transload::staging::PinnedStagingBuffer;
/// # let (producer, mut consumer) = PinnedStagingBuffer::new(4, 2)?.split();
/// let mut slots = producer.try_reserve_batch(3)?;
/// let (first, _second) = slots.as_mut_slices(); // the second is empty unless the slots wrap
/// first[..2].copy_from_slice(b"ab");
/// slots.commit_prefix(1);
/// drop(slots); // gives up the other two
/// assert_eq!(consumer.take(4)?.as_slices().0, b"ab");
/// assert!(consumer.take(4).is_err());
/// assert_eq!(consumer.statistics().skipped, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it gives the slots up"]
pub struct BatchReservation<'a> {
    ring: &'a StagingRing,
    /// What is not yet published.
    claim: Claim,
}

impl<'a> BatchReservation<'a> {
    pub(super) fn new(ring: &'a StagingRing, claim: Claim) -> Self {
        Self { ring, claim }
    }

    /// How many slots are still to be committed.
    pub fn len(&self) -> usize {
        self.claim.count()
    }

    /// Whether everything has been committed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of the slots that are still to be committed, in order. The second part is empty unless they wrap.
    pub fn as_mut_slices(&mut self) -> (&mut [u8], &mut [u8]) {
        let [first, second] = self.ring.pieces(self.claim.first(), self.claim.count());
        // SAFETY: the slots are ours alone until they are published, which takes the claim away (I1), are initialised
        // and stay there while the ring is borrowed (I2). Nobody else makes references to them (I3).
        let first = unsafe { std::slice::from_raw_parts_mut(self.ring.at(first.start), first.len()) };
        // SAFETY: as above; the two pieces are different slots.
        let second = unsafe { std::slice::from_raw_parts_mut(self.ring.at(second.start), second.len()) };
        (first, second)
    }

    /// Publishes the first `count` slots early, or all if there are fewer. The rest stays reserved.
    pub fn commit_prefix(&mut self, count: usize) {
        let prefix = self.claim.split_to(count);
        if prefix.count() > 0 {
            self.ring.publish(prefix, Mark::Written);
        }
    }

    /// Publishes all slots that are left.
    #[inline]
    pub fn commit(mut self) {
        self.commit_prefix(usize::MAX);
    }

    /// Never uses the slots again, because somebody, a kernel or a device, may still write there. The ring shrinks by
    /// them, its memory is never freed, and no other ring can be made over it.
    pub fn quarantine(mut self) {
        self.ring.keep_memory();
        self.ring.publish(self.claim.take(), Mark::Held);
    }
}

impl Drop for BatchReservation<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.claim.count() > 0 {
            self.ring.publish(self.claim.take(), Mark::Skipped);
        }
    }
}

impl fmt::Debug for BatchReservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchReservation").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// One slot, to be written in place and then committed; dereferences to its bytes.
///
/// Dropped instead, it is stepped over and counted.
#[derive(Debug)]
#[must_use = "dropping it gives the slot up"]
pub struct Reservation<'a> {
    slot: BatchReservation<'a>,
}

impl<'a> Reservation<'a> {
    pub(super) fn new(slot: BatchReservation<'a>) -> Self {
        Self { slot }
    }

    /// Publishes the slot.
    #[inline]
    pub fn commit(self) {
        self.slot.commit();
    }

    /// As [`BatchReservation::quarantine`].
    pub fn quarantine(self) {
        self.slot.quarantine();
    }
}

impl Deref for Reservation<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let [slot, _] = self.slot.ring.pieces(self.slot.claim.first(), 1);
        // SAFETY: the slot is ours alone until it is published, which consumes `self` (I1), is initialised and stays
        // there while the ring is borrowed (I2, I3).
        unsafe { std::slice::from_raw_parts(self.slot.ring.at(slot.start), slot.len()) }
    }
}

impl DerefMut for Reservation<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.slot.as_mut_slices().0
    }
}
