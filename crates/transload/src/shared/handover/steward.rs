//! The thread that serves a region, or waits to.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use super::call;
use super::desk::Desk;
use super::error::HandoverError;
use super::place::Place;
use super::post::{Post, Role, Stand};
use super::socket;
use super::wire::{ANSWER_BYTES, Wish};
use crate::fork::ForkStamp;
use crate::shared::held::Held;
use crate::shared::locks::Byte;

/// How often the dead are looked for, if nobody hangs up.
const LOOK: Duration = Duration::from_secs(1);

/// How soon is looked again after a hang-up: the kernel lets go of the locks of a dead process a little later.
const FIRST_LOOK: Duration = Duration::from_millis(2);

/// How soon it is tried to serve on, and how seldom if that goes on failing.
const FIRST_TRY: Duration = Duration::from_millis(2);
const LAST_TRY: Duration = Duration::from_secs(1);

/// What a [`Steward`] does at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It serves the region under its name.
    Serving,
    /// It watches the process that serves.
    Watching,
    /// The process that served is gone, and it tries to serve on, or to find who does.
    Seeking,
    /// Under the name another region is served by now: nobody new comes to this one.
    Superseded,
}

/// Serves a region under its name, or waits to: the thread by which the name outlives the process that made it.
///
/// Of all processes that have the region, one serves its descriptor to those who come. All others keep a connection to
/// it, whose end tells them of its death: then one of them serves on. Its own end tells the one that serves.
///
/// Dropping it ends the thread and gives the name up; the region is another thing, and stays.
#[derive(Debug)]
pub struct Steward {
    wake: Arc<OwnedFd>,
    standing: Arc<Mutex<Standing>>,
    thread: Option<JoinHandle<()>>,
    /// Of the process that has the thread: a child of a fork has not, and may have the same number in another namespace.
    stamp: ForkStamp,
}

impl Steward {
    /// Starts the thread. It calls `look` soon after anybody has gone, and every second: to recover what the dead held.
    ///
    /// # Errors
    ///
    /// There is no thread, or no descriptor, to be had.
    pub fn start(post: Post, look: impl FnMut() + Send + 'static) -> Result<Self, HandoverError> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = Arc::new(wake.map_err(HandoverError::os("eventfd"))?);
        let stamp = ForkStamp::here().map_err(HandoverError::io("madvise(MADV_WIPEONFORK)"))?;
        let Post { role, stand } = post;
        let state = match role {
            Role::Serving(desk) => State::Serving(desk),
            Role::Watching(socket) => State::Watching(socket),
        };
        let standing = Arc::new(Mutex::new(state.standing()));
        let keeper = Keeper {
            state,
            stand,
            look,
            looks: Pace::new(FIRST_LOOK, LOOK),
            stop: wake.clone(),
            standing: standing.clone(),
        };
        let thread = thread::Builder::new()
            .name("transload-shm".to_owned())
            .spawn(move || keeper.run())
            .map_err(HandoverError::io("start the steward's thread"))?;
        Ok(Self { wake, standing, thread: Some(thread), stamp })
    }

    /// What it does at this moment; it may do something else by the time that this is read.
    pub fn standing(&self) -> Standing {
        *locked(&self.standing)
    }
}

impl Drop for Steward {
    fn drop(&mut self) {
        if !self.stamp.is_here() {
            return;
        }
        // The counter has room.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take().filter(|one| one.thread().id() != thread::current().id()) {
            // What it did is done, also if it has panicked.
            let _ = thread.join();
        }
    }
}

fn locked(standing: &Mutex<Standing>) -> MutexGuard<'_, Standing> {
    standing.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
enum State {
    Serving(Desk),
    /// A connection that the server has answered, or will answer as soon as it can.
    Watching(OwnedFd),
    Seeking {
        tries: Pace,
        is_superseded: bool,
    },
}

impl State {
    fn standing(&self) -> Standing {
        match self {
            Self::Serving(_) => Standing::Serving,
            Self::Watching(_) => Standing::Watching,
            Self::Seeking { is_superseded: true, .. } => Standing::Superseded,
            Self::Seeking { .. } => Standing::Seeking,
        }
    }
}

/// When something is done next: at once, then more and more seldom.
#[derive(Clone, Copy, Debug)]
struct Pace {
    first: Duration,
    last: Duration,
    step: Duration,
    next: Instant,
}

impl Pace {
    fn new(first: Duration, last: Duration) -> Self {
        Self { first, last, step: first, next: Instant::now() }
    }

    fn at_once(&mut self) {
        *self = Self::new(self.first, self.last);
    }

    fn seldom(mut self) -> Self {
        self.step = self.last;
        self.next = Instant::now() + self.step;
        self
    }

    /// Whether it is time; then the next time is later.
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next;
        if is_due {
            self.next = now + self.step;
            self.step = (self.step * 2).min(self.last);
        }
        is_due
    }
}

/// What the thread has.
struct Keeper<L> {
    // Dropped before `stand`.
    state: State,
    stand: Stand,
    look: L,
    looks: Pace,
    stop: Arc<OwnedFd>,
    standing: Arc<Mutex<Standing>>,
}

