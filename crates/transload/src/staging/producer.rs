//! The end that messages go into.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event_listener::{Listener, listener};
use transload_core::Mark;

use super::error::EnqueueError;
use super::owned::OwnedReservation;
use super::reservation::{BatchReservation, Reservation};
use super::ring::{LONGEST_SLEEP, StagingRing};

/// How often a waiting producer tries again before it sleeps, giving its processor away in between.
const YIELDS: u32 = 16;

/// The end that messages go into: clone it for each thread, or share one.
///
/// When the last clone is dropped, the ring closes.
#[derive(Clone, Debug)]
pub struct Producer {
    ring: Arc<StagingRing>,
    /// Closes the ring with the last clone. Beside the ring rather than around it, so that a message goes through one
    /// pointer.
    _closes: Arc<CloseOnDrop>,
}

#[derive(Debug)]
struct CloseOnDrop(Arc<StagingRing>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Counts a producer as sleeping, also if its future is dropped.
struct Announced<'a>(&'a StagingRing);

impl<'a> Announced<'a> {
    fn new(ring: &'a StagingRing) -> Self {
        ring.ring.announce_producer();
        Self(ring)
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.0.ring.withdraw_producer();
    }
}

impl Producer {
    pub(super) fn new(ring: Arc<StagingRing>) -> Self {
        Self { _closes: Arc::new(CloseOnDrop(ring.clone())), ring }
    }

    /// Copies one message in.
    ///
    /// # Errors
    ///
    /// [`EnqueueError`], each of its reasons; nothing was accepted then.
    #[inline]
    pub fn try_enqueue(&self, message: &[u8]) -> Result<(), EnqueueError> {
        self.check_size(message)?;
        let claim = self.ring.ring.claim(1)?;
        let [slot, _] = self.ring.pieces(claim.first(), 1);
        // SAFETY: the slot is ours alone from the claim to the publish (I1), and as long as the message, whose length
        // was checked. No reference to it exists (I3), so the message does not overlap it.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), self.ring.at(slot.start), message.len()) };
        self.ring.publish(claim, Mark::Written);
        Ok(())
    }

    /// Copies in as many of the messages that follow each other in `messages` as there is room for, and says how
    /// many: 0 only if there were none.
    ///
    /// # Errors
    ///
    /// [`EnqueueError`]; nothing was accepted then. `WrongSize` if `messages` is no whole number of messages.
    pub fn try_enqueue_batch(&self, messages: &[u8]) -> Result<usize, EnqueueError> {
        let size = self.ring.message_size();
        if !messages.len().is_multiple_of(size) {
            return Err(EnqueueError::WrongSize { expected: size, actual: messages.len() });
        }
        if messages.is_empty() {
            return Ok(0);
        }
        let claim = self.ring.ring.claim(messages.len() / size)?;
        let count = claim.count();
        let mut rest = messages;
        for piece in self.ring.pieces(claim.first(), count) {
            let (now, later) = rest.split_at(piece.len());
            // SAFETY: as in `try_enqueue`: the slots are ours alone (I1), `now` is as long as the piece.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), self.ring.at(piece.start), now.len()) };
            rest = later;
        }
        self.ring.publish(claim, Mark::Written);
        Ok(count)
    }

