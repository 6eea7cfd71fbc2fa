//! What is said of a region and of those who take part in it.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use transload::pump::SlotLayout;
use transload::shared::{Holder, SharedRegion};

/// A region as it was made.
#[derive(Debug, Serialize)]
pub(super) struct RegionWords {
    id: String,
    slots: usize,
    slot_bytes: usize,
    /// Bytes of all slots.
    bytes: usize,
    ring_slots: usize,
    /// How many members there can be.
    most_members: u16,
    /// `dense`, `prefixed`, or null if its maker does not say.
    layout: Option<&'static str>,
    sealed: bool,
}

impl RegionWords {
    pub(super) fn of(region: &SharedRegion) -> Self {
        Self {
            id: format!("{:032x}", region.id()),
            slots: region.buffer_count(),
            slot_bytes: region.buffer_size(),
            bytes: region.buffer_count() * region.buffer_size(),
            ring_slots: region.ring_slots(),
            most_members: region.members(),
            layout: SlotLayout::of_code(region.user_word()).map(|layout| match layout {
                SlotLayout::Dense => "dense",
                SlotLayout::Prefixed => "prefixed",
            }),
            sealed: region.is_sealed(),
        }
    }

    pub(super) fn words(&self) -> String {
        let Self { slots, slot_bytes, ring_slots, .. } = self;
        format!("{slots} slots of {slot_bytes} bytes, a ring of {ring_slots}")
    }
}

/// A member, and what it has.
#[derive(Debug, Serialize)]
pub(super) struct MemberWords {
    /// 0 for what a recovery put back.
    member: u16,
    name: String,
    pid: u32,
    /// Seconds since 1970.
    since: u64,
    pub(super) alive: bool,
    consumer: bool,
    owned: usize,
    lent: usize,
    sent: usize,
}

impl MemberWords {
    pub(super) fn of(holder: &Holder) -> Self {
        let Holder { member, name, pid, since, alive, consumer, owned, lent, sent, .. } = holder.clone();
        Self { member, name, pid, since, alive, consumer, owned, lent, sent }
    }

    /// All who take part, or have something.
    pub(super) fn all(region: &SharedRegion) -> Vec<Self> {
        region.holders().iter().map(Self::of).collect()
    }

    /// Whether it is a member, and no record of a recovery.
    pub(super) fn is_somebody(&self) -> bool {
        self.member != 0
    }

    pub(super) fn words(&self) -> String {
        let Self { member, name, pid, since, alive, consumer, owned, lent, sent } = self;
        if !self.is_somebody() {
            return format!("put back by recoveries: {sent} messages");
        }
        let mut text = format!("{member} {name:?}, process {pid}");
        let since = UNIX_EPOCH.checked_add(Duration::from_secs(*since));
        if let Some(since) = since {
            // Writing to a string does not fail.
            let _ = write!(text, " since {}", humantime::format_rfc3339_seconds(since));
        }
        text.push_str(if *alive { ", alive" } else { ", DEAD" });
        text.push_str(if *consumer { ", the consumer" } else { "" });
        let _ = write!(text, ": {owned} owned, {lent} lent, {sent} sent");
        text
    }
}