impl<L: FnMut()> Keeper<L> {
    fn run(mut self) {
        loop {
            match self.wait() {
                Ok(events) if events.first().is_some_and(|stop| !stop.is_empty()) => break,
                Ok(events) => self.turn(events.get(1..).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::warn!(%error, "the steward's thread cannot wait");
                    thread::sleep(LOOK);
                }
            }
            *locked(&self.standing) = self.state.standing();
        }
    }

    /// Waits until there is something to do; gives what has come: to stop, then what the state waits for.
    fn wait(&self) -> Result<Vec<PollFlags>, Errno> {
        let mut sockets = vec![PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN)];
        let mut until = self.looks.next;
        match &self.state {
            State::Serving(desk) => {
                sockets.extend(desk.interests());
                until = desk.wakes_at().map_or(until, |at| at.min(until));
            }
            State::Watching(socket) => sockets.push(PollFd::new(socket, PollFlags::IN)),
            State::Seeking { tries, .. } => until = until.min(tries.next),
        }
        let left = until.saturating_duration_since(Instant::now());
        poll(&mut sockets, Some(&socket::timespec(left)))?;
        Ok(sockets.iter().map(PollFd::revents).collect())
    }

    fn turn(&mut self, events: &[PollFlags]) {
        match &mut self.state {
            State::Serving(desk) => {
                if desk.turn(events, &self.stand.region, &self.stand.terms) {
                    self.looks.at_once();
                }
            }
            State::Watching(_) => {
                if events.first().is_some_and(|event| !event.is_empty()) {
                    self.hear();
                }
            }
            State::Seeking { tries, .. } => {
                if tries.is_due()
                    && let Err(error) = self.seek()
                {
                    tracing::debug!(%error, "nobody serves the region yet");
                }
            }
        }
        if self.looks.is_due() {
            (self.look)();
            self.check_name();
        }
    }

    /// The server has answered, or is gone.
    fn hear(&mut self) {
        let State::Watching(socket) = &self.state else { return };
        let mut bytes = [0; ANSWER_BYTES + 1];
        let answer = match socket::receive_bytes(socket, &mut bytes) {
            Err(Errno::AGAIN | Errno::INTR) => return,
            Ok(len) if len > 0 => socket::peer(socket)
                .map_err(HandoverError::os("SO_PEERCRED"))
                .and_then(|peer| call::check(&self.stand.name, peer, bytes.get(..len).unwrap_or(&bytes))),
            _ => {
                self.looks.at_once();
                self.state = State::Seeking { tries: Pace::new(FIRST_TRY, LAST_TRY), is_superseded: false };
                return;
            }
        };
        let tries = Pace::new(FIRST_TRY, LAST_TRY).seldom();
        match answer {
            Ok(answer) if answer.region == self.stand.region.id() => {}
            Ok(answer) => {
                let (name, other) = (&self.stand.name, answer.region);
                tracing::warn!(%name, "another region is served under this name by now: {other:032x}");
                self.state = State::Seeking { tries, is_superseded: true };
            }
            Err(error) => {
                tracing::warn!(%error, "the process that serves the region now will have none of us");
                self.state = State::Seeking { tries, is_superseded: false };
            }
        }
    }

    /// Tries to find who serves the region, or to serve it.
    fn seek(&mut self) -> Result<(), HandoverError> {
        // The folder may have been removed and made again.
        let name = self.stand.name.clone();
        let place = Place::make(&name)?;
        let presence = place.declare()?;
        (self.stand.place, self.stand.presence) = (place, presence);
        if self.watch()? {
            return Ok(());
        }
        let role = self.stand.region.lock(Byte::Serving);
        match role.map_err(HandoverError::io("lock the role of the server"))? {
            Some(role) => self.serve(role),
            // Somebody else is about to.
            None => Ok(()),
        }
    }

    /// Connects to whoever serves, if anybody does.
    fn watch(&mut self) -> Result<bool, HandoverError> {
        let Some(socket) = self.stand.place.connect()? else { return Ok(false) };
        call::trusted(&self.stand.name, &socket, &self.stand.terms)?;
        socket::send(&socket, &Wish::Watch.encode(), None).map_err(HandoverError::os("send"))?;
        self.state = State::Watching(socket);
        Ok(true)
    }

    /// Serves, unless somebody else has begun to.
    fn serve(&mut self, role: Held) -> Result<(), HandoverError> {
        let lock = self.stand.place.lock(Duration::ZERO)?;
        if self.watch()? {
            return Ok(());
        }
        let (listener, mark) = self.stand.place.listen(&lock, self.stand.terms.socket_mode())?;
        tracing::info!(name = %self.stand.name, "serves the region on");
        self.state = State::Serving(Desk::new(listener, mark, Some(role)));
        Ok(())
    }

    /// Notices when the name has been taken away, as by whoever clears temporary files.
    fn check_name(&mut self) {
        let State::Serving(desk) = &self.state else { return };
        if self.stand.place.mark() != Some(desk.mark) {
            tracing::warn!(name = %self.stand.name, "the name has been removed, and is made again");
            self.state = State::Seeking { tries: Pace::new(FIRST_TRY, LAST_TRY), is_superseded: false };
        }
    }
}
