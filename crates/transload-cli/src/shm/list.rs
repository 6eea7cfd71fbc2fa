//! `transload shm list`.

use std::path::PathBuf;

use serde::Serialize;
use transload::shared::handover::{Life, Named, Terms, look, names};
use transload::shared::{NamedObject, named_objects};

use super::words::{MemberWords, RegionWords};
use crate::failure::Failure;

/// The document of `--json`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Document {
    schema: u32,
    names: Vec<NameWords>,
    objects: Vec<ObjectWords>,
    pub(super) error: Option<Failure>,
}

#[derive(Debug, Serialize)]
struct NameWords {
    name: String,
    path: PathBuf,
    /// `served`, `unserved` (processes have the region, and none of them answers yet), `unknown`, or `stale`.
    state: &'static str,
    /// Why it is unknown, or why its region cannot be looked at.
    why: Option<String>,
    /// The process that serves, and its user.
    pid: Option<u32>,
    owner: Option<u32>,
    region: Option<RegionWords>,
    /// How many take part, the dead included.
    members: Option<usize>,
    dead: Option<usize>,
}

#[derive(Debug, Serialize)]
struct ObjectWords {
    name: String,
    owner: u32,
    bytes: u64,
}

pub(super) fn document() -> Document {
    let mut document = Document { schema: 1, ..Document::default() };
    match names() {
        Ok(names) => document.names = names.into_iter().map(NameWords::of).collect(),
        Err(error) => document.error = Some(Failure::new("folder", error)),
    }
    // Without /dev/shm there are no objects in it.
    let objects = named_objects().unwrap_or_default();
    document.objects = objects
        .into_iter()
        .map(|NamedObject { name, owner, bytes, .. }| ObjectWords { name, owner, bytes })
        .collect();
    document
}

impl NameWords {
    fn of(named: Named) -> Self {
        let Named { name, path, life, .. } = named;
        let words = |state| Self {
            name: name.to_string(),
            path,
            state,
            why: None,
            pid: None,
            owner: None,
            region: None,
            members: None,
            dead: None,
        };
        match life {
            Life::Served { pid, uid, .. } => {
                let served = Self { pid: Some(pid), owner: Some(uid), ..words("served") };
                match look(&name, &Terms::new()) {
                    Ok(region) => {
                        let members = MemberWords::all(&region);
                        let count = |is_so: fn(&MemberWords) -> bool| {
                            Some(
                                members.iter().filter(|member| member.is_somebody() && is_so(member)).count(),
                            )
                        };
                        Self {
                            region: Some(RegionWords::of(&region)),
                            members: count(|_| true),
                            dead: count(|member| !member.alive),
                            ..served
                        }
                    }
                    Err(error) => Self { why: Some(error.to_string()), ..served },
                }
            }
            Life::Unserved => words("unserved"),
            Life::Stale => words("stale"),
            Life::Unknown { why } => Self { why: Some(why), ..words("unknown") },
            _ => words("unknown"),
        }
    }

    fn words(&self) -> String {
        let Self { name, path, why, pid, owner, region, members, dead, .. } = self;
        let mut parts = vec![match (self.state, pid, owner) {
            ("served", Some(pid), Some(owner)) => format!("served by process {pid} of uid {owner}"),
            ("unserved", ..) => "held by processes that do not serve it at the moment".to_owned(),
            ("stale", ..) => "stale: nobody has its region, and the next pump replaces it".to_owned(),
            _ => "unknown".to_owned(),
        }];
        parts.extend(region.as_ref().map(RegionWords::words));
        if let (Some(members), Some(dead)) = (members, dead) {
            parts.push(format!("{members} members, {dead} of them dead"));
        }
        parts.extend(why.clone());
        format!("shm:{name}  {}  ({})", parts.join(", "), path.display())
    }
}

impl Document {
    pub(super) fn words(&self) -> String {
        let objects = self.objects.iter().map(|ObjectWords { name, owner, bytes }| {
            format!("{name}  object of uid {owner} in /dev/shm, {bytes} bytes")
        });
        let lines: Vec<String> = self.names.iter().map(NameWords::words).chain(objects).collect();
        if lines.is_empty() && self.error.is_none() { "no regions".to_owned() } else { lines.join("\n") }
    }
}
