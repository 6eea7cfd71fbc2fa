//! Giving buffers back, at once or later, or never.

use super::attention::Notice;
use super::pool::Pool;
use super::seat::Seat;
use super::slot::{Grant, Slot};
use super::summary::HintWord;
use crate::sync::is_weak;
use crate::wait::Barrier;

impl<S: AsRef<[Slot]>, H: AsRef<[HintWord]>, B: Barrier> Pool<S, H, B> {
    /// Gives a buffer back, on any thread, and says whom the caller must tell.
    ///
    /// Behind the count of the last buffer of an abandoned pool its bytes may go at any time; the control words must
    /// stay until this returns.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call's stores delay the next swap")]
    pub fn release(&self, seat: &Seat, grant: Grant) -> Notice {
        let index = grant.index();
        if let Some(record) = self.seats.own(seat)
            && let Some(slot) = self.slots.as_ref().get(index as usize)
        {
            let twin_counts_last = is_weak!(DrainLast);
            let mut top = index;
            if !twin_counts_last {
                top = record.count_released_alone();
            }
            slot.free();
            if twin_counts_last {
                top = record.count_released_alone();
            }
            if top != index {
                self.replace_top(seat, top, index);
            }
        } else {
            self.release_shared(index);
        }
        self.shared.attention.notice(&self.barrier)
    }

    /// Makes a buffer that is back the seat's top, and what was the top until now a hint, unless it was claimed. Out of
    /// the way of `release`, which is straight without it.
    #[cold]
    #[inline(never)]
    fn replace_top(&self, seat: &Seat, before: u32, index: u32) {
        let record = self.seats.record(seat);
        record.set_top(index);
        let is_free = self.slots.as_ref().get(before as usize).is_some_and(Slot::is_free);
        if is_free && !record.push(before) {
            self.make_room(seat, before);
        }
    }

    /// Gives a buffer back by the shared seat. A grant of a larger pool comes here too, and panics.
    #[cold]
    #[inline(never)]
    fn release_shared(&self, index: u32) {
        let twin_counts_last = is_weak!(DrainLast);
        if !twin_counts_last {
            self.seats.shared().count_released_with_others();
        }
        self.slot(index).free();
        if twin_counts_last {
            self.seats.shared().count_released_with_others();
        }
        self.summary.put(index as usize / 64, 1 << (index % 64));
    }

    /// Gives half of a seat's hints to all, and keeps this one.
    #[cold]
    #[inline(never)]
    fn make_room(&self, seat: &Seat, index: u32) {
        self.shed(seat, false);
        self.seats.record(seat).push(index);
    }

    /// Moves hints of a seat to the summary, as many with one step as follow each other in one word.
    pub(super) fn shed(&self, seat: &Seat, all: bool) {
        let (mut word, mut mask) = (0, 0);
        self.seats.record(seat).shed(all, |index| {
            let at = index as usize / 64;
            if at != word && mask != 0 {
                self.summary.put(word, mask);
                mask = 0;
            }
            word = at;
            mask |= 1 << (index % 64);
        });
        if mask != 0 {
            self.summary.put(word, mask);
        }
    }

    /// Keeps a buffer from all owners for ever: somebody may still write there of whom nobody will know when it is done.
    pub fn quarantine(&self, grant: Grant) {
        self.shared.quarantined.add(1);
        self.slot(grant.index()).quarantine();
    }

    /// Leaves a buffer out without an owner, until [`take_up`](Pool::take_up) with its index and the generation that
    /// this gives. No other lease of the buffer has it until a multiple of 2^38 are over (see [`Slot`]).
    pub fn lay_down(&self, grant: Grant) -> u64 {
        self.slot(grant.index()).lay_down()
    }

    /// Takes up what was laid down. Of several calls with the same numbers one succeeds, and none with older ones.
    pub fn take_up(&self, index: u32, generation: u64) -> Option<Grant> {
        let slot = self.slots.as_ref().get(index as usize)?;
        slot.take_up(generation).then(|| Grant::new(index))
    }
}
