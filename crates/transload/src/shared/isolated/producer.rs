//! The end of a lane that messages go into.

use std::time::{Duration, Instant};

use transload_core::{FullBarrier, SpscSender};

use super::super::member_error::OutOfBuffer;
use super::super::wait;
use super::super::words::{FutexWords, Words};
use super::error::LaneSendError;
use super::memory::{OwnMemory, PeerMemory};

/// The end of a lane that messages go into: one process's, one thread's at a time.
///
/// Dropping it ends the lane; what it has published is delivered.
#[derive(Debug)]
pub struct Producer {
    sender: SpscSender<Words, FutexWords, FullBarrier>,
    /// What this side sleeps on.
    signal: FutexWords,
    own: OwnMemory,
    peer: PeerMemory,
}

/// A slot to be filled, and then published by [`commit`](Reservation::commit). Dropping it publishes nothing.
#[derive(Debug)]
#[must_use = "nothing is sent before `commit`"]
pub struct Reservation<'a> {
    producer: &'a mut Producer,
    slot: usize,
}

impl Producer {
    pub(super) fn new(own: OwnMemory, peer: PeerMemory) -> Self {
        let sender = SpscSender::new(own.words(), peer.words(), own.lengths(), FullBarrier);
        Self { sender, signal: peer.signal(), own, peer }
    }

    /// How many messages the lane has room for.
    pub fn capacity(&self) -> usize {
        self.own.plan.slots
    }

    /// Bytes of a slot: the most that a message can have.
    pub fn slot_bytes(&self) -> usize {
        self.own.plan.slot_bytes
    }

    /// The number that the lane was given at random.
    pub fn id(&self) -> u128 {
        self.own.plan.id
    }

    /// Whether the consumer lives, as far as the kernel knows. While a process lives that it has forked, it may be taken
    /// for alive after its death.
    pub fn is_connected(&self) -> bool {
        self.peer.is_alive()
    }

    /// A slot to be filled in place, if one is free. Makes no system call.
    ///
    /// # Errors
    ///
    /// [`LaneSendError::Full`], [`LaneSendError::Fault`], [`LaneSendError::Forked`].
    #[inline]
    pub fn try_reserve(&mut self) -> Result<Reservation<'_>, LaneSendError> {
        let slot = self.slot()?;
        Ok(Reservation { producer: self, slot })
    }

    /// As [`try_reserve`](Producer::try_reserve), waiting for a slot for at most so long.
    ///
    /// # Errors
    ///
    /// As [`try_reserve`](Producer::try_reserve), and [`LaneSendError::Gone`] if the consumer is seen to be dead.
    pub fn reserve_timeout(&mut self, timeout: Duration) -> Result<Reservation<'_>, LaneSendError> {
        let slot = self.wait_for_slot(timeout)?;
        Ok(Reservation { producer: self, slot })
    }

    /// Sends a message that is copied into a slot. Makes no system call unless the consumer sleeps.
    ///
    /// Once it has returned, the message arrives as long as the consumer lives, whatever becomes of this process.
    ///
    /// # Errors
    ///
    /// [`LaneSendError`]; [`LaneSendError::Gone`] is not looked for.
    #[inline]
    pub fn try_send_copy(&mut self, message: &[u8]) -> Result<(), LaneSendError> {
        let len_bytes = self.check_len(message.len())?;
        let slot = self.slot()?;
        self.own.write(slot, 0, message);
        self.publish(len_bytes);
        Ok(())
    }

    /// As [`try_send_copy`](Producer::try_send_copy), waiting for a slot for at most so long.
    ///
    /// # Errors
    ///
    /// [`LaneSendError`].
    pub fn send_timeout(&mut self, message: &[u8], timeout: Duration) -> Result<(), LaneSendError> {
        let len_bytes = self.check_len(message.len())?;
        let slot = self.wait_for_slot(timeout)?;
        self.own.write(slot, 0, message);
        self.publish(len_bytes);
        Ok(())
    }

    #[inline]
    fn slot(&mut self) -> Result<usize, LaneSendError> {
        self.own.check_process()?;
        Ok(self.sender.slot()?)
    }

    #[inline]
    fn publish(&mut self, len_bytes: u32) {
        if let Some(word) = self.sender.publish(len_bytes) {
            wait::wake_all(word);
        }
    }

    fn check_len(&self, len_bytes: usize) -> Result<u32, LaneSendError> {
        let available = self.own.plan.slot_bytes;
        match u32::try_from(len_bytes) {
            Ok(len) if len_bytes <= available => Ok(len),
            _ => Err(LaneSendError::TooLong { len_bytes, available }),
        }
    }

    fn wait_for_slot(&mut self, timeout: Duration) -> Result<usize, LaneSendError> {
        let deadline = Instant::now().checked_add(timeout);
        let mut is_gone = false;
        loop {
            let found = wait::spin(|| match self.slot() {
                Err(LaneSendError::Full) => None,
                done => Some(done),
            });
            let left = wait::left(deadline);
            match found {
                Some(done) => return done,
                None if is_gone => return Err(LaneSendError::Gone),
                None if left == Some(Duration::ZERO) => return Err(LaneSendError::Full),
                None => {}
            }
            let value = self.sender.begin_sleep();
            let looked = self.slot();
            if let Err(LaneSendError::Full) = looked {
                wait::sleep(&self.signal.as_ref()[0], value, wait::nap(left));
            }
            self.sender.end_sleep();
            if let Ok(slot) = looked {
                return Ok(slot);
            }
            // Before the next look, which so sees all that a dead consumer did.
            is_gone = !self.peer.is_alive();
        }
    }
}

impl Reservation<'_> {
    /// Bytes of the slot.
    pub fn capacity(&self) -> usize {
        self.producer.own.plan.slot_bytes
    }

    /// Writes bytes into the slot.
    ///
    /// # Errors
    ///
    /// [`OutOfBuffer`] if they reach beyond its end; nothing is written then.
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBuffer> {
        // A child of a fork has nothing there.
        let available = if self.producer.own.check_process().is_ok() { self.capacity() } else { 0 };
        if offset.checked_add(bytes.len()).is_none_or(|end| end > available) {
            return Err(OutOfBuffer { offset, len_bytes: bytes.len(), available });
        }
        self.producer.own.write(self.slot, offset, bytes);
        Ok(())
    }

    /// The address of the slot in this process, valid for [`capacity`](Reservation::capacity) bytes while the reservation
    /// exists.
    pub fn as_ptr(&self) -> *mut u8 {
        self.producer.own.address(self.slot)
    }

    /// Publishes the first `len_bytes` of the slot as a message. What was not written is what a message before left there.
    ///
    /// # Errors
    ///
    /// [`LaneSendError::TooLong`], [`LaneSendError::Forked`]; nothing is published then.
    pub fn commit(self, len_bytes: usize) -> Result<(), LaneSendError> {
        self.producer.own.check_process()?;
        let len_bytes = self.producer.check_len(len_bytes)?;
        self.producer.publish(len_bytes);
        Ok(())
    }
}
