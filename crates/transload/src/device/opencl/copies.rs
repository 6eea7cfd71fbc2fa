//! The copies that one transfer is made of.

use opencl3::types::{cl_event, cl_int};

use super::event::{Progress, progress};
use super::handle::{Event, Handle};

/// What was enqueued of a transfer: a copy a piece.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// As many as a batch of a staging ring can have on its way through a kernel: it allocates nothing.
    events: [Option<Handle<Event>>; 5],
    more: Vec<Handle<Event>>,
    /// A copy that was refused after another one of the transfer had been enqueued.
    refused: Option<cl_int>,
    /// A copy that was enqueued and has no event.
    untracked: bool,
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// All copies succeeded.
    Landed,
    /// All have ended, and not all succeeded.
    Failed(cl_int),
    /// The driver cannot say of one of them.
    Unknown(&'static str, cl_int),
}

impl Copies {
    /// Notes a copy; says whether the transfer can still be handed back, for the reason given.
    pub(super) fn note(&mut self, enqueued: Result<cl_event, cl_int>) -> Result<(), cl_int> {
        match enqueued {
            // SAFETY: the call that enqueued the copy gave us a reference to its event.
            Ok(event) => match unsafe { Handle::own(event) } {
                Some(event) => match self.events.iter_mut().find(|place| place.is_none()) {
                    Some(place) => *place = Some(event),
                    None => self.more.push(event),
                },
                None => self.untracked = true,
            },
            Err(code) if self.events[0].is_none() && !self.untracked => return Err(code),
            Err(code) => self.refused = Some(code),
        }
        Ok(())
    }

    /// Whether all copies that were noted can be followed to their ends. If not, further ones are of no use.
    pub(super) fn is_whole(&self) -> bool {
        self.refused.is_none() && !self.untracked
    }

    fn events(&self) -> impl DoubleEndedIterator<Item = &Handle<Event>> {
        self.events.iter().flatten().chain(&self.more)
    }

    /// How they ended; `None` while one of them has not.
    pub(super) fn ended(&self) -> Option<Ended> {
        // The last one first: while it runs, nothing else need be asked.
        judge(self.refused, self.untracked, self.events().rev().map(progress))
    }

    /// The event after which all of the transfer has landed; `None` if there is none, or something has failed already.
    pub(super) fn last_event(&self) -> Option<&Handle<Event>> {
        self.events().next_back().filter(|_| self.is_whole())
    }

    /// Never releases the events.
    pub(super) fn leak(&mut self) {
        self.events.iter_mut().flatten().chain(&mut self.more).for_each(Handle::leak);
    }
}

/// Judges a transfer by the progress of its copies, the last one first.
fn judge(refused: Option<cl_int>, untracked: bool, copies: impl Iterator<Item = Progress>) -> Option<Ended> {
    if untracked {
        return Some(Ended::Unknown("the enqueue that gave no event", 0));
    }
    let mut ended = refused.map_or(Ended::Landed, Ended::Failed);
    for copy in copies {
        match copy {
            Progress::Running => return None,
            Progress::Landed => {}
            Progress::Failed(code) => ended = Ended::Failed(code),
            Progress::Unknown(call, code) => return Some(Ended::Unknown(call, code)),
        }
    }
    Some(ended)
}

#[cfg(test)]
mod tests {
    use super::Progress::{Failed, Landed, Running, Unknown};
    use super::*;

    #[test]
    fn a_transfer_has_landed_when_all_of_its_copies_have() {
        let judge = |copies: &[Progress]| judge(None, false, copies.iter().copied());
        assert_eq!(judge(&[]), Some(Ended::Landed));
        assert_eq!(judge(&[Landed, Landed]), Some(Ended::Landed));
        assert_eq!(judge(&[Running, Landed]), None);
        assert_eq!(judge(&[Failed(-5), Running]), None, "the other copy still reads its slots");
        assert_eq!(judge(&[Landed, Failed(-5)]), Some(Ended::Failed(-5)));
        assert_eq!(judge(&[Failed(-5), Landed]), Some(Ended::Failed(-5)));
        assert_eq!(judge(&[Landed, Unknown("a call", -34)]), Some(Ended::Unknown("a call", -34)));
    }

    #[test]
    fn a_transfer_that_was_enqueued_in_part_fails_when_that_part_has_ended() {
        let judge = |copies: &[Progress]| judge(Some(-6), false, copies.iter().copied());
        assert_eq!(judge(&[Running]), None);
        assert_eq!(judge(&[Landed]), Some(Ended::Failed(-6)));
    }

    #[test]
    fn only_a_transfer_of_which_nothing_was_enqueued_is_handed_back() {
        let mut copies = Copies::default();
        assert_eq!(copies.note(Err(-4)), Err(-4));
        assert_eq!(copies.note(Ok(std::ptr::null_mut())), Ok(()), "enqueued, but nobody can ask after it");
        assert_eq!(copies.note(Err(-4)), Ok(()));
        assert!(matches!(copies.ended(), Some(Ended::Unknown(..))));
        assert!(copies.last_event().is_none());
    }
}
