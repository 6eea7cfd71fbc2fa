//! The end of a shared ring that messages come out of.

use std::sync::Arc;
use std::time::{Duration, Instant};

use transload_core::{SharedNotes, SharedReader, SharedTakeError, SharedWord, Sleeper};

use super::batch::SharedBatch;
use super::held::Held;
use super::locks::Byte;
use super::member::{Member, Parts};
use super::member_error::{ConsumerError, TakeError};
use super::region::SharedRegion;
use super::wait;

/// The end that messages come out of. There is one among all processes; it may move between threads.
///
/// What it takes stays in the ring until the batch is done. So if this process dies, the next consumer gets it once more,
/// counted `redelivered`: exactly once is promised only while the consumer lives.
#[derive(Debug)]
pub struct SharedConsumer {
    inner: Arc<Inner>,
    reader: SharedReader,
}

/// What the consumer and its batches share. The role ends with the last of them.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) member: Arc<Member>,
    pub(super) notes: SharedNotes<Box<[SharedWord]>>,
    role: Option<Held>,
}

impl SharedConsumer {
    pub(super) fn new(member: &Arc<Member>) -> Result<Self, ConsumerError> {
        member.check_process()?;
        let Some(role) = member.region.lock(Byte::Consumer).map_err(ConsumerError::Lock)? else {
            let taker = member.region.taker();
            let (member, pid, name) =
                taker.map_or((0, 0, String::new()), |taker| (taker.member, taker.pid, taker.name));
            return Err(ConsumerError::InUse { member, pid, name });
        };
        // What it had taken comes once more.
        member.recover();
        let parts = member.parts();
        parts.set_consumer(member.core.number());
        let notes = SharedNotes::new((0..parts.ring_slots()).map(|_| SharedWord::new(0)).collect());
        let inner = Arc::new(Inner { member: member.clone(), notes, role: Some(role) });
        Ok(Self { reader: member.core.reader(), inner })
    }

    /// Takes at most `max` messages, in place. They stay in the ring until the batch is dropped.
    ///
    /// # Errors
    ///
    /// [`TakeError`].
    pub fn take(&mut self, max: usize) -> Result<SharedBatch, TakeError> {
        if max == 0 {
            return Err(TakeError::ZeroMax);
        }
        let member = &self.inner.member;
        member.check_process()?;
        // The sender's processor may still have the bytes: on their way while the words are changed, they cost no time.
        let coming = |index| member.region.expect(index);
        let mut take = || member.core.take_with(&mut self.reader, &self.inner.notes, max, coming);
        let taken = match take() {
            // Whoever had the role before is done with all, or dead: its own lock may be released a moment later. Once:
            // somebody who lies could make it so each time.
            Err(SharedTakeError::Blocked { member: before }) if member.recover_one(before) => take(),
            taken => taken,
        };
        match taken {
            Ok(taken) => Ok(SharedBatch::new(self.inner.clone(), taken)),
            Err(SharedTakeError::Empty) => Err(TakeError::Empty),
            Err(SharedTakeError::Blocked { member }) => Err(TakeError::Blocked { member }),
            Err(SharedTakeError::Poisoned(why)) => Err(TakeError::Poisoned(why)),
        }
    }

    /// Whether a message may be there to be taken.
    ///
    /// # Errors
    ///
    /// [`TakeError::Poisoned`], [`TakeError::Forked`].
    pub fn is_ready(&self) -> Result<bool, TakeError> {
        self.inner.member.check_process()?;
        self.inner.member.core.is_ready(&self.reader).map_err(TakeError::Poisoned)
    }

    /// Waits until a message may be there, for at most so long; says whether one may. Now and then it looks for members that
    /// have died with buffers in their hands.
    ///
    /// # Errors
    ///
    /// [`TakeError::Poisoned`], [`TakeError::Forked`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<bool, TakeError> {
        self.inner.member.check_process()?;
        let deadline = Instant::now().checked_add(timeout);
        let word = self.inner.member.parts().sleeper(Sleeper::Consumer);
        let look = || match self.is_ready() {
            Ok(false) => None,
            done => Some(done),
        };
        let found = wait::wait(word, deadline, look, || {
            self.inner.member.recover();
        });
        found.unwrap_or(Ok(false))
    }

    /// Messages in the ring that are published and not done, those taken included: a hint, which may be stale.
    pub fn len(&self) -> usize {
        self.inner.member.ask(Parts::pending)
    }

    /// Messages in the ring that are published and not taken: a hint, which may be stale.
    pub fn available(&self) -> usize {
        let available = self.inner.member.ask(|parts| parts.published().wrapping_sub(self.reader.position()));
        // The tail may be behind what was taken already.
        usize::try_from(available).ok().filter(|&available| available <= self.capacity()).unwrap_or(0)
    }

    /// Whether there is none: a hint, which may be stale.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many messages the ring has room for.
    pub fn capacity(&self) -> usize {
        self.inner.member.region.ring_slots()
    }

    /// Bytes of a buffer: the most that a message can have.
    pub fn buffer_size(&self) -> usize {
        self.inner.member.region.buffer_size()
    }

    /// The region.
    pub fn region(&self) -> &SharedRegion {
        &self.inner.member.region
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.member.check_process().is_ok() {
            self.member.parts().set_consumer(0);
        }
        // In a child too: it knows whose it is.
        drop(self.role.take());
    }
}
