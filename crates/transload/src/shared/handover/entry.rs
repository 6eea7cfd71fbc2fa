//! Making a region under a name, and getting one by its name.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::Instant;

use super::call::{Granted, TURN, call};
use super::desk::Desk;
use super::error::HandoverError;
use super::name::Name;
use super::place::{Place, whereabouts};
use super::post::{Post, Role, Stand};
use super::terms::Terms;
use super::wire::Wish;
use crate::shared::error::SharedError;
use crate::shared::locks::Byte;
use crate::shared::region::SharedRegion;

/// Makes a region, and serves it under a name. A stale name is replaced.
///
/// `make` is called at most once, and only if nobody has a region of that name; what it has made is dropped if somebody
/// else was faster.
///
/// # Errors
///
/// Others have a region of that name; `make` fails; the folder of names cannot be used.
pub fn create(
    name: &Name,
    terms: &Terms,
    make: impl FnOnce() -> Result<SharedRegion, SharedError>,
) -> Result<(SharedRegion, Post), HandoverError> {
    let mut plan = Plan::new(name, terms, make);
    loop {
        let place = Place::make(name)?;
        if let Some(granted) = reach(name, &place, terms, Wish::Watch)? {
            let (pid, uid) = (granted.answer.pid, granted.answer.uid);
            return Err(HandoverError::InUse { name: name.to_string(), pid, uid });
        }
        if let Some(done) = plan.publish(place)? {
            return Ok(done);
        }
    }
}

/// Gets a region from whoever serves it.
///
/// # Errors
///
/// Nobody has a region of that name; its server refuses, does not answer, or hands over what is none.
pub fn attach(name: &Name, terms: &Terms) -> Result<(SharedRegion, Post), HandoverError> {
    match Place::find(name)? {
        Some(place) => match reach(name, &place, terms, Wish::Join)? {
            Some(granted) => joined(name, terms, place, granted),
            None => Err(not_there(name)),
        },
        None => Err(not_there(name)),
    }
}

/// Gets a region from whoever serves it, or makes and serves one. Says whether it was made.
///
/// # Errors
///
/// As [`create`] and [`attach`], except that a name may be in use, or not.
pub fn create_or_attach(
    name: &Name,
    terms: &Terms,
    make: impl FnOnce() -> Result<SharedRegion, SharedError>,
) -> Result<(SharedRegion, Post, bool), HandoverError> {
    let mut plan = Plan::new(name, terms, make);
    loop {
        let place = Place::make(name)?;
        if let Some(granted) = reach(name, &place, terms, Wish::Join)? {
            return joined(name, terms, place, granted).map(|(region, post)| (region, post, false));
        }
        if let Some((region, post)) = plan.publish(place)? {
            return Ok((region, post, true));
        }
    }
}

/// Gets a region to look at it, without a part in keeping it.
///
/// # Errors
///
/// As [`attach`].
pub fn look(name: &Name, terms: &Terms) -> Result<SharedRegion, HandoverError> {
    let Some(place) = Place::find(name)? else { return Err(not_there(name)) };
    match reach(name, &place, terms, Wish::Look)? {
        Some(granted) => opened(name, granted.descriptor, granted.answer.region),
        None => Err(not_there(name)),
    }
}

/// Calls until somebody answers; nothing if nobody has the region any more. While its server is dead and others live,
/// one of those is about to serve.
fn reach(name: &Name, place: &Place, terms: &Terms, wish: Wish) -> Result<Option<Granted>, HandoverError> {
    let started = Instant::now();
    loop {
        if let Some(granted) = call(name, place, terms, wish)? {
            return Ok(Some(granted));
        }
        if !place.has_anybody()? {
            return Ok(None);
        }
        if started.elapsed() >= terms.patience {
            return Err(HandoverError::Unserved { name: name.to_string(), waited: started.elapsed() });
        }
        thread::sleep(TURN);
    }
}

fn joined(
    name: &Name,
    terms: &Terms,
    place: Place,
    granted: Granted,
) -> Result<(SharedRegion, Post), HandoverError> {
    let Granted { answer, socket, descriptor, presence } = granted;
    let region = opened(name, descriptor, answer.region)?;
    let presence = match presence {
        Some(presence) => presence,
        None => place.declare()?,
    };
    let stand = Stand::new(name, terms, region.clone(), place, presence);
    Ok((region, Post { role: Role::Watching(socket), stand }))
}

/// Opens what was handed over, and makes sure that it is what was spoken of.
fn opened(name: &Name, descriptor: Option<OwnedFd>, told: u128) -> Result<SharedRegion, HandoverError> {
    let descriptor =
        descriptor.ok_or_else(|| HandoverError::Descriptors { name: name.to_string(), count: 0 })?;
    let region = SharedRegion::open(descriptor).map_err(|error| unusable(name, error))?;
    match region.id() {
        there if there == told => Ok(region),
        there => Err(HandoverError::OtherRegion { name: name.to_string(), told, there }),
    }
}

fn unusable(name: &Name, source: SharedError) -> HandoverError {
    HandoverError::Region { name: name.to_string(), source }
}

fn not_there(name: &Name) -> HandoverError {
    HandoverError::NotThere { name: name.to_string(), path: whereabouts(name) }
}

/// A region that is made when it is wanted, and once.
struct Plan<'a, M> {
    name: &'a Name,
    terms: &'a Terms,
    make: Option<M>,
    made: Option<SharedRegion>,
}

impl<'a, M: FnOnce() -> Result<SharedRegion, SharedError>> Plan<'a, M> {
    fn new(name: &'a Name, terms: &'a Terms, make: M) -> Self {
        Self { name, terms, make: Some(make), made: None }
    }

    /// Makes the region and serves it at its place; nothing if somebody else has one there by now.
    ///
    /// Memory takes its time: it is made before the folder is locked, so that nobody waits for it.
    fn publish(&mut self, place: Place) -> Result<Option<(SharedRegion, Post)>, HandoverError> {
        let region = match (self.made.take(), self.make.take()) {
            (Some(region), _) => region,
            (None, Some(make)) => make().map_err(|error| unusable(self.name, error))?,
            (None, None) => return Err(not_there(self.name)),
        };
        let lock = place.lock(self.terms.patience)?;
        if place.connect()?.is_some() || place.has_anybody()? {
            self.made = Some(region);
            return Ok(None);
        }
        let presence = place.declare()?;
        // Nobody else can have it: the region is new.
        let serving = region.lock(Byte::Serving).map_err(HandoverError::io("lock the role of the server"))?;
        let (listener, mark) = place.listen(&lock, self.terms.socket_mode())?;
        let role = Role::Serving(Desk::new(listener, mark, serving));
        Ok(Some((
            region.clone(),
            Post { role, stand: Stand::new(self.name, self.terms, region, place, presence) },
        )))
    }
}
