//! Transload's shared pool and ring.

use anyhow::{Result, anyhow};
use transload::memory::Policy;
use transload::shared::{
    SendError, SharedAcquireError, SharedConsumer, SharedLease, SharedPool, SharedRegion, SharedRing,
    TakeError,
};

use super::content::{Content, Seen, bytes, read, see, write};
use super::link::Link;
use super::way::Way;

/// A region with room for so many messages in the ring, and some buffers more.
pub(super) fn region(slots: usize, message_bytes: usize) -> Result<SharedRegion> {
    let builder = SharedRegion::builder(slots + slots.min(64), message_bytes).ring_slots(slots).members(4);
    Ok(builder.lock(Policy::Never).create()?)
}

/// A buffer as words. Aligned: buffers lie one behind the other from a page on, and have whole words.
#[inline]
fn words(buffer: *mut u8) -> *mut u64 {
    buffer.cast()
}

/// One region for each direction.
#[derive(Debug)]
pub(super) struct Ours<const WORDS: usize> {
    pool: SharedPool,
    ring: SharedRing,
    consumer: SharedConsumer,
    lease: Option<SharedLease>,
    way: Way,
    /// Messages that are taken at once.
    most: usize,
}

impl<const WORDS: usize> Ours<WORDS> {
    /// Sends into the one, and takes from the other, which may be the same.
    pub(super) fn join(out: &SharedRegion, back: &SharedRegion, way: Way, most: usize) -> Result<Self> {
        let pool = SharedPool::join(out, "sender")?;
        let ring = pool.ring();
        let consumer = SharedPool::join(back, "receiver")?.ring().consumer()?;
        Ok(Self { pool, ring, consumer, lease: None, way, most })
    }

    #[inline]
    fn send_in_place<C: Content>(&mut self, tag: u64) -> Result<bool> {
        let lease = match self.lease.take() {
            Some(lease) => lease,
            None => match self.pool.try_acquire() {
                Ok(lease) => lease,
                Err(SharedAcquireError::Exhausted | SharedAcquireError::Contended) => return Ok(false),
                Err(error) => return Err(error.into()),
            },
        };
        // SAFETY: the buffer is ours and no other process's until it is sent, and has that many words.
        unsafe { write::<C, WORDS>(words(lease.as_ptr()), tag) };
        match self.ring.try_send(lease, WORDS * 8) {
            Ok(()) => Ok(true),
            Err(refused) if refused.error == SendError::Full => {
                self.lease = Some(refused.lease);
                Ok(false)
            }
            Err(refused) => Err(refused.error.into()),
        }
    }
}

impl<const WORDS: usize> Link<WORDS> for Ours<WORDS> {
    #[inline]
    fn prepare(&mut self) -> Result<()> {
        if self.way.is_ahead() && self.lease.is_none() {
            self.lease = Some(self.pool.try_acquire()?);
        }
        Ok(())
    }

    #[inline]
    fn send<C: Content>(&mut self, tag: u64) -> Result<bool> {
        if self.way != Way::Copy {
            return self.send_in_place::<C>(tag);
        }
        match self.ring.try_send_copy(bytes::<C, WORDS>(tag).as_flattened()) {
            Ok(()) => Ok(true),
            Err(SendError::Full) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn receive<C: Content>(&mut self, mut see_one: impl FnMut(Seen) -> Result<()>) -> Result<usize> {
        let batch = match self.consumer.take(self.most) {
            Ok(batch) => batch,
            Err(TakeError::Empty) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        for message in batch.iter() {
            if message.len_bytes as usize != WORDS * 8 || message.redelivered {
                return Err(anyhow!("not a message of ours: {message:?}"));
            }
            see_one(if self.way == Way::Copy {
                let mut copy = [[0; 8]; WORDS];
                batch.read(&message, copy.as_flattened_mut())?;
                see::<C, WORDS>(&copy)
            } else {
                // SAFETY: the buffer is ours until the batch is dropped, and the other process keeps to that.
                unsafe { read::<C, WORDS>(words(batch.address(&message))) }
            })?;
        }
        Ok(batch.messages())
    }
}
