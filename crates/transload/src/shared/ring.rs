//! The ring that processes share: sending, and becoming the consumer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use transload_core::{ClaimCursor, SharedGrant, SharedSendRefused, Sleeper};

use super::consumer::SharedConsumer;
use super::lease::SharedLease;
use super::member::{Member, Parts};
use super::member_error::{ConsumerError, SendError, SendRefused, SharedAcquireError};
use super::region::SharedRegion;
use super::wait;

/// The ring of a region, as one member sees it. Many send; one, in whichever process, takes.
///
/// A message is a buffer with so many bytes in it. It is in the ring at once and whole, or not at all: there is no moment
/// at which anybody would have to wait for a sender. Messages of one thread stay in order.
#[derive(Debug)]
pub struct SharedRing {
    member: Arc<Member>,
    cursor: ClaimCursor,
}

impl Clone for SharedRing {
    fn clone(&self) -> Self {
        Self::new(self.member.clone())
    }
}

impl SharedRing {
    pub(super) fn new(member: Arc<Member>) -> Self {
        let cursor = member.cursor();
        Self { member, cursor }
    }

    /// Sends the first `len_bytes` of a buffer. Takes no lock, allocates nothing, makes no system call unless the
    /// consumer sleeps.
    ///
    /// Once it has returned, the message arrives, whatever becomes of this process.
    ///
    /// # Errors
    ///
    /// The lease, and why: [`SendError`].
    #[inline]
    pub fn try_send(&self, lease: SharedLease, len_bytes: usize) -> Result<(), SendRefused> {
        let len = match self.check(len_bytes) {
            Ok(len) => len,
            Err(error) => return Err(SendRefused { lease, error }),
        };
        if !Arc::ptr_eq(lease.member(), &self.member) {
            return Err(SendRefused { lease, error: SendError::Foreign });
        }
        let (member, grant) = lease.into_grant();
        self.send(grant, len).map_err(|refused| SendRefused {
            lease: SharedLease::new(member, refused.grant),
            error: refused.error.into(),
        })
    }

    /// The length as messages have it, if it can be one, and this process can send.
    #[inline]
    fn check(&self, len_bytes: usize) -> Result<u32, SendError> {
        let available = self.member.region.buffer_size();
        let len = u32::try_from(len_bytes).ok().filter(|_| len_bytes <= available);
        let len = len.ok_or(SendError::TooLong { len_bytes, available })?;
        self.member.check_process()?;
        Ok(len)
    }

    #[inline]
    fn send(&self, grant: SharedGrant, len: u32) -> Result<(), SharedSendRefused> {
        let waits = self.member.core.send(grant, len)?;
        self.member.wake(Sleeper::Consumer, waits);
        Ok(())
    }

    /// As [`try_send`](SharedRing::try_send), waiting for room for at most so long.
    ///
    /// # Errors
    ///
    /// As [`try_send`](SharedRing::try_send).
    pub fn send_timeout(
        &self,
        lease: SharedLease,
        len_bytes: usize,
        timeout: Duration,
    ) -> Result<(), SendRefused> {
        let deadline = Instant::now().checked_add(timeout);
        let mut waiting = Some(lease);
        let sent = self.wait_for_room(deadline, || match self.try_send(waiting.take()?, len_bytes) {
            Err(refused) if refused.error.is_full() => {
                waiting = Some(refused.lease);
                None
            }
            done => Some(done),
        });
        match (sent, waiting) {
            (Some(done), _) => done,
            (None, Some(lease)) => Err(SendRefused { lease, error: SendError::Full }),
            (None, None) => unreachable!("a lease is sent, or is here"),
        }
    }

    /// Sends a message that is copied into a buffer.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`] too if there is no buffer.
    #[inline]
    pub fn try_send_copy(&self, message: &[u8]) -> Result<(), SendError> {
        let len = self.check(message.len())?;
        // Without a lease, which would count its member.
        let grant = self.member.core.claim(&self.cursor).map_err(SharedAcquireError::from)?;
        // The length was checked, so it fits.
        let _ = self.member.region.write(grant.index(), 0, message);
        self.send(grant, len).map_err(|refused| {
            // To the ring's other end it was never there.
            drop(SharedLease::new(self.member.clone(), refused.grant));
            refused.error.into()
        })
    }

    /// As [`try_send_copy`](SharedRing::try_send_copy), waiting for room for at most so long.
    ///
    /// # Errors
    ///
    /// As [`try_send_copy`](SharedRing::try_send_copy).
    pub fn send_copy_timeout(&self, message: &[u8], timeout: Duration) -> Result<(), SendError> {
        let deadline = Instant::now().checked_add(timeout);
        let sent = self.wait_for_room(deadline, || match self.try_send_copy(message) {
            Err(SendError::Full) => None,
            done => Some(done),
        });
        sent.unwrap_or(Err(SendError::Full))
    }

    fn wait_for_room<T>(&self, deadline: Option<Instant>, look: impl FnMut() -> Option<T>) -> Option<T> {
        if self.member.check_process().is_err() {
            // The words are not there: the look itself says so.
            let mut look = look;
            return look();
        }
        let word = self.member.parts().sleeper(Sleeper::Room);
        wait::wait(word, deadline, look, || {
            self.member.recover();
        })
    }

    /// Becomes the consumer.
    ///
    /// What the last one had taken and was not done with when it died comes once more.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::InUse`] while there is one, or batches of one are not done.
    pub fn consumer(&self) -> Result<SharedConsumer, ConsumerError> {
        SharedConsumer::new(&self.member)
    }

    /// Messages in the ring that are published and not done: a hint, which may be stale.
    pub fn len(&self) -> usize {
        self.member.ask(Parts::pending)
    }

    /// Whether there is none: a hint, which may be stale.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many messages have been published since the region was made: those at least that this thread has sent.
    ///
    /// Messages are done in the order of their places: once [`done`](SharedRing::done) has come to this number, all that
    /// were sent before are where the consumer brings them, and no death can lose or repeat them any more.
    pub fn published(&self) -> u64 {
        self.member.ask(Parts::published)
    }

    /// How many of the messages that were published are done, from the first on.
    pub fn done(&self) -> u64 {
        self.member.ask(Parts::done)
    }

    /// How many messages it has room for.
    pub fn capacity(&self) -> usize {
        self.member.region.ring_slots()
    }

    /// The region.
    pub fn region(&self) -> &SharedRegion {
        &self.member.region
    }
}
