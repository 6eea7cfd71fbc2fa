//! Finds a region by its name: one that a process serves, or an object in `/dev/shm`.

use transload::shared::handover::{HandoverError, Name, look};
use transload::shared::{SharedRegion, named_objects};

use super::args::NameArgs;
use crate::failure::Failure;

/// A region that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) region: SharedRegion,
    pub(super) kind: Kind,
}

/// What has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// A process that serves an anonymous region.
    Socket,
    /// A file in `/dev/shm`.
    Object,
}

impl Found {
    /// # Errors
    ///
    /// Nobody has such a region, or it cannot be looked at.
    pub(super) fn of(args: &NameArgs) -> Result<Self, Failure> {
        match look(&args.name, &args.terms()) {
            Ok(region) => Ok(Self { region, kind: Kind::Socket }),
            Err(error @ HandoverError::NotThere { .. }) => {
                if !is_object(&args.name) {
                    return Err(Failure::new("absent", error)
                        .fix("transload shm list shows the names that there are"));
                }
                let region = SharedRegion::open_named(&args.name.to_string());
                let region = region.map_err(|error| Failure::new("region", error))?;
                Ok(Self { region, kind: Kind::Object })
            }
            Err(error) => Err(Failure::new("region", error)),
        }
    }
}

fn is_object(name: &Name) -> bool {
    let name = name.to_string();
    named_objects().is_ok_and(|objects| objects.iter().any(|object| object.name == name))
}
