//! What a region counts, and who holds what.

use transload_core::{Recovered, SharedCount, SlotState};

use super::entry::Entry;
use super::locks::Byte;
use super::member::{parts, recover_dead};
use super::region::SharedRegion;

/// Counts of a region, since it was made. Any member may have written them: they are for people to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedStatistics {
    /// Buffers that are free at the moment.
    pub free: usize,
    /// Messages that were published, once each.
    pub published: u64,
    /// Messages that are published and not done.
    pub pending: usize,
    /// Messages that were taken once more, since the consumer that had taken them died.
    pub redelivered: u64,
    /// Cells of the ring that named no message.
    pub spoiled: u64,
    /// Buffers that were taken from dead members and are free again.
    pub reclaimed: u64,
    /// Buffers that are never used again.
    pub quarantined: usize,
    /// Members that have joined.
    pub joined: u64,
    /// Members that have left, by themselves or by dying.
    pub left: u64,
}

/// A member, and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Its number.
    pub member: u16,
    /// What it calls itself.
    pub name: String,
    /// Its process, by the number that it has in its own namespace.
    pub pid: u32,
    /// When it joined: seconds since 1970.
    pub since: u64,
    /// Whether its lock is held: else it is dead, and what it has can be reclaimed.
    pub alive: bool,
    /// Whether it is the consumer.
    pub consumer: bool,
    /// Buffers that it has.
    pub owned: usize,
    /// Buffers that it has lent to a kernel or a device.
    pub lent: usize,
    /// Messages that it has sent and that nobody has taken.
    pub sent: usize,
}

/// Who takes the messages of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taker {
    /// Its number among the members.
    pub member: u16,
    /// What it calls itself.
    pub name: String,
    /// Its process, by the number that it has in its own namespace.
    pub pid: u32,
    /// Whether the role is taken: else it has died, and nobody has followed.
    pub alive: bool,
}

impl SharedRegion {
    /// The consumer, or the last one if it died as such; nobody if that has left by itself.
    pub fn taker(&self) -> Option<Taker> {
        self.check_process().ok()?;
        let member = parts(self).consumer();
        let entry = (1..=self.members()).contains(&member).then(|| Entry::of(self, member))?;
        let alive = self.locks().is_held(Byte::Consumer).unwrap_or(true);
        Some(Taker { member, name: entry.name(), pid: entry.pid(), alive })
    }

    /// Counts of the region. Looks at each buffer's word.
    pub fn statistics(&self) -> SharedStatistics {
        if self.check_process().is_err() {
            return SharedStatistics::default();
        }
        let parts = parts(self);
        let (mut free, mut quarantined) = (0, 0);
        for index in self.indices() {
            match parts.holding(index) {
                None => free += 1,
                Some(holding) if holding.state == SlotState::Quarantined => quarantined += 1,
                Some(_) => {}
            }
        }
        SharedStatistics {
            free,
            published: parts.published(),
            pending: parts.pending(),
            redelivered: parts.count(SharedCount::Redelivered),
            spoiled: parts.count(SharedCount::Spoiled),
            reclaimed: parts.count(SharedCount::Reclaimed),
            quarantined,
            joined: parts.count(SharedCount::Joined),
            left: parts.count(SharedCount::Left),
        }
    }

    /// The members, and what each has. Looks at each buffer's word, and at each member's lock.
    pub fn holders(&self) -> Vec<Holder> {
        if self.check_process().is_err() {
            return Vec::new();
        }
        let parts = parts(self);
        let consumer = parts.consumer();
        let mut holders: Vec<Holder> = (0..=self.members())
            .map(|number| {
                let entry = Entry::of(self, number);
                Holder {
                    member: number,
                    name: entry.name(),
                    pid: entry.pid(),
                    since: entry.since(),
                    alive: number != 0
                        && entry.is_live()
                        && self.locks().is_held(Byte::Member(number)).unwrap_or(true),
                    consumer: number != 0 && number == consumer,
                    owned: 0,
                    lent: 0,
                    sent: 0,
                }
            })
            .collect();
        for holding in self.indices().filter_map(|index| parts.holding(index)) {
            let Some(holder) = holders.get_mut(usize::from(holding.member)) else { continue };
            match holding.state {
                SlotState::Owned => holder.owned += 1,
                SlotState::Lent => holder.lent += 1,
                SlotState::Sent => holder.sent += 1,
                SlotState::Free | SlotState::Quarantined => {}
            }
        }
        let has = |holder: &Holder| holder.owned + holder.lent + holder.sent > 0;
        let live = |number| Entry::of(self, number).is_live();
        holders.retain(|holder| has(holder) || (holder.member != 0 && live(holder.member)));
        holders
    }

    /// Gives back what members had that are proven to be dead, and says what it found: for those who are no member.
    /// Members have [`SharedPool::recover`](super::SharedPool::recover), and do it by themselves.
    pub fn recover(&self) -> Recovered {
        if self.check_process().is_err() {
            return Recovered::default();
        }
        recover_dead(self, &parts(self), None)
    }

    fn indices(&self) -> std::ops::Range<u32> {
        // At most 2^24.
        0..u32::try_from(self.buffer_count()).unwrap_or(0)
    }
}
