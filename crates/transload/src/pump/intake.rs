//! Where messages come in, and what happens when there is no room.

use std::sync::Arc;
use std::time::Duration;

use super::control::Control;
use super::{OnFull, Pump, PumpError};
use crate::staging::{BatchReservation, EnqueueError, Producer};

/// How long an intake waits for room before it asks the pump again to shed.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// What became of a message that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is on its way.
    Accepted,
    /// It was refused.
    Rejected,
    /// It was accepted and dropped.
    Dropped,
}

/// Where messages come in: a [`Producer`] with a policy. Clone it for each thread.
///
/// A producer of the same ring may be used beside it; its messages are counted as well, its refusals are not.
#[derive(Clone, Debug)]
pub struct Intake {
    producer: Producer,
    on_full: OnFull,
    control: Arc<Control>,
}

impl Intake {
    /// The intake of a pump's ring.
    ///
    /// # Errors
    ///
    /// [`PumpError::ForeignProducer`] if the producer is of another ring than the pump's; a pump without a staging ring
    /// has no intakes.
    pub fn new(producer: Producer, on_full: OnFull, pump: &Pump) -> Result<Self, PumpError> {
        // A slab serves one ring at a time.
        if pump.ring().is_some_and(|ring| ring.as_ptr() == producer.as_ptr()) {
            Ok(Self { producer, on_full, control: pump.control() })
        } else {
            Err(PumpError::ForeignProducer)
        }
    }

    /// Offers a message, which is copied in.
    ///
    /// # Errors
    ///
    /// [`EnqueueError::Closed`] or [`EnqueueError::WrongSize`]; never `Full`.
    pub fn offer(&self, message: &[u8]) -> Result<Outcome, EnqueueError> {
        let expected = self.producer.message_size();
        if message.len() != expected {
            return Err(EnqueueError::WrongSize { expected, actual: message.len() });
        }
        self.offer_with(|slot| slot.copy_from_slice(message))
    }

    /// Offers a message that `fill` writes in place. It is not called if the message is not accepted into the ring.
    /// The slot holds an earlier message until it is overwritten.
    ///
    /// # Errors
    ///
    /// [`EnqueueError::Closed`]; never `Full`.
    pub fn offer_with(&self, fill: impl FnOnce(&mut [u8])) -> Result<Outcome, EnqueueError> {
        let Some(mut slot) = self.reserve(1)? else { return Ok(self.turn_away(1)) };
        fill(slot.as_mut_slices().0);
        slot.commit();
        Ok(Outcome::Accepted)
    }

    /// Slots for messages that are there to be written: from 1 to `max` (`max` of zero counts as one). `None` if there
    /// is no room and the policy is not to wait for it: the messages are then to be [turned away](Intake::turn_away).
    ///
    /// Where the policy is to wait, it waits until there is room or the ring is closed, and holds nothing meanwhile.
    /// The pump waits for what is reserved: ask only for messages that are at hand.
    ///
    /// # Errors
    ///
    /// [`EnqueueError::Closed`]; never `Full`.
    #[inline]
    pub fn reserve(&self, max: usize) -> Result<Option<BatchReservation<'_>>, EnqueueError> {
        match self.producer.try_reserve_batch(max) {
            Ok(slots) => Ok(Some(slots)),
            Err(EnqueueError::Full) => match self.on_full {
                OnFull::Reject | OnFull::DropNew => Ok(None),
                OnFull::Block | OnFull::DropOldest => self.wait_for_slots(max).map(Some),
            },
            Err(error) => Err(error),
        }
    }

    /// Counts messages for which [`reserve`](Intake::reserve) had no room, as the policy says: as accepted and dropped
    /// with [`OnFull::DropNew`], else as refused.
    pub fn turn_away(&self, messages: usize) -> Outcome {
        let (count, outcome) = match self.on_full {
            OnFull::DropNew => (&self.control.dropped_new, Outcome::Dropped),
            OnFull::Reject | OnFull::Block | OnFull::DropOldest => {
                (&self.control.rejected, Outcome::Rejected)
            }
        };
        count.add(messages as u64);
        outcome
    }

    #[cold]
    fn wait_for_slots(&self, max: usize) -> Result<BatchReservation<'_>, EnqueueError> {
        loop {
            if self.on_full == OnFull::DropOldest {
                self.control.shed.raise();
            }
            match self.producer.reserve_batch_timeout(max, ASK_AGAIN) {
                Err(EnqueueError::Full) => {}
                done => return done,
            }
        }
    }

    /// Bytes in a message.
    pub fn message_size(&self) -> usize {
        self.producer.message_size()
    }

    /// Whether the ring is closed: nothing more is accepted.
    pub fn is_closed(&self) -> bool {
        self.producer.is_closed()
    }
}
