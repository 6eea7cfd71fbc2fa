//! The end that messages come out of.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event_listener::{Listener, listener};
use transload_core::Reader;

use super::batch::Batch;
use super::error::DequeueError;
use super::ring::{LONGEST_SLEEP, StagingRing};

/// How often a waiting consumer looks before it gives its processor away, and how often it does that before it sleeps.
const SPINS: u32 = 100;
const YIELDS: u32 = 16;

/// The end that messages come out of. There is one; it may move between threads.
///
/// When it is dropped, the ring closes, and producers are told so.
#[derive(Debug)]
pub struct Consumer {
    ring: Arc<StagingRing>,
    reader: Reader,
}

/// Tells producers that the consumer sleeps, and takes it back, also if a future is dropped.
struct Announced<'a>(&'a StagingRing);

impl<'a> Announced<'a> {
    fn new(ring: &'a StagingRing, reader: &Reader) -> Self {
        ring.note_stall();
        ring.ring.announce_consumer(reader);
        Self(ring)
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.0.ring.withdraw_consumer();
    }
}

impl Consumer {
    pub(super) fn new(ring: Arc<StagingRing>, reader: Reader) -> Self {
        Self { ring, reader }
    }

    /// What both ends share, for a thread that has to close the ring or ask about it.
    pub fn shared(&self) -> Arc<StagingRing> {
        self.ring.clone()
    }

    /// Copies out at most `max` messages, and says how many: 0 if none is there.
    ///
    /// # Errors
    ///
    /// [`DequeueError::ZeroMax`]; [`DequeueError::DestinationTooSmall`] unless `destination` has room for `max`
    /// messages, or for a full ring if that is less; [`DequeueError::Closed`] when nothing will come any more;
    /// [`DequeueError::TooManyBatches`].
    pub fn dequeue_batch(&mut self, destination: &mut [u8], max: usize) -> Result<usize, DequeueError> {
        if max == 0 {
            return Err(DequeueError::ZeroMax);
        }
        let most = max.min(self.ring.ring.slots());
        let needed = most * self.ring.message_size();
        if destination.len() < needed {
            return Err(DequeueError::DestinationTooSmall { needed, available: destination.len() });
        }
        self.pass_skipped();
        let (mut copied, mut rest) = (0, destination);
        loop {
            let run = match self.ring.ring.peek(&mut self.reader, most - copied) {
                Ok(run) => run,
                Err(error) if copied == 0 => {
                    return match error.into() {
                        DequeueError::Empty => Ok(0),
                        other => Err(other),
                    };
                }
                Err(_) => return Ok(copied),
            };
            copied += run.count();
            for piece in self.ring.pieces(run.first(), run.count()) {
                let (now, later) = rest.split_at_mut(piece.len());
                // SAFETY: the run is published and ours until it is finished (I1), so nobody writes it (I3); `now` is
                // as long as the piece and the caller's alone: at most a reservation of other slots of this slab.
                unsafe {
                    std::ptr::copy_nonoverlapping(self.ring.at(piece.start), now.as_mut_ptr(), now.len());
                };
                rest = later;
            }
            let wake = self.ring.ring.finish(&mut self.reader, run);
            self.ring.wake_producers(wake);
            // A run ends at a skipped slot; messages may follow it.
            if copied == most || !self.pass_skipped() {
                return Ok(copied);
            }
        }
    }

    /// Takes at most `max` messages, in place.
    ///
    /// # Errors
    ///
    /// [`DequeueError::Empty`] if none is there; [`DequeueError::Closed`] when none will come any more;
    /// [`DequeueError::ZeroMax`]; [`DequeueError::TooManyBatches`] if so many batches have been taken since the oldest
    /// that is still held, dropped ones and calls of [`dequeue_batch`](Consumer::dequeue_batch) included.
    pub fn take(&mut self, max: usize) -> Result<Batch, DequeueError> {
        if max == 0 {
            return Err(DequeueError::ZeroMax);
        }
        self.pass_skipped();
        self.take_here(max)
    }

