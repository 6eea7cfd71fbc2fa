//! The end that messages come out of.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event_listener::{Listener, listener};
use transload_core::{Reader, Run, TakeError};

use super::batch::Batch;
use super::error::DequeueError;
use super::ring::{CoreRing, LONGEST_SLEEP, StagingRing};

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
    fn new(ring: &'a StagingRing, reader: &mut Reader) -> Self {
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
    /// If 32 or more are asked for, and earlier calls found fewer, the call first spins for a moment, a few microseconds
    /// at most: a consumer right behind its producers slows them down. After a wait that has slept it does not.
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
        let (mut copied, mut rest) = (0, destination);
        loop {
            let run = match self.peek(most - copied) {
                Ok(run) => run,
                Err(TakeError::Empty) => return Ok(copied),
                Err(error) if copied == 0 => return Err(error.into()),
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
            if copied == most || !self.reader.is_at_skip() {
                return Ok(copied);
            }
        }
    }

    /// Takes at most `max` messages, in place. Spins as [`dequeue_batch`](Consumer::dequeue_batch) does.
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
        self.take_here(|_| max)
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
        // Asked anew behind a position that was given up: the wrap is nearer there.
        self.take_here(|ring| max.min(ring.until_wrap()))
    }

    /// Takes what is published from the reader's position on.
    fn take_here(&mut self, max: impl Fn(&CoreRing) -> usize) -> Result<Batch, DequeueError> {
        let ring = &self.ring.ring;
        let taken = match ring.take(&mut self.reader, max(ring)) {
            Err(TakeError::Empty) if self.reader.is_at_skip() => {
                self.pass_skipped();
                let ring = &self.ring.ring;
                ring.take(&mut self.reader, max(ring))
            }
            done => done,
        };
        Ok(Batch::new(self.ring.clone(), taken?))
    }

    /// Looks for messages, and once more if positions that were given up stood before them.
    #[inline]
    fn peek(&mut self, max: usize) -> Result<Run, TakeError> {
        match self.ring.ring.peek(&mut self.reader, max) {
            Err(TakeError::Empty) if self.reader.is_at_skip() => {
                self.pass_skipped();
                self.ring.ring.peek(&mut self.reader, max)
            }
            done => done,
        }
    }

    #[cold]
    fn pass_skipped(&mut self) {
        let wake = self.ring.ring.pass_skipped(&mut self.reader);
        self.ring.wake_producers(wake);
    }

    /// Whether the `count`th message from the front has been published. Some before it may still be being written, so
    /// that a take finds fewer. Costs producers less than asking for [`len`](StagingRing::len).
    pub fn reaches(&self, count: usize) -> bool {
        self.ring.ring.reaches(&self.reader, count)
    }

    /// Whether a message can be taken now.
    ///
    /// # Errors
    ///
    /// [`DequeueError::Closed`] when none will come any more; [`DequeueError::TooManyBatches`].
    pub fn is_ready(&mut self) -> Result<bool, DequeueError> {
        match self.peek(1) {
            Ok(_) => Ok(true),
            Err(TakeError::Empty) => Ok(false),
            Err(error) => Err(error.into()),
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
            let announced = Announced::new(&ring, &mut self.reader);
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
            let announced = Announced::new(&ring, &mut self.reader);
            if self.is_ready()? {
                return Ok(());
            }
            woken.await;
            drop(announced);
        }
    }

    /// Throws away the messages that are there now, up to the first that is still being written, and says how many.
    /// Producers may go on meanwhile. Nothing is thrown away while as many batches are open as there can be.
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
