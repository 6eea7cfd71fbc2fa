//! `transload shm reclaim`.

use serde::Serialize;
use transload::shared::handover::remove_stale;
use transload::shared::{SharedError, unlink_dead_named};

use super::args::NameArgs;
use super::found::{Found, Kind};
use super::words::MemberWords;
use crate::failure::Failure;

/// The document of `--json`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Document {
    schema: u32,
    name: String,
    /// Those who had died, with what they held.
    dead: Vec<MemberWords>,
    /// Slots that are free again.
    freed: u64,
    /// Messages that will be delivered once more.
    put_back: u64,
    /// Slots that a kernel or a device may still access: nobody gets them again.
    quarantined: u64,
    /// What was removed, since nobody has it any more.
    removed: Option<Kind>,
    pub(super) error: Option<Failure>,
}

pub(super) fn document(args: &NameArgs) -> Document {
    let mut document = Document { schema: 1, name: args.name.to_string(), ..Document::default() };
    document.error = document.reclaim(args).err();
    document
}

impl Document {
    fn reclaim(&mut self, args: &NameArgs) -> Result<(), Failure> {
        let stale = remove_stale(&args.name, &args.terms());
        if stale.map_err(|error| Failure::new("folder", error))? {
            self.removed = Some(Kind::Socket);
            return Ok(());
        }
        let Found { region, kind } = Found::of(args)?;
        let mut members = MemberWords::all(&region);
        let recovered = region.recover();
        (self.freed, self.put_back) = (recovered.freed, recovered.put_back);
        self.quarantined = recovered.quarantined;
        let lives = members.iter().any(|member| member.alive);
        members.retain(|member| member.is_somebody() && !member.alive);
        self.dead = members;
        drop(region);
        if kind == Kind::Object && !lives {
            match unlink_dead_named(&self.name) {
                Ok(()) => self.removed = Some(kind),
                // Somebody has come since, or looks at it.
                Err(SharedError::NameInUse { .. }) => {}
                Err(error) => return Err(Failure::new("region", error)),
            }
        }
        Ok(())
    }

    pub(super) fn words(&self) -> String {
        let mut lines: Vec<String> =
            self.dead.iter().map(|member| format!("dead         {}", member.words())).collect();
        if self.error.is_none() {
            let Self { freed, put_back, quarantined, .. } = self;
            lines.push(format!(
                "reclaimed    {freed} slots freed, {put_back} messages put back, {quarantined} slots quarantined"
            ));
        }
        match self.removed {
            Some(Kind::Socket) => lines.push("removed      the stale name: nobody had its region".to_owned()),
            Some(Kind::Object) => lines.push("removed      the object: nobody had it open".to_owned()),
            None => {}
        }
        lines.join("\n")
    }
}
