//! The side of the client: calls whoever serves a name, and checks what comes back.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::geteuid;

use super::error::HandoverError;
use super::name::Name;
use super::place::Place;
use super::presence::Presence;
use super::socket::{self, Peer};
use super::terms::Terms;
use super::wire::{ANSWER_BYTES, Answer, Kind, Strange, VERSION, Wish};

/// How often is tried what somebody else is about to make possible.
pub(super) const TURN: Duration = Duration::from_millis(5);

/// What a server has granted.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) answer: Answer,
    /// Closed when the server is gone, or this is.
    pub(super) socket: OwnedFd,
    pub(super) descriptor: Option<OwnedFd>,
    /// Declared before the server was asked: so at no moment is the region in nobody's hands.
    pub(super) presence: Option<Presence>,
}

/// Calls whoever serves a name. Nothing if nobody does.
///
/// # Errors
///
/// It refuses, does not answer, is not to be trusted, or answers what is none.
pub(super) fn call(
    name: &Name,
    place: &Place,
    terms: &Terms,
    wish: Wish,
) -> Result<Option<Granted>, HandoverError> {
    let started = Instant::now();
    let mut pid = 0;
    while started.elapsed() <= terms.patience {
        let socket = match place.connect() {
            Ok(Some(socket)) => socket,
            Ok(None) => return Ok(None),
            // So many wait to be accepted that it must be slow.
            Err(HandoverError::Os { source, .. })
                if source.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) =>
            {
                thread::sleep(TURN);
                continue;
            }
            Err(error) => return Err(error),
        };
        let server = trusted(name, &socket, terms)?;
        pid = server.pid;
        let presence = if wish == Wish::Join { Some(place.declare()?) } else { None };
        if socket::send(&socket, &wish.encode(), None).is_err() {
            // Gone since.
            thread::sleep(TURN);
            continue;
        }
        if !socket::wait(&socket, started + terms.patience).map_err(HandoverError::os("poll"))? {
            break;
        }
        let mut bytes = [0; ANSWER_BYTES + 1];
        match socket::receive(&socket, &mut bytes) {
            Ok(received) if received.bytes > 0 => {
                let bytes = bytes.get(..received.bytes).unwrap_or(&bytes);
                let answer = check(name, server, bytes)?;
                let wanted = usize::from(wish.is_for_descriptor());
                let mut descriptors = received.descriptors;
                if descriptors.len() != wanted || received.is_cut {
                    return Err(HandoverError::Descriptors {
                        name: name.to_string(),
                        count: descriptors.len(),
                    });
                }
                return Ok(Some(Granted { answer, socket, descriptor: descriptors.pop(), presence }));
            }
            // It has died, or given up serving.
            Ok(_) | Err(_) => thread::sleep(TURN),
        }
    }
    Err(HandoverError::NotAnswering { name: name.to_string(), pid, waited: started.elapsed() })
}

/// Who listens at the other end, if that is somebody to trust.
pub(super) fn trusted(name: &Name, socket: &OwnedFd, terms: &Terms) -> Result<Peer, HandoverError> {
    let server = socket::peer(socket).map_err(HandoverError::os("SO_PEERCRED"))?;
    if terms.allow(server.uid) {
        return Ok(server);
    }
    Err(HandoverError::ForeignServer { name: name.to_string(), owner: server.uid, uid: geteuid().as_raw() })
}

/// What was granted, or why it was refused.
pub(super) fn check(name: &Name, server: Peer, bytes: &[u8]) -> Result<Answer, HandoverError> {
    let pid = server.pid;
    let name = || name.to_string();
    let refused = |why| Err(HandoverError::Refused { name: name(), pid, why });
    let answer = match Answer::decode(bytes) {
        Ok(answer) => answer,
        Err(Strange::Version(theirs)) => {
            return Err(HandoverError::Version { name: name(), theirs, ours: VERSION });
        }
        Err(Strange::Malformed) => {
            return Err(HandoverError::Malformed { name: name(), what: "its answer is none" });
        }
    };
    match answer.kind {
        Kind::Granted => Ok(answer),
        Kind::WrongUser => {
            let uid = geteuid().as_raw();
            Err(HandoverError::WrongUser { name: name(), owner: answer.uid, pid, uid })
        }
        Kind::Version => Err(HandoverError::Version { name: name(), theirs: VERSION, ours: VERSION }),
        Kind::Malformed => refused("took our hello for none"),
        Kind::Full => refused("has as many connections as it may have"),
        Kind::NoDescriptor => refused("has no descriptor left to give: raise its limit (ulimit -n)"),
    }
}
