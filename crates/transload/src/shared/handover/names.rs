//! Which names there are, and who is behind them.

use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::Dir;

use super::call::call;
use super::error::HandoverError;
use super::folder::{Folder, Missing};
use super::name::Name;
use super::place::{Place, SUFFIX};
use super::terms::Terms;
use super::wire::Wish;

/// How long each may take to answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// A name in the user's runtime folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Named {
    /// The name.
    pub name: Name,
    /// Its socket.
    pub path: PathBuf,
    /// Who is behind it.
    pub life: Life,
}

/// Who is behind a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Life {
    /// A process serves its region.
    Served {
        /// The process.
        pid: u32,
        /// To whom it belongs.
        uid: u32,
        /// The number of the region.
        region: u128,
    },
    /// Processes have its region, and none of them serves it at this moment: soon one will, unless they are stopped.
    Unserved,
    /// Somebody listens who does not answer as a server does.
    Unknown {
        /// What is wrong.
        why: String,
    },
    /// Nobody has its region any more: the name is replaced by whoever makes the next.
    Stale,
}

/// The names in the user's runtime folder, in order.
///
/// # Errors
///
/// The folder cannot be used.
pub fn names() -> Result<Vec<Named>, HandoverError> {
    let Some(folder) = Folder::runtime(Missing::Leave)? else { return Ok(Vec::new()) };
    let failed = HandoverError::os;
    let mut all = Vec::new();
    for entry in Dir::read_from(folder.fd()).map_err(failed("read the folder of names"))? {
        let entry = entry.map_err(failed("read the folder of names"))?;
        let file = entry.file_name().to_str().ok().and_then(|file| file.strip_suffix(SUFFIX));
        let Some(Ok(name)) = file.map(str::parse::<Name>) else { continue };
        // Removed since, if it is not found.
        let Some(place) = Place::find(&name)? else { continue };
        let path = place.path().clone();
        all.push(Named { life: life(&name, &place), name, path });
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// Removes a name whose region nobody has any more; says whether it was there, and such a one.
///
/// # Errors
///
/// The folder cannot be used, or what has the name is no socket.
pub fn remove_stale(name: &Name, terms: &Terms) -> Result<bool, HandoverError> {
    let Some(place) = Place::find(name)? else { return Ok(false) };
    place.remove_if_stale(&place.observe()?, terms.patience)
}

fn life(name: &Name, place: &Place) -> Life {
    match call(name, place, &Terms::new().patience(PATIENCE), Wish::Watch) {
        Ok(Some(granted)) => {
            let answer = granted.answer;
            Life::Served { pid: answer.pid, uid: answer.uid, region: answer.region }
        }
        Ok(None) => match place.has_anybody() {
            Ok(false) => Life::Stale,
            Ok(true) => Life::Unserved,
            Err(error) => Life::Unknown { why: error.to_string() },
        },
        Err(error) => Life::Unknown { why: error.to_string() },
    }
}
