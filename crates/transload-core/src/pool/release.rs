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
    #[inline]
    pub fn release(&self, seat: &Seat, grant: Grant) -> Notice {
        let index = grant.index();
        let record = self.seats.record(seat);
        let twin_counts_last = is_weak!(DrainLast);
        let mut before = None;
        if !twin_counts_last {
            before = record.count_released(seat, index);
        }
        self.slot(index).free();
        if twin_counts_last {
            before = record.count_released(seat, index);
        }
        if seat.is_shared() {
            self.hint_to_all(index);
        } else if let Some(before) = before
            // The top until now, unless it was claimed.
            && self.slot(before).is_free()
            && !record.push(before)
        {
            self.make_room(seat, before);
        }
        self.shared.attention.notice(&self.barrier)
    }

    #[cold]
    #[inline(never)]
    fn hint_to_all(&self, index: u32) {
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
