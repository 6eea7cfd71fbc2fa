//! What every source has that copies payloads into slots.

use std::cell::Cell;
use std::sync::Arc;

use transload_core::Flag;

use super::{Ended, Outlet, Why};
use crate::assembler::{Assembler, Broken, Last};
use crate::framing::Framing;
use crate::pump::digest::Digests;
use crate::pump::tally::Tally;

/// Copies payloads into slots, and counts.
#[derive(Debug)]
pub(in crate::pump) struct Stage {
    pub(in crate::pump) outlet: Outlet,
    pub(in crate::pump) framing: Framing,
    /// The most bytes of a payload.
    pub(in crate::pump) message_size: usize,
    /// How many messages are still to be offered, if not any number.
    pub(in crate::pump) left: Cell<Option<u64>>,
    /// Where messages are noted if they are to be checked.
    pub(in crate::pump) digests: Option<Digests>,
    /// Raised if the last line has no end.
    pub(in crate::pump) unended: Arc<Flag>,
    pub(in crate::pump) tally: Arc<Tally>,
}

/// Why an input is not read on.
#[derive(Clone, Copy, Debug)]
pub(in crate::pump) enum Halt {
    /// The source ends.
    Source(Why),
    /// The input is broken.
    Broken(Broken),
}

impl From<Why> for Halt {
    fn from(why: Why) -> Self {
        Self::Source(why)
    }
}

impl From<Broken> for Halt {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<Halt> for Ended {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Source(why) => Ok(why),
            Halt::Broken(broken) => Err(broken.into()),
        }
    }
}

impl Stage {
    /// What cuts an input of its own.
    pub(in crate::pump) fn assembler(&self) -> Assembler {
        Assembler::new(self.framing, self.message_size)
    }

    /// How many messages may be offered at once.
    pub(in crate::pump) fn limit(&self) -> usize {
        self.left.get().map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// Whether there is any to be offered.
    pub(in crate::pump) fn begin(&self) -> Result<(), Why> {
        self.offered(0)
    }

    /// Notes that so many messages were offered.
    pub(in crate::pump) fn offered(&self, messages: u64) -> Result<(), Why> {
        let left = self.left.get().map(|left| left.saturating_sub(messages));
        self.left.set(left);
        if left == Some(0) { Err(Why::Messages) } else { Ok(()) }
    }

    /// Notes a message that is in its slot, before it is on its way.
    pub(in crate::pump) fn note(&self, slot: &[u8]) {
        if let Some(digests) = &self.digests {
            digests.note(slot);
        }
    }

    /// Offers the messages that a piece of an input completes.
    pub(in crate::pump) fn piece(&self, assembler: &mut Assembler, mut piece: &[u8]) -> Result<(), Halt> {
        while let Some(payload) = assembler.next(&mut piece)? {
            self.offer(payload, || ())?;
        }
        Ok(())
    }

    /// Offers the message that an input ends with, if there is one.
    pub(in crate::pump) fn end(&self, assembler: &mut Assembler) -> Result<(), Halt> {
        match assembler.end()? {
            Last::Nothing => {}
            Last::Message(payload) => self.offer(payload, || ())?,
            // Before the message is on its way, so that whoever writes it back knows.
            Last::UnendedLine(payload) => self.offer(payload, || self.unended.raise())?,
        }
        Ok(())
    }

    fn offer(&self, payload: &[u8], before: impl FnOnce()) -> Result<(), Why> {
        let goes_on = self.outlet.offer(|slot| {
            before();
            self.framing.fill(slot, payload);
            self.note(slot);
            self.tally.staged_bytes.add_as_only_writer(payload.len() as u64);
        });
        if goes_on { self.offered(1) } else { Err(Why::Stopped) }
    }
}
