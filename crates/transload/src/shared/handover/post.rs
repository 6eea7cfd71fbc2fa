//! What a process has in hand once it has made or got a region: the server's socket, or a connection to the server.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::desk::Desk;
use super::name::Name;
use super::place::Place;
use super::presence::Presence;
use super::terms::Terms;
use crate::shared::region::SharedRegion;

/// How long one who leaves waits for the right to remove the name. A name that stays is stale, and replaced.
const PARTING: Duration = Duration::from_millis(500);

/// What a process holds while it has the region of a name: its part in serving it.
///
/// Nobody is served, and no death is noticed, until a [`Steward`](super::Steward) has it. Dropping it gives the name up,
/// and removes it if nobody else has its region.
#[derive(Debug)]
pub struct Post {
    // Dropped before `stand`, so that whoever takes over finds nobody here.
    pub(super) role: Role,
    pub(super) stand: Stand,
}

impl Post {
    /// Whether this process serves the region.
    pub fn is_serving(&self) -> bool {
        matches!(self.role, Role::Serving(_))
    }
}

/// What a process does for a name.
#[derive(Debug)]
pub(super) enum Role {
    Serving(Desk),
    Watching(OwnedFd),
}

/// Where a process stands: at a name, declared present.
#[derive(Debug)]
pub(super) struct Stand {
    pub(super) name: Name,
    pub(super) terms: Terms,
    pub(super) region: SharedRegion,
    pub(super) place: Place,
    pub(super) presence: Presence,
}

impl Stand {
    pub(super) fn new(
        name: &Name,
        terms: &Terms,
        region: SharedRegion,
        place: Place,
        presence: Presence,
    ) -> Self {
        Self { name: name.clone(), terms: terms.clone(), region, place, presence }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // A child of a fork leaves nothing, since it has not come.
        if self.region.check_process().is_err() {
            return;
        }
        if let Err(error) = self.place.remove_if_stale(&self.presence, PARTING) {
            tracing::debug!(%error, "a name may stay behind");
        }
    }
}