    /// Reserves one slot, to be written in place.
    ///
    /// The consumer waits for it: commit or drop it soon, and never wait while holding it.
    ///
    /// # Errors
    ///
    /// [`EnqueueError::Full`] or [`EnqueueError::Closed`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use transload::staging::PinnedStagingBuffer;
    /// # let (producer, consumer) = PinnedStagingBuffer::new(16, 8)?.split();
    /// let mut slot = producer.try_reserve()?;
    /// slot.copy_from_slice(b"in place");
    /// slot.commit();
    /// assert_eq!(consumer.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_reserve(&self) -> Result<Reservation<'_>, EnqueueError> {
        let claim = self.ring.ring.claim(1)?;
        Ok(Reservation::new(BatchReservation::new(&self.ring, claim)))
    }

    /// Reserves from 1 to `max` slots that follow each other (`max` of zero counts as one).
    ///
    /// # Errors
    ///
    /// [`EnqueueError::Full`] or [`EnqueueError::Closed`].
    #[inline]
    pub fn try_reserve_batch(&self, max: usize) -> Result<BatchReservation<'_>, EnqueueError> {
        let claim = self.ring.ring.claim(max)?;
        Ok(BatchReservation::new(&self.ring, claim))
    }

    /// Reserves from 1 to `max` slots that follow each other, for an owner that outlives the call. If they wrap, those
    /// behind the wrap are apart.
    ///
    /// # Errors
    ///
    /// [`EnqueueError::Full`] or [`EnqueueError::Closed`].
    pub fn try_reserve_owned(
        &self,
        max: usize,
    ) -> Result<(OwnedReservation, Option<OwnedReservation>), EnqueueError> {
        Ok(OwnedReservation::pieces(&self.ring, self.ring.ring.claim(max)?))
    }

    /// Copies one message in, waiting for room as long as it takes.
    ///
    /// # Errors
    ///
    /// [`EnqueueError::Closed`] or [`EnqueueError::WrongSize`].
    pub fn enqueue(&self, message: &[u8]) -> Result<(), EnqueueError> {
        self.check_size(message)?;
        self.wait_for_room(None, || self.try_enqueue(message))
    }

    /// Copies one message in, waiting for room for at most so long.
    ///
    /// # Errors
    ///
    /// [`EnqueueError::Full`] when the time is up, [`EnqueueError::Closed`], [`EnqueueError::WrongSize`].
    pub fn enqueue_timeout(&self, message: &[u8], timeout: Duration) -> Result<(), EnqueueError> {
        self.check_size(message)?;
        self.wait_for_room(Instant::now().checked_add(timeout), || self.try_enqueue(message))
    }

    /// Reserves from 1 to `max` slots, waiting for the first for at most so long.
    ///
    /// # Errors
    ///
    /// [`EnqueueError::Full`] when the time is up, [`EnqueueError::Closed`].
    pub fn reserve_batch_timeout(
        &self,
        max: usize,
        timeout: Duration,
    ) -> Result<BatchReservation<'_>, EnqueueError> {
        self.wait_for_room(Instant::now().checked_add(timeout), || self.try_reserve_batch(max))
    }

    /// Copies one message in, as a future that waits for room.
    ///
    /// # Errors
    ///
    /// [`EnqueueError::Closed`] or [`EnqueueError::WrongSize`].
    ///
    /// # Cancellation
    ///
    /// Dropping the future before it is ready leaves the message out; a wake-up that it had got goes to the next.
    pub async fn enqueue_async(&self, message: &[u8]) -> Result<(), EnqueueError> {
        loop {
            match self.try_enqueue(message) {
                Err(EnqueueError::Full) => {}
                done => return done,
            }
            let woken = self.ring.room.listen();
            let announced = Announced::new(&self.ring);
            match self.try_enqueue(message) {
                Err(EnqueueError::Full) => woken.await,
                done => return done,
            }
            drop(announced);
        }
    }

    #[inline]
    fn check_size(&self, message: &[u8]) -> Result<(), EnqueueError> {
        let expected = self.ring.message_size();
        if message.len() == expected {
            Ok(())
        } else {
            Err(EnqueueError::WrongSize { expected, actual: message.len() })
        }
    }

    /// Tries until there is room; without a deadline for ever.
    fn wait_for_room<T>(
        &self,
        deadline: Option<Instant>,
        attempt: impl Fn() -> Result<T, EnqueueError>,
    ) -> Result<T, EnqueueError> {
        for _ in 0..YIELDS {
            match attempt() {
                Err(EnqueueError::Full) => std::thread::yield_now(),
                done => return done,
            }
        }
        loop {
            listener!(self.ring.room => woken);
            let announced = Announced::new(&self.ring);
            match attempt() {
                Err(EnqueueError::Full) => {}
                done => return done,
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(EnqueueError::Full);
            }
            let wake_at = now + LONGEST_SLEEP;
            woken.wait_deadline(deadline.map_or(wake_at, |deadline| deadline.min(wake_at)));
            drop(announced);
        }
    }
}

impl Deref for Producer {
    type Target = StagingRing;

    fn deref(&self) -> &StagingRing {
        &self.ring
    }
}
