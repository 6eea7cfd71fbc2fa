//! Where a claim looks when its own hints are used up, and how it knows that there is nothing.

use super::claim::NoGrant;
use super::pool::Pool;
use super::seat::Seat;
use super::slot::{Grant, Slot};
use super::summary::HintWord;
use crate::sync::is_weak;
use crate::wait::Barrier;

/// Up to so many slots are looked over sooner than the lists of other seats.
const FEW: usize = 256;

impl<S: AsRef<[Slot]>, H: AsRef<[HintWord]>, B: Barrier> Pool<S, H, B> {
    /// Finds a free buffer, wherever it is, or proves that there was none.
    #[cold]
    #[inline(never)]
    pub(super) fn find(&self, seat: &Seat) -> Result<Grant, NoGrant> {
        if let Some(grant) = self.find_in_summary(seat) {
            return Ok(grant);
        }
        if self.is_exhausted() {
            self.seats.record(seat).count_exhausted(seat);
            return Err(NoGrant::Exhausted);
        }
        if self.capacity() > FEW
            && let Some(grant) = self.find_with_others(seat)
        {
            return Ok(grant);
        }
        self.look(seat)
    }

    /// Whether all buffers were out at the moment between the two sums. `false` proves nothing.
    fn is_exhausted(&self) -> bool {
        let acquired = self.seats.acquired();
        // Behind the first sum, so that it holds every release that a claim in the first one rests on.
        self.seats.out(acquired) == self.capacity() as u64
    }

    /// Takes a word of the summary, and one buffer of it.
    fn find_in_summary(&self, seat: &Seat) -> Option<Grant> {
        #[expect(clippy::cast_possible_truncation, reason = "at most 63")]
        let start = seat.index() as u32 * 11;
        loop {
            let (word, mut mask) = self.summary.take(start)?;
            let index = |bit: u32| {
                #[expect(clippy::cast_possible_truncation, reason = "an index")]
                let first = word as u32 * 64;
                first + bit
            };
            if seat.is_shared() {
                while mask != 0 {
                    let bit = mask.trailing_zeros();
                    mask &= mask - 1;
                    if let Some(grant) = self.claim_this(seat, index(bit)) {
                        if mask != 0 {
                            self.summary.put(word, mask);
                        }
                        return Some(grant);
                    }
                }
                continue;
            }
            // The list is empty and has room for a whole word; the lowest index comes out first.
            while mask != 0 {
                let bit = mask.ilog2();
                if !self.seats.record(seat).push(index(bit)) {
                    self.summary.put(word, mask);
                    break;
                }
                mask &= !(1 << bit);
            }
            if let Some(grant) = self.claim_hinted(seat) {
                return Some(grant);
            }
        }
    }

    /// Claims a buffer that another seat has a hint of. The hint stays there and is old from then on.
    fn find_with_others(&self, seat: &Seat) -> Option<Grant> {
        for record in self.seats.used() {
            for index in record.peek(seat.index()) {
                if let Some(grant) = self.claim_this(seat, index) {
                    return Some(grant);
                }
            }
        }
        None
    }

    /// Looks at every slot: claims the first that is free, or proves that all were out at one moment.
    ///
    /// Two looks in which no slot is free and the generations have the same sum: generations only grow, so each is what
    /// it was, so each slot was out from its place in the first look to its place in the second, and all of them at the
    /// moment between the looks. Only another's claim can make them differ.
    fn look(&self, seat: &Seat) -> Result<Grant, NoGrant> {
        let slots = self.slots.as_ref();
        let start = seat.index() * slots.len() / (super::SEATS + 1);
        let mut before = None;
        loop {
            let mut sum = 0u64;
            for at in (start..slots.len()).chain(0..start) {
                match slots[at].look(self.claimer(seat)) {
                    Ok(()) => {
                        #[expect(clippy::cast_possible_truncation, reason = "an index")]
                        return Ok(self.grant(seat, at as u32));
                    }
                    Err(taken) => sum = sum.wrapping_add(taken.generation),
                }
            }
            if before == Some(sum) || is_weak!(SecondLook) {
                self.seats.record(seat).count_exhausted(seat);
                return Err(NoGrant::Exhausted);
            }
            before = Some(sum);
        }
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    extern crate std;
    use super::*;
    use crate::FullBarrier;
    use std::{boxed::Box, vec::Vec};

    fn pool(buffers: usize) -> Pool<Box<[Slot]>, Box<[HintWord]>, FullBarrier> {
        let hints = Pool::<Box<[Slot]>, Box<[HintWord]>, FullBarrier>::hint_words(buffers);
        let slots = (0..buffers).map(|_| Slot::new()).collect();
        Pool::new(slots, (0..hints).map(|_| HintWord::new()).collect(), FullBarrier)
            .expect("there are as many as needed")
    }

    #[test]
    fn a_thread_that_stands_between_its_claim_and_its_count_holds_nobody_up() {
        for buffers in [2, 300] {
            let pool = pool(buffers);
            let seat = pool.take_seat();
            assert!(pool.slot(0).claim(pool.claimer(&seat)));
            let grants: Vec<_> = (1..buffers).map(|_| pool.claim(&seat).unwrap()).collect();
            assert!(!pool.is_exhausted(), "the sums do not know of the first");
            assert_eq!(pool.claim(&seat).unwrap_err(), NoGrant::Exhausted);
            assert_eq!(pool.claim(&Seat::shared()).unwrap_err(), NoGrant::Exhausted);
            for grant in grants {
                assert!(pool.release(&seat, grant).is_none());
            }
            assert!(pool.claim(&seat).is_ok());
        }
    }

    #[test]
    fn a_buffer_of_which_there_is_no_hint_is_found() {
        let pool = pool(1000);
        let seat = pool.take_seat();
        while pool.summary.take(0).is_some() {}
        for _ in 0..1000 {
            let _never_back = pool.claim(&seat).unwrap();
        }
        assert_eq!(pool.claim(&seat).unwrap_err(), NoGrant::Exhausted);
        assert_eq!(pool.leased(), 1000);
    }

    #[test]
    fn hints_of_a_seat_are_for_all_and_go_to_all() {
        let pool = pool(1000);
        let (first, second) = (pool.take_seat(), pool.take_seat());
        let grants: Vec<_> = (0..1000).map(|_| pool.claim(&first).unwrap()).collect();
        for grant in grants.into_iter().take(64) {
            assert!(pool.release(&first, grant).is_none());
        }
        // All 64 hints are in the first seat: the second claims there.
        for _ in 0..32 {
            let _never_back = pool.claim(&second).unwrap();
        }
        pool.leave(first);
        for _ in 0..32 {
            let _never_back = pool.claim(&second).unwrap();
        }
        assert_eq!(pool.claim(&second).unwrap_err(), NoGrant::Exhausted);
        let seats: Vec<_> = (0..super::super::SEATS).map(|_| pool.take_seat()).collect();
        assert!(seats.last().unwrap().is_shared() && !seats[0].is_shared());
    }
}
