//! Being done with messages.

use super::cell::{Cell, Lap};
use super::grant::SharedGrant;
use super::layout::Sleeper;
use super::member::SharedMember;
use super::poison::Poisoned;
use super::slot::SlotState;
use super::taken::{SharedNotes, SharedTaken};
use super::word::{FutexWord, SharedWord};
use crate::sync::{Ordering, is_weak, order};
use crate::wait::Barrier;

impl<W, F, P, B> SharedMember<W, F, P, B>
where
    W: AsRef<[SharedWord]>,
    F: AsRef<[FutexWord]>,
    P: AsRef<[SharedWord]>,
    B: Barrier,
{
    /// Is done with messages: they will not be delivered again, their buffers are free. Says whether somebody waits for
    /// room. In any order, on any thread.
    ///
    /// # Errors
    ///
    /// [`Poisoned`] if somebody took one of the buffers away.
    pub fn finish(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: SharedTaken,
    ) -> Result<bool, Poisoned> {
        self.done(notes, &taken, |index| self.free(index))
    }

    /// As [`finish`](SharedMember::finish), and nobody ever gets the buffers: somebody may still access them of whom
    /// nobody will know when it is done.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn finish_in_quarantine(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: SharedTaken,
    ) -> Result<bool, Poisoned> {
        self.done(notes, &taken, |index| self.retire(index))
    }

    fn done(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: &SharedTaken,
        end: impl Fn(u32) -> Result<(), Poisoned>,
    ) -> Result<bool, Poisoned> {
        self.check()?;
        let twin_frees_first = is_weak!(SharedFreeFirst);
        for nth in 0..taken.count {
            let position = taken.first.wrapping_add(nth as u64);
            let index = notes.forget(position);
            if twin_frees_first {
                end(index)?;
            }
            // The cell first: a full cell always names a message. If we die in between, the buffer is one that we had.
            self.empty(position);
            if !twin_frees_first {
                end(index)?;
            }
        }
        self.advance_head();
        self.barrier.light();
        Ok(self.parts.sleeper(Sleeper::Room).take_announcement())
    }

    /// Is done with the first of the messages, and keeps its buffer. It says too whether somebody waits for room.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn keep(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: &mut SharedTaken,
    ) -> Result<Option<(SharedGrant, bool)>, Poisoned> {
        self.check()?;
        if taken.count == 0 {
            return Ok(None);
        }
        let index = notes.forget(taken.first);
        self.empty(taken.first);
        taken.first = taken.first.wrapping_add(1);
        taken.count -= 1;
        self.advance_head();
        self.barrier.light();
        Ok(Some((SharedGrant::new(index), self.parts.sleeper(Sleeper::Room).take_announcement())))
    }

    /// Notes of all messages whether a kernel or a device may access them.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn lend_taken(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: &SharedTaken,
        lent: bool,
    ) -> Result<(), Poisoned> {
        let state = if lent { SlotState::Lent } else { SlotState::Owned };
        (0..taken.count)
            .try_for_each(|nth| self.turn(notes.index(taken.first.wrapping_add(nth as u64)), state))
    }

    /// Leaves messages in the ring, for the next consumer: to it they come once more. Buffers that are lent then are
    /// never used again once it is done with them.
    ///
    /// # Errors
    ///
    /// [`Poisoned`].
    pub fn put_back(
        &self,
        notes: &SharedNotes<impl AsRef<[SharedWord]>>,
        taken: SharedTaken,
    ) -> Result<(), Poisoned> {
        self.check()?;
        for nth in 0..taken.count {
            let index = notes.forget(taken.first.wrapping_add(nth as u64));
            let word = self.let_go(index);
            self.parts.step();
            // SYNC: shared-lend (release): our use of the bytes comes before the next consumer's.
            let swapped = self.own_slot(index).compare_exchange(
                word.0,
                word.put_back().0,
                order!(SharedLend, Release),
                Ordering::Relaxed,
            );
            if swapped.is_err() {
                return Err(self.poisoned(Poisoned::TakenAway { buffer: index }));
            }
        }
        Ok(())
    }

    /// Empties the cell of a position that is the consumer's.
    pub(super) fn empty(&self, position: u64) {
        let empty = Cell::empty(self.parts.lap_of(position).wrapping_add(1));
        self.parts.step();
        self.parts.cell(position).store(empty.0, Ordering::Release);
    }

    /// Moves the head over the positions that are done. A hint for the next consumer, who looks for itself from there.
    pub(super) fn advance_head(&self) {
        let head = self.parts.head().load(Ordering::Relaxed);
        self.advance_head_from(head, head);
    }

    /// Moves the head from where it is seen, over positions that are done from `first` on.
    pub(super) fn advance_head_from(&self, head: u64, first: u64) {
        let mut next = first;
        while next.wrapping_sub(first) < self.parts.ring_slots() as u64 {
            let cell = Cell(self.parts.cell(next).load(Ordering::Relaxed));
            if cell.lap(self.parts.lap_of(next)) != Lap::Done {
                break;
            }
            next = next.wrapping_add(1);
        }
        self.parts.step();
        // If it fails, somebody else moves it, over this as well or with the next message. Tried also if there is nothing
        // to move: a light barrier may rest on a locked instruction behind the emptied cell.
        let _ = self.parts.head().compare_exchange(head, next, Ordering::Release, Ordering::Relaxed);
    }
}
