//! One process's part in a region: its number, its lock, and recovery of those who have died.

use std::process;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use transload_core::{
    ClaimCursor, Counter, Recovered, SharedCount, SharedMember, SharedParts, SharedWord, Sleeper, SwapBarrier,
};

use super::entry::Entry;
use super::held::Held;
use super::locks::Byte;
use super::member_error::JoinError;
use super::region::SharedRegion;
use super::wait;
use super::words::{FutexWords, Words};
use crate::fork::ForkedChild;

pub(super) type Core = SharedMember<Words, FutexWords, Box<[SharedWord]>, SwapBarrier>;
pub(super) type Parts = SharedParts<Words, FutexWords>;

/// One process's part in a region, shared by its handles and leases. Leaves when it is dropped.
#[derive(Debug)]
pub(super) struct Member {
    /// First: nobody may get our number before we have left.
    pub(super) core: Core,
    /// Our lock, which tells the others that we live.
    lock: Option<Held>,
    pub(super) region: SharedRegion,
    /// How many handles there were, so that each begins to look for buffers elsewhere.
    handles: Counter,
}

/// The shared words of a region, as this process sees them.
pub(super) fn parts(region: &SharedRegion) -> Parts {
    let parts = SharedParts::new(
        region.control(),
        region.sleepers(),
        region.members_table(),
        region.slots(),
        region.cells(),
    );
    // The geometry was checked when the region was made or opened.
    parts.unwrap_or_else(|error| unreachable!("a region's words: {error}"))
}

impl Member {
    /// Takes the first number that no living member has.
    pub(super) fn join(region: &SharedRegion, name: &str) -> Result<Arc<Self>, JoinError> {
        region.check_process()?;
        let parts = parts(region);
        let (number, lock) = free_number(region)?;
        // Whoever had the number before may have died with buffers in its hands.
        let recovered = parts.recover(number, &SwapBarrier);
        wait::wake_everybody(&parts);
        let entry = Entry::of(region, number);
        if entry.is_live() {
            parts.add(SharedCount::Left, 1);
            tracing::info!(number, ?recovered, "took the place of a member that had died");
        }
        entry.enter(name, process::id(), seconds_now());
        parts.add(SharedCount::Joined, 1);
        let held = (0..parts.buffers()).map(|_| SharedWord::new(0)).collect();
        let core = SharedMember::new(parts, number, held, SwapBarrier);
        Ok(Arc::new(Self { core, lock: Some(lock), region: region.clone(), handles: Counter::new() }))
    }

    pub(super) fn parts(&self) -> &Parts {
        self.core.parts()
    }

    /// What the words say; in a forked child, where they are not, what says nothing.
    pub(super) fn ask<T: Default>(&self, look: impl FnOnce(&Parts) -> T) -> T {
        if self.check_process().is_ok() { look(self.parts()) } else { T::default() }
    }

    /// Where a handle begins to look for buffers: apart from where other handles and other members do.
    pub(super) fn cursor(&self) -> ClaimCursor {
        self.handles.add(1);
        let spread = u64::from(self.core.number()) << 8 | self.handles.value() & 0xff;
        // Multiples of the golden ratio lie apart from each other (Knuth, TAOCP 3, 6.4).
        let part = spread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let first = (part * self.parts().buffers() as u64) >> 32;
        ClaimCursor::new(u32::try_from(first).unwrap_or(0))
    }

    /// Refuses in a forked child.
    #[inline]
    pub(super) fn check_process(&self) -> Result<(), ForkedChild> {
        self.region.check_process()
    }

    /// Wakes whoever sleeps, if it is so.
    #[inline]
    pub(super) fn wake(&self, sleeper: Sleeper, waits: bool) {
        if waits {
            wait::wake_all(self.parts().sleeper(sleeper));
        }
    }

    /// Gives back what members had that are proven to be dead.
    pub(super) fn recover(&self) -> Recovered {
        recover_dead(&self.region, self.parts(), Some(self.core.number()))
    }

    /// Gives back what this one had if it is dead, and says whether it is.
    pub(super) fn recover_one(&self, number: u16) -> bool {
        number != self.core.number() && recover_number(&self.region, self.parts(), number).is_some()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // The parent is the member, and has the lock: nothing of it may be touched.
            return;
        }
        let parts = self.core.parts();
        // What was forgotten rather than dropped.
        let left = parts.recover(self.core.number(), &SwapBarrier);
        if !left.is_empty() {
            tracing::warn!(?left, "buffers were forgotten by a member that leaves");
        }
        Entry::of(&self.region, self.core.number()).leave();
        parts.add(SharedCount::Left, 1);
        wait::wake_everybody(parts);
        drop(self.lock.take());
    }
}

/// How often it is looked for a number, and how far apart: whoever recovers a dead member has its lock meanwhile.
const LOOKS: u32 = 5;
const APART: Duration = Duration::from_millis(4);

/// A number whose lock nobody has.
fn free_number(region: &SharedRegion) -> Result<(u16, Held), JoinError> {
    let members = region.members();
    for look in 0..LOOKS {
        for number in 1..=members {
            if let Some(lock) = region.lock(Byte::Member(number)).map_err(JoinError::Lock)? {
                return Ok((number, lock));
            }
        }
        std::thread::sleep(APART * look);
    }
    Err(JoinError::TooManyMembers { most: members })
}

/// Gives back what all members had that are proven to be dead, except for `me`, whose lock says nothing to me.
pub(super) fn recover_dead(region: &SharedRegion, parts: &Parts, me: Option<u16>) -> Recovered {
    let others = (1..=region.members()).filter(|&number| Some(number) != me);
    let live = others.filter(|&number| Entry::of(region, number).is_live());
    live.filter_map(|number| recover_number(region, parts, number)).fold(Recovered::default(), Recovered::and)
}

/// Gives back what a member had, if it is dead: nothing if it lives, or if somebody else recovers it.
pub(super) fn recover_number(region: &SharedRegion, parts: &Parts, number: u16) -> Option<Recovered> {
    let lock = match region.lock(Byte::Member(number)) {
        Ok(lock) => lock?,
        Err(error) => {
            tracing::warn!(number, %error, "cannot tell whether a member lives");
            return None;
        }
    };
    let entry = Entry::of(region, number);
    let recovered = parts.recover(number, &SwapBarrier);
    if entry.is_live() {
        tracing::info!(number, pid = entry.pid(), ?recovered, "a member has died");
        entry.leave();
        parts.add(SharedCount::Left, 1);
    }
    wait::wake_everybody(parts);
    drop(lock);
    Some(recovered)
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
