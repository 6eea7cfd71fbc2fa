//! The side of the server: a listener, and those who have called.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Resource, geteuid, getrlimit};

use super::place::Mark;
use super::socket::{self, Peer};
use super::terms::Terms;
use super::wire::{Answer, HELLO_BYTES, Kind, Strange, Wish};
use crate::shared::held::Held;
use crate::shared::region::SharedRegion;

/// How long a client may take to say what it wants.
const SILENCE: Duration = Duration::from_secs(2);

/// Clients that have not said it yet; one more, and the first of them is closed.
const SILENT: usize = 64;

/// Connections at most, whatever the limit of descriptors.
const CONNECTIONS: u64 = 2048;

/// Connections that are accepted before anything else is done.
const ACCEPTS: usize = 16;

/// How long nobody is accepted when there is no descriptor for it.
const DEAF: Duration = Duration::from_millis(100);

/// Where clients are served, by a thread that waits for all of them at once.
#[derive(Debug)]
pub(super) struct Desk {
    listener: OwnedFd,
    pub(super) mark: Mark,
    visitors: Vec<Visitor>,
    most: usize,
    /// Until then nobody is accepted, for want of descriptors; and whether that was told since somebody was.
    deaf_until: Option<Instant>,
    is_deafness_told: bool,
    /// The role of the one who serves this region.
    _role: Option<Held>,
}

/// A client that has called.
#[derive(Debug)]
struct Visitor {
    socket: OwnedFd,
    peer: Peer,
    since: Instant,
    /// It has said what it wants, and got it.
    is_served: bool,
}

/// What becomes of a visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Stays,
    Leaves,
}

impl Desk {
    pub(super) fn new(listener: OwnedFd, mark: Mark, role: Option<Held>) -> Self {
        // Others of this process need descriptors as well.
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 2;
        let most = usize::try_from(limit.min(CONNECTIONS)).unwrap_or(0);
        Self {
            listener,
            mark,
            visitors: Vec::new(),
            most,
            deaf_until: None,
            is_deafness_told: false,
            _role: role,
        }
    }

    /// What it waits for: the listener, then each visitor.
    pub(super) fn interests(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listens = if self.deaf_until.is_none() { PollFlags::IN } else { PollFlags::empty() };
        let visitors = self.visitors.iter().map(|visitor| PollFd::new(&visitor.socket, PollFlags::IN));
        std::iter::once(PollFd::new(&self.listener, listens)).chain(visitors)
    }

    /// When it has something to do, even if nothing comes.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        self.deaf_until
    }

    /// Does what is to be done, after a wait for its interests. Says whether somebody who was served is gone.
    pub(super) fn turn(&mut self, events: &[PollFlags], region: &SharedRegion, terms: &Terms) -> bool {
        let now = Instant::now();
        let mut anybody_gone = false;
        let most = self.most;
        let mut served = self.visitors.iter().filter(|visitor| visitor.is_served).count();
        let mut event = events.iter().skip(1);
        self.visitors.retain_mut(|visitor| {
            let has_event = event.next().is_some_and(|event| !event.is_empty());
            let was_served = visitor.is_served;
            let then = if has_event {
                visitor.hear(region, terms, served < most)
            } else if !was_served && now.duration_since(visitor.since) >= SILENCE {
                tracing::debug!(peer = ?visitor.peer, "closed a connection that said nothing");
                Then::Leaves
            } else {
                Then::Stays
            };
            served += usize::from(visitor.is_served && !was_served);
            anybody_gone |= was_served && then == Then::Leaves;
            then == Then::Stays
        });
        if self.deaf_until.is_some_and(|until| until <= now) {
            self.deaf_until = None;
        }
        if events.first().is_some_and(|event| !event.is_empty()) {
            self.accept();
        }
        anybody_gone
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => match socket::peer(&socket) {
                    Ok(peer) => {
                        self.is_deafness_told = false;
                        self.welcome(Visitor { socket, peer, since: Instant::now(), is_served: false });
                    }
                    Err(error) => tracing::debug!(%error, "a client is nobody"),
                },
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => {
                    if !std::mem::replace(&mut self.is_deafness_told, true) {
                        tracing::warn!(%error, "no client can be accepted for the moment");
                    }
                    self.deaf_until = Some(Instant::now() + DEAF);
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, visitor: Visitor) {
        let silent = self.visitors.iter().filter(|visitor| !visitor.is_served).count();
        if silent >= SILENT {
            let first = self.visitors.iter().position(|visitor| !visitor.is_served);
            drop(first.map(|first| self.visitors.remove(first)));
        }
        self.visitors.push(visitor);
    }
}

impl Visitor {
    /// Takes what it says, and answers.
    fn hear(&mut self, region: &SharedRegion, terms: &Terms, has_room: bool) -> Then {
        let mut bytes = [0; HELLO_BYTES + 1];
        let len = match socket::receive_bytes(&self.socket, &mut bytes) {
            Ok(0) => return Then::Leaves,
            Ok(len) => len,
            Err(Errno::AGAIN | Errno::INTR) => return Then::Stays,
            Err(_) => return Then::Leaves,
        };
        if self.is_served {
            // It has nothing to say any more.
            return Then::Leaves;
        }
        let (kind, descriptor) = match Wish::decode(bytes.get(..len).unwrap_or(&bytes)) {
            _ if !terms.allow(self.peer.uid) => (Kind::WrongUser, None),
            Err(Strange::Version(_)) => (Kind::Version, None),
            Err(Strange::Malformed) => (Kind::Malformed, None),
            Ok(_) if !has_room => (Kind::Full, None),
            Ok(wish) if wish.is_for_descriptor() => match region.file_for_peer() {
                Ok(file) => (Kind::Granted, Some(file)),
                Err(error) => {
                    tracing::warn!(%error, "there is no descriptor for a client");
                    (Kind::NoDescriptor, None)
                }
            },
            Ok(_) => (Kind::Granted, None),
        };
        let answer = Answer { kind, region: region.id(), pid: std::process::id(), uid: geteuid().as_raw() };
        let sent = socket::send(&self.socket, &answer.encode(), descriptor.as_ref());
        if kind != Kind::Granted {
            tracing::debug!(peer = ?self.peer, ?kind, "refused a client");
        }
        self.is_served = kind == Kind::Granted && sent.is_ok();
        if self.is_served { Then::Stays } else { Then::Leaves }
    }
}
