//! `transload shm show`.

use serde::Serialize;
use transload::shared::{SharedRegion, SharedStatistics};

use super::args::NameArgs;
use super::found::{Found, Kind};
use super::words::{MemberWords, RegionWords};
use crate::failure::Failure;

/// The document of `--json`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Document {
    schema: u32,
    name: String,
    kind: Option<Kind>,
    region: Option<RegionWords>,
    counts: Option<Counts>,
    members: Vec<MemberWords>,
    pub(super) error: Option<Failure>,
}

/// What the region counts.
#[derive(Debug, Serialize)]
struct Counts {
    free: usize,
    /// Published, and not done.
    pending: usize,
    published: u64,
    redelivered: u64,
    spoiled: u64,
    reclaimed: u64,
    quarantined: usize,
    joined: u64,
    left: u64,
}

pub(super) fn document(args: &NameArgs) -> Document {
    let document = Document { schema: 1, name: args.name.to_string(), ..Document::default() };
    match Found::of(args) {
        Ok(Found { region, kind }) => Document {
            kind: Some(kind),
            region: Some(RegionWords::of(&region)),
            counts: Some(Counts::of(&region)),
            members: MemberWords::all(&region),
            ..document
        },
        Err(failure) => Document { error: Some(failure), ..document },
    }
}

impl Counts {
    fn of(region: &SharedRegion) -> Self {
        let SharedStatistics {
            free,
            pending,
            published,
            redelivered,
            spoiled,
            reclaimed,
            quarantined,
            joined,
            left,
            ..
        } = region.statistics();
        Self { free, pending, published, redelivered, spoiled, reclaimed, quarantined, joined, left }
    }

    fn lines(&self) -> [String; 3] {
        let Self { free, pending, published, redelivered, spoiled, reclaimed, quarantined, joined, left } =
            self;
        [
            format!(
                "slots        {free} free, {reclaimed} reclaimed from the dead, {quarantined} quarantined"
            ),
            format!(
                "messages     {published} published, {pending} of them not done; {redelivered} redelivered, {spoiled} spoiled"
            ),
            format!("members      {joined} joined, {left} left"),
        ]
    }
}

impl Document {
    pub(super) fn words(&self) -> String {
        let mut lines = Vec::new();
        if let Some(region) = &self.region {
            lines.push(format!("region       {}", region.words()));
        }
        lines.extend(self.counts.iter().flat_map(Counts::lines));
        lines.extend(self.members.iter().map(|member| format!("member       {}", member.words())));
        lines.join("\n")
    }
}
