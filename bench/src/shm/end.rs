//! What the two processes of a run agree on, and what each does.

use std::os::fd::{OwnedFd, RawFd};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use transload::shared::SharedRegion;

use super::content::{Content, Hashed, Plain};
use super::drive::{Outcome, Until, drain, ping, pong, pour};
use super::folder::{Folder, Names};
use super::iceoryx::{Iceoryx, Side};
use super::line::Line;
use super::link::Link;
use super::ours::{Ours, region};
use super::peer::{Peer, inherited};
use super::way::Way;
use crate::BATCH;

/// Words of the small messages and of the large ones.
pub(super) const SMALL: usize = 8;
pub(super) const LARGE: usize = 512;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Task {
    /// A message there, and one back.
    Trips,
    /// Messages one way.
    Flow,
}

impl Task {
    /// Messages that may wait.
    fn slots(self) -> usize {
        match self {
            Self::Trips => 16,
            Self::Flow => 1024,
        }
    }

    /// Messages that are taken at once, where that can be asked for.
    fn most(self) -> usize {
        match self {
            Self::Trips => 1,
            Self::Flow => BATCH,
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) way: Way,
    pub(super) task: Task,
    /// Of a message: [`SMALL`] or [`LARGE`].
    pub(super) words: usize,
    /// Whether each bit depends on the message.
    pub(super) is_hashed: bool,
}

/// Where the two processes meet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Place {
    /// Memory, by descriptors that the other process inherits.
    Descriptors(Vec<RawFd>),
    /// Files.
    Names(Names),
}

impl Run {
    /// Runs with a peer on that core, and says how long it took.
    pub(super) fn near(self, core: usize, until: Until) -> Result<Outcome> {
        match (self.words, self.is_hashed) {
            (SMALL, false) => self.near_of::<SMALL, Plain>(core, until),
            (SMALL, true) => self.near_of::<SMALL, Hashed>(core, until),
            (LARGE, false) => self.near_of::<LARGE, Plain>(core, until),
            (LARGE, true) => self.near_of::<LARGE, Hashed>(core, until),
            (words, _) => bail!("no messages of {words} words"),
        }
    }

    /// Is the peer.
    pub(super) fn far(self, place: &Place) -> Result<()> {
        match (self.words, self.is_hashed) {
            (SMALL, false) => self.far_of::<SMALL, Plain>(place),
            (SMALL, true) => self.far_of::<SMALL, Hashed>(place),
            (LARGE, false) => self.far_of::<LARGE, Plain>(place),
            (LARGE, true) => self.far_of::<LARGE, Hashed>(place),
            (words, _) => bail!("no messages of {words} words"),
        }
    }

    fn near_of<const WORDS: usize, C: Content>(self, core: usize, until: Until) -> Result<Outcome> {
        let (slots, most) = (self.task.slots(), self.task.most());
        match self.way {
            Way::Line => {
                let (link, file) = Line::create()?;
                let peer = Peer::inheriting(self, core, &[file])?;
                self.measure::<WORDS, C>(link, peer, until)
            }
            Way::Copy | Way::InPlace | Way::Ahead => {
                let (there, back) = (region(slots, WORDS * 8)?, region(slots, WORDS * 8)?);
                let link = Ours::<WORDS>::join(&there, &back, self.way, most)?;
                let peer = Peer::inheriting(self, core, &[there.file_for_peer()?, back.file_for_peer()?])?;
                self.measure::<WORDS, C>(link, peer, until)
            }
            Way::Iceoryx | Way::IceoryxAhead | Way::IceoryxPolling => {
                let folder = Folder::create()?;
                let link = Iceoryx::<WORDS>::open(folder.names(), Side::Near, self.way, slots, most)?;
                let peer = Peer::start(self, core, Place::Names(folder.names().clone()))?;
                self.measure::<WORDS, C>(link, peer, until)
            }
        }
    }

    fn measure<const WORDS: usize, C: Content>(
        self,
        mut link: impl Link<WORDS>,
        peer: Peer,
        until: Until,
    ) -> Result<Outcome> {
        let outcome = match self.task {
            Task::Trips => ping::<WORDS, C>(&mut link, until)?,
            Task::Flow => pour::<WORDS, C>(&mut link, 2 * self.task.slots() as u64, until)?,
        };
        peer.finish()?;
        Ok(outcome)
    }

    fn far_of<const WORDS: usize, C: Content>(self, place: &Place) -> Result<()> {
        let (slots, most) = (self.task.slots(), self.task.most());
        match (self.way, place) {
            (Way::Line, Place::Descriptors(files)) => {
                let [file] = own(files)?;
                self.answer::<WORDS, C>(Line::open(file)?)
            }
            (Way::Copy | Way::InPlace | Way::Ahead, Place::Descriptors(files)) => {
                let [there, back] = own(files)?;
                let (there, back) = (SharedRegion::open(there)?, SharedRegion::open(back)?);
                self.answer::<WORDS, C>(Ours::<WORDS>::join(&back, &there, self.way, most)?)
            }
            (Way::Iceoryx | Way::IceoryxAhead | Way::IceoryxPolling, Place::Names(names)) => {
                self.answer::<WORDS, C>(Iceoryx::<WORDS>::open(names, Side::Far, self.way, slots, most)?)
            }
            (way, place) => bail!("{way:?} does not meet at {place:?}"),
        }
    }

    fn answer<const WORDS: usize, C: Content>(self, mut link: impl Link<WORDS>) -> Result<()> {
        super::peer::say_ready()?;
        match self.task {
            Task::Trips => pong::<WORDS, C>(&mut link)?,
            Task::Flow => drain::<WORDS, C>(&mut link)?,
        }
        super::peer::wait_for_the_end()
    }
}

fn own<const COUNT: usize>(numbers: &[RawFd]) -> Result<[OwnedFd; COUNT]> {
    match <[RawFd; COUNT]>::try_from(numbers) {
        Ok(numbers) => Ok(numbers.map(inherited)),
        Err(_) => bail!("{} descriptors where there must be {COUNT}", numbers.len()),
    }
}
