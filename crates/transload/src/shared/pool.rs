//! The pool that processes share, as one of them sees it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use transload_core::{ClaimCursor, Recovered, Sleeper};

use super::lease::SharedLease;
use super::member::Member;
use super::member_error::{JoinError, SharedAcquireError};
use super::region::SharedRegion;
use super::ring::SharedRing;
use super::statistics::{Holder, SharedStatistics};
use super::wait;

/// This process's part in a region: lends its buffers, and is the way to its [ring](SharedPool::ring).
///
/// A clone is another handle of the same member; give each thread its own. The member leaves when the last of its
/// handles, leases and batches has gone. If the process dies instead, whoever notices gives back what it had.
#[derive(Debug)]
pub struct SharedPool {
    pub(super) member: Arc<Member>,
    cursor: ClaimCursor,
}

impl Clone for SharedPool {
    fn clone(&self) -> Self {
        Self::of(self.member.clone())
    }
}

impl SharedPool {
    /// Becomes a member, by a name for people to read: its first 64 bytes are kept.
    ///
    /// What an earlier member with the same number had when it died is given back first.
    ///
    /// # Errors
    ///
    /// [`JoinError`].
    pub fn join(region: &SharedRegion, name: &str) -> Result<Self, JoinError> {
        Member::join(region, name).map(Self::of)
    }

    pub(super) fn of(member: Arc<Member>) -> Self {
        let cursor = member.cursor();
        Self { member, cursor }
    }

    /// A lease, if there is one. Takes no lock, allocates nothing, makes no system call.
    ///
    /// # Errors
    ///
    /// [`SharedAcquireError::Exhausted`] if all buffers were out at one moment during the call;
    /// [`SharedAcquireError::Contended`], [`SharedAcquireError::Poisoned`], [`SharedAcquireError::Forked`].
    #[inline]
    pub fn try_acquire(&self) -> Result<SharedLease, SharedAcquireError> {
        self.member.check_process()?;
        let grant = self.member.core.claim(&self.cursor)?;
        Ok(SharedLease::new(self.member.clone(), grant))
    }

    /// A lease, waiting for one for at most so long. Now and then it looks for members that have died with buffers in
    /// their hands.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](SharedPool::try_acquire).
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<SharedLease, SharedAcquireError> {
        self.member.check_process()?;
        let mut last = SharedAcquireError::Exhausted;
        let word = self.member.parts().sleeper(Sleeper::Room);
        let deadline = Instant::now().checked_add(timeout);
        let found = wait::wait(
            word,
            deadline,
            || match self.try_acquire() {
                Err(error) if error.is_exhausted() => {
                    last = error;
                    None
                }
                done => Some(done),
            },
            || {
                self.member.recover();
            },
        );
        found.unwrap_or(Err(last))
    }

    /// The ring of the region: for sending, and to become its consumer.
    pub fn ring(&self) -> SharedRing {
        SharedRing::new(self.member.clone())
    }

    /// The region.
    pub fn region(&self) -> &SharedRegion {
        &self.member.region
    }

    /// This member's number, from 1 on.
    pub fn member(&self) -> u16 {
        self.member.core.number()
    }

    /// How many buffers there are.
    pub fn capacity(&self) -> usize {
        self.member.region.buffer_count()
    }

    /// Bytes in each.
    pub fn buffer_size(&self) -> usize {
        self.member.region.buffer_size()
    }

    /// Gives back what members had that are proven to be dead, and says what it found. It happens by itself too: when a
    /// process joins, and when one waits.
    pub fn recover(&self) -> Recovered {
        if self.member.check_process().is_err() { Recovered::default() } else { self.member.recover() }
    }

    /// Who has buffers, and how many. Looks at each buffer's word, and at each member's lock.
    pub fn holders(&self) -> Vec<Holder> {
        self.member.region.holders()
    }

    /// Counts of the whole region.
    pub fn statistics(&self) -> SharedStatistics {
        self.member.region.statistics()
    }
}
