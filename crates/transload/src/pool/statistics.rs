//! What a pool has done so far.

use std::fmt;
use std::thread::{self, ThreadId};
use std::time::Duration;

/// What a pool has done so far. Each number is of some moment during the call; at rest
/// `acquired == released + leased + quarantined`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatistics {
    /// Buffers in all.
    pub capacity: u32,
    /// Leases that are out now, as numbers too.
    pub leased: u32,
    /// Leases handed out.
    pub acquired: u64,
    /// Leases given back.
    pub released: u64,
    /// Leases that never come back.
    pub quarantined: u64,
    /// How often there was none: each look that found nothing, those of waiting callers too.
    pub exhausted: u64,
    /// How often somebody went to sleep until there was one.
    pub waited: u64,
    /// The lease that has been out longest.
    pub oldest: Option<OldestLease>,
}

/// The lease that has been out longest, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldestLease {
    /// Its buffer.
    pub index: u32,
    /// For how long, at least. No claim reads a clock: the time counts from the first call of
    /// [`statistics`](super::BufferPool::statistics) (or the first sleep of a waiting thread) after the claim; calls
    /// long ago are remembered on a coarser scale. So a program that asks every few seconds learns the age within a few
    /// seconds.
    pub held: Duration,
    /// The thread that acquired it; it may have handed it on since. Once that thread has ended, perhaps the one that took
    /// its seat. `None` for one that had no seat of its own.
    pub thread: Option<Holder>,
}

/// Bytes of a thread's name that are kept.
const NAME: usize = 24;

/// A thread that acquired a lease: its id and the beginning of its name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    id: ThreadId,
    name: [u8; NAME],
    len: u8,
}

impl Holder {
    pub(super) fn current() -> Self {
        let thread = thread::current();
        let given = thread.name().unwrap_or("");
        let len = given.floor_char_boundary(NAME);
        let mut name = [0; NAME];
        name[..len].copy_from_slice(&given.as_bytes()[..len]);
        #[expect(clippy::cast_possible_truncation, reason = "at most the length of the array")]
        let len = len as u8;
        Self { id: thread.id(), name, len }
    }

    /// The thread.
    pub fn id(&self) -> ThreadId {
        self.id
    }

    /// Its name, or the first 24 bytes of it; empty if it has none.
    pub fn name(&self) -> &str {
        self.name.get(..self.len.into()).and_then(|name| str::from_utf8(name).ok()).unwrap_or("")
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "" => write!(f, "{:?}", self.id),
            name => f.write_str(name),
        }
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder").field("id", &self.id).field("name", &self.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_letters() {
        let name = format!("{}\u{e9}\u{e9}", "a".repeat(23));
        let thread = thread::Builder::new().name(name).spawn(Holder::current).unwrap();
        let holder = thread.join().unwrap();
        assert_eq!(holder.name(), "a".repeat(23));
        assert_eq!(holder.to_string(), "a".repeat(23));
        let unnamed = thread::spawn(Holder::current).join().unwrap();
        assert!(unnamed.to_string().starts_with("ThreadId("), "{unnamed}");
    }
}
