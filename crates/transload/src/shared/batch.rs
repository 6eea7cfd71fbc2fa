//! Messages that the consumer of a shared ring has taken and is not done with.

use std::fmt;
use std::sync::Arc;

use transload_core::{Poisoned, SharedMessage, SharedTaken, Sleeper};

use super::consumer::Inner;
use super::lease::SharedLease;
use super::member_error::OutOfBuffer;
use super::region::SharedRegion;

/// Messages that follow each other in the ring, in place, each in a buffer of its own.
///
/// Several can be alive at once, and be dropped in any order on any thread. Dropping one is saying that its messages are
/// done: their buffers are free, and they never come again; [`unless_done`](SharedBatch::unless_done) turns that round. It
/// may outlive its consumer, whose role it keeps.
#[must_use = "dropping it says that its messages are done"]
pub struct SharedBatch {
    inner: Arc<Inner>,
    /// There until the batch is given back.
    taken: Option<SharedTaken>,
    /// Dropping it puts it back.
    unless_done: bool,
}

impl SharedBatch {
    pub(super) fn new(inner: Arc<Inner>, taken: SharedTaken) -> Self {
        Self { inner, taken: Some(taken), unless_done: false }
    }

    fn taken(&self) -> &SharedTaken {
        match &self.taken {
            Some(taken) => taken,
            None => unreachable!("there until the batch is given back, by value"),
        }
    }

    /// How many messages, at least one.
    pub fn messages(&self) -> usize {
        self.taken().count()
    }

    /// The number of messages that were sent before the first, since the region was made: it grows from batch to batch.
    pub fn first_position(&self) -> u64 {
        self.taken().first()
    }

    /// A message, counted from 0: which buffer it is in, and how long its sender says that it is, at most a buffer.
    pub fn message(&self, nth: usize) -> Option<SharedMessage> {
        let message = self.inner.member.core.message(&self.inner.notes, self.taken(), nth)?;
        let most = u32::try_from(self.region().buffer_size()).unwrap_or(u32::MAX);
        Some(SharedMessage { len_bytes: message.len_bytes.min(most), ..message })
    }

    /// The messages in order.
    pub fn iter(&self) -> impl Iterator<Item = SharedMessage> {
        (0..self.messages()).filter_map(|nth| self.message(nth))
    }

    /// The address of a message in this process, valid for a buffer's length while the batch exists.
    ///
    /// # Panics
    ///
    /// If the region has no such buffer: give it what [`message`](SharedBatch::message) has given.
    pub fn address(&self, message: &SharedMessage) -> *mut u8 {
        self.region().address(message.index)
    }

    /// Copies the beginning of a message out.
    ///
    /// # Errors
    ///
    /// [`OutOfBuffer`] if more is asked for than a buffer has, or there is no such buffer.
    pub fn read(&self, message: &SharedMessage, bytes: &mut [u8]) -> Result<(), OutOfBuffer> {
        self.region().read(message.index, 0, bytes)
    }

    /// The region.
    pub fn region(&self) -> &SharedRegion {
        &self.inner.member.region
    }

    /// Takes the messages over as leases, with their lengths: they are done as far as the ring is concerned, and never
    /// come again. If this process dies then, they are lost with it. A forked child gets none.
    pub fn into_leases(mut self) -> Vec<(SharedLease, usize)> {
        if !self.is_here() {
            return Vec::new();
        }
        let mut leases = Vec::with_capacity(self.messages());
        while let (Some(message), Some(taken)) = (self.message(0), &mut self.taken) {
            let member = &self.inner.member;
            // Of a spoilt region nothing more is taken over.
            let Ok(Some((grant, waits))) = member.core.keep(&self.inner.notes, taken) else { break };
            member.wake(Sleeper::Room, waits);
            leases.push((SharedLease::new(member.clone(), grant), message.len_bytes as usize));
        }
        leases
    }

    /// Notes whether a kernel or a device may access the buffers: if this process dies while it is so, the messages come
    /// to the next consumer, and the buffers are quarantined when that is done with them. A forked child, which does not
    /// have the buffers, notes nothing.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn lend(&self, lent: bool) -> Result<(), Poisoned> {
        if self.is_here() {
            self.inner.member.core.lend_taken(&self.inner.notes, self.taken(), lent)
        } else {
            Ok(())
        }
    }

    /// Whether this is no forked child: that has none of the words, and nothing to give back.
    fn is_here(&self) -> bool {
        self.inner.member.check_process().is_ok()
    }

    /// Leaves the messages in the ring, for the next consumer; this one does not get them again. Buffers that are lent
    /// then are quarantined once the next one is done with them.
    ///
    /// ```
    /// use transload::shared::{SharedPool, SharedRegion};
    ///
    /// let region = SharedRegion::builder(4, 64).create()?;
    /// let pool = SharedPool::join(&region, "both ends")?;
    /// pool.ring().try_send_copy(b"hello")?;
    /// let mut consumer = pool.ring().consumer()?;
    /// consumer.take(64)?.put_back();
    /// assert!(consumer.take(64).is_err());
    /// drop(consumer);
    /// let mut next = pool.ring().consumer()?;
    /// assert!(next.take(64)?.message(0).is_some_and(|message| message.redelivered));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_back(mut self) {
        if !self.is_here() {
            return;
        }
        if let Some(taken) = self.taken.take() {
            // A spoilt region has no next consumer.
            let _ = self.inner.member.core.put_back(&self.inner.notes, taken);
        }
    }

    /// The same batch, with its end turned round: dropping it [puts it back](SharedBatch::put_back), as nobody accesses
    /// its buffers any more, and so does [`quarantine`](SharedBatch::quarantine); [`done`](SharedBatch::done) alone is
    /// done with its messages. For whoever may be stopped before they have arrived.
    pub fn unless_done(mut self) -> Self {
        self.unless_done = true;
        self
    }

    /// Is done with the messages: their buffers are free, and they never come again.
    pub fn done(mut self) {
        self.unless_done = false;
    }

    /// Is done with the messages, and never gives their buffers to anybody: a device may still access them.
    pub fn quarantine(mut self) {
        if !self.is_here() {
            return;
        }
        if self.unless_done {
            // Lent when they are put back, they are quarantined later.
            let _ = self.lend(true);
            return self.put_back();
        }
        if let Some(taken) = self.taken.take() {
            let member = &self.inner.member;
            let waits = member.core.finish_in_quarantine(&self.inner.notes, taken).unwrap_or(false);
            member.wake(Sleeper::Room, waits);
        }
    }
}

impl Drop for SharedBatch {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        let member = &self.inner.member;
        if let Some(taken) = self.taken.take() {
            // Of a spoilt region nothing is given back.
            if self.unless_done {
                let notes = &self.inner.notes;
                let _ = member.core.lend_taken(notes, &taken, false);
                let _ = member.core.put_back(notes, taken);
                return;
            }
            let waits = member.core.finish(&self.inner.notes, taken).unwrap_or(false);
            member.wake(Sleeper::Room, waits);
        }
    }
}

impl fmt::Debug for SharedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBatch").field("taken", &self.taken).finish_non_exhaustive()
    }
}