    /// Takes at most `max` messages that lie in one piece: it ends at the wrap.
    ///
    /// # Errors
    ///
    /// As [`take`](Consumer::take).
    pub fn take_contiguous(&mut self, max: usize) -> Result<Batch, DequeueError> {
        if max == 0 {
            return Err(DequeueError::ZeroMax);
        }
        self.pass_skipped();
        // Not by `take`: it would step over what was given up meanwhile, and end as far behind the wrap.
        self.take_here(max.min(self.until_wrap()))
    }

    /// Takes what is published from the reader's position on.
    fn take_here(&mut self, max: usize) -> Result<Batch, DequeueError> {
        let taken = self.ring.ring.take(&mut self.reader, max)?;
        Ok(Batch::new(self.ring.clone(), taken))
    }

    /// How many slots there are from the next message to the wrap.
    #[expect(clippy::cast_possible_truncation, reason = "at most the slots of a ring")]
    pub fn until_wrap(&self) -> usize {
        let slots = self.ring.ring.slots() as u64;
        (slots - self.ring.ring.taken() % slots) as usize
    }

    /// Steps over skipped slots; says whether there were any.
    #[inline]
    fn pass_skipped(&mut self) -> bool {
        let before = self.ring.ring.taken();
        let wake = self.ring.ring.pass_skipped(&mut self.reader);
        self.ring.wake_producers(wake);
        self.ring.ring.taken() != before
    }

    /// Whether a message can be taken now.
    ///
    /// # Errors
    ///
    /// [`DequeueError::Closed`] when none will come any more; [`DequeueError::TooManyBatches`].
    pub fn is_ready(&mut self) -> Result<bool, DequeueError> {
        self.pass_skipped();
        match self.ring.ring.peek(&mut self.reader, 1).map_err(DequeueError::from) {
            Ok(_) => Ok(true),
            Err(DequeueError::Empty) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until a message can be taken.
    ///
    /// # Errors
    ///
    /// [`DequeueError::Closed`] when none will come any more; [`DequeueError::TooManyBatches`], since a message that
    /// cannot be taken is not worth waiting for.
    pub fn wait(&mut self) -> Result<(), DequeueError> {
        self.wait_until(None).map(|_| ())
    }

    /// Waits until a message can be taken, for at most so long; says whether one can.
    ///
    /// # Errors
    ///
    /// As [`wait`](Consumer::wait).
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<bool, DequeueError> {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Result<bool, DequeueError> {
        for look in 0..SPINS + YIELDS {
            if self.is_ready()? {
                return Ok(true);
            }
            if look < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        let ring = self.ring.clone();
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                let ready = self.is_ready()?;
                if !ready {
                    ring.note_stall(); // Short waits end before they sleep, and a stall has to show all the same.
                }
                return Ok(ready);
            }
            listener!(ring.messages => woken);
            let announced = Announced::new(&ring, &self.reader);
            if self.is_ready()? {
                return Ok(true);
            }
            let wake_at = now + LONGEST_SLEEP;
            woken.wait_deadline(deadline.map_or(wake_at, |deadline| deadline.min(wake_at)));
            drop(announced);
            if self.is_ready()? {
                return Ok(true);
            }
        }
    }

    /// Waits until a message can be taken, as a future.
    ///
    /// # Errors
    ///
    /// As [`wait`](Consumer::wait).
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing: it takes no message.
    pub async fn wait_async(&mut self) -> Result<(), DequeueError> {
        let ring = self.ring.clone();
        loop {
            if self.is_ready()? {
                return Ok(());
            }
            let woken = ring.messages.listen();
            let announced = Announced::new(&ring, &self.reader);
            if self.is_ready()? {
                return Ok(());
            }
            woken.await;
            drop(announced);
        }
    }

    /// Throws away the messages that are there now, up to the first that is still being written, and says how many.
    /// Producers may go on meanwhile.
    pub fn clear(&mut self) -> u64 {
        let (cleared, wake) = self.ring.ring.discard(&mut self.reader);
        self.ring.wake_producers(wake);
        cleared
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.ring.close();
    }
}

impl Deref for Consumer {
    type Target = StagingRing;

    fn deref(&self) -> &StagingRing {
        &self.ring
    }
}
