//! Slots that are written by somebody who outlives the call: a device.

use std::fmt;
use std::sync::Arc;

use transload_core::{Claim, Mark};

use super::ring::StagingRing;

/// Slots of a ring that lie behind each other in memory, owned by whoever is to write them, until they are committed.
///
/// It is what a [`BatchReservation`](super::BatchReservation) is, but it keeps the ring's memory by itself, so a transfer
/// can own it, and never wraps. Dropped, its slots are stepped over and counted. The consumer waits for it: a device that
/// does not come back holds up what was reserved behind it.
///
/// ```
/// # use transload::staging::PinnedStagingBuffer;
/// # let (producer, mut consumer) = PinnedStagingBuffer::new(4, 2)?.split();
/// let (mut slots, behind_wrap) = producer.try_reserve_owned(3)?;
/// assert!(slots.len() == 3 && behind_wrap.is_none());
/// slots.as_mut_slice().copy_from_slice(b"abcdef");
/// slots.commit();
/// assert_eq!(consumer.take(4)?.as_slices().0, b"abcdef");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it gives the slots up"]
pub struct OwnedReservation {
    ring: Arc<StagingRing>,
    /// What is not yet published: in one piece.
    claim: Claim,
}

impl OwnedReservation {
    /// What was claimed, cut where it wraps.
    pub(super) fn pieces(ring: &Arc<StagingRing>, mut claim: Claim) -> (Self, Option<Self>) {
        let [before_wrap, _] = ring.pieces(claim.first(), claim.count());
        let first = claim.split_to(before_wrap.len() / ring.message_size());
        let own = |claim: Claim| Self { ring: ring.clone(), claim };
        (own(first), (claim.count() > 0).then(|| own(claim)))
    }

    /// How many slots.
    pub fn len(&self) -> usize {
        self.claim.count()
    }

    /// Whether there are none: never, until they are committed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes they have together.
    pub fn len_bytes(&self) -> usize {
        self.len() * self.ring.message_size()
    }

    /// The ring.
    pub fn ring(&self) -> &StagingRing {
        &self.ring
    }

    /// The bytes: those of earlier messages, until they are overwritten.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the slots are ours alone until they are published, which takes them away (I1), are initialised, and
        // `ring` keeps them there (I2). Nobody else makes references to them (I3). They do not wrap.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len_bytes()) }
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above; `self` is borrowed for writing, so no other reference to them exists (I3).
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.len_bytes()) }
    }

    /// Where the bytes begin: valid for [`len_bytes`](OwnedReservation::len_bytes) while this exists.
    pub fn as_ptr(&self) -> *mut u8 {
        let [slots, _] = self.ring.pieces(self.claim.first(), self.claim.count());
        self.ring.at(slots.start)
    }

    /// Publishes all of them.
    pub fn commit(mut self) {
        self.ring.publish(self.claim.take(), Mark::Written);
    }

    /// As [`BatchReservation::quarantine`](super::BatchReservation::quarantine).
    pub fn quarantine(mut self) {
        self.ring.keep_memory();
        self.ring.publish(self.claim.take(), Mark::Held);
    }
}

impl Drop for OwnedReservation {
    fn drop(&mut self) {
        if self.claim.count() > 0 {
            self.ring.publish(self.claim.take(), Mark::Skipped);
        }
    }
}

impl fmt::Debug for OwnedReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedReservation").field("len", &self.len()).finish_non_exhaustive()
    }
}
