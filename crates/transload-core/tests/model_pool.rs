//! Models of the pool: one owner a buffer, exact exhaustion, seats that change hands, leases as numbers, the end.
//!
//! Pools of one or two buffers whose generations are next to their wrap, two seats and the shared one, two or three
//! threads, at most three forced switches unless said otherwise. All of them together take some seconds.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod pool_kit;

use common::{Fences, RACE, assert_caught, explore};
use loom::sync::{Arc, Mutex};
use loom::thread;
use pool_kit::{Modelled, NEXT_TO_WRAP};
use transload_core::{Label, Seat, weakened};

/// Two threads want a buffer of two, or the only one, and stamp it.
fn owners(buffers: usize) {
    explore(2, move || {
        let model = Modelled::new(buffers, Fences(false));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || {
                    let seat = model.pool.take_seat();
                    let _ = model.turn(&seat);
                })
            })
            .collect();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(model.pool.leased(), 0);
    });
}

#[test]
fn a_buffer_has_one_owner() {
    owners(1);
    owners(2);
}

#[test]
fn a_relaxed_lend_is_caught() {
    assert_caught(RACE, || weakened(Label::Lend, || owners(1)));
}

/// Buffer 1 is out and buffer 0 is free; another thread gives 1 back and then claims 0. One is free at each instant.
fn always_one_free() {
    explore(4, || {
        let model = Modelled::new(2, Fences(false));
        let seat = model.pool.take_seat();
        // Takes the hints of both buffers, so that others find nothing in the summary.
        let zero = model.pool.claim(&seat).unwrap();
        let one = model.pool.claim(&seat).unwrap();
        let _ = model.pool.release(&seat, zero);
        let mover = {
            let model = model.clone();
            thread::spawn(move || {
                let own = model.pool.take_seat();
                let _ = model.give(&own, one);
                // By the seat that has the hint of the other buffer.
                model.pool.claim(&seat).map(|grant| (grant, seat))
            })
        };
        let found = model.pool.claim(&Seat::shared());
        assert!(found.is_ok(), "exhausted while a buffer was free at each instant");
        let _ = mover.join().unwrap();
    });
}

#[test]
fn exhausted_is_never_said_while_a_buffer_is_free() {
    always_one_free();
}

#[test]
fn a_relaxed_tally_is_caught() {
    assert_caught("exhausted while", || weakened(Label::Tally, always_one_free));
}

#[test]
fn a_relaxed_look_is_caught() {
    assert_caught("exhausted while", || weakened(Label::Look, always_one_free));
}

#[test]
fn a_single_look_is_caught() {
    assert_caught("exhausted while", || weakened(Label::SecondLook, always_one_free));
}

/// Buffer 0 is out for ever, another thread claims 1, nobody gives anything back. Once it was said that there is none,
/// there is none, also for a seat that has a hint.
fn exhausted_stays() {
    explore(3, || {
        let model = Modelled::new(2, Fences(false));
        let (first, second) = (model.pool.take_seat(), model.pool.take_seat());
        let _zero = model.pool.claim(&first).unwrap();
        // Both seats have a hint of buffer 1 now.
        let _ = model.turn(&second);
        // The observer is the spawned thread: loom begins with the other one, and moves loads behind its stores.
        let observer = {
            let model = model.clone();
            thread::spawn(move || {
                if model.pool.claim(&Seat::shared()).is_err() {
                    assert!(model.pool.claim(&second).is_err(), "a buffer was there all the time");
                }
            })
        };
        let _ = model.pool.claim(&first);
        observer.join().unwrap();
    });
}

#[test]
fn exhausted_is_true_until_something_comes_back() {
    exhausted_stays();
}

#[test]
fn a_claim_that_is_counted_first_is_caught() {
    assert_caught("a buffer was there", || weakened(Label::TallyFirst, exhausted_stays));
}

/// Both are out. One comes back and is seen, used and given back by the other thread: from then on it is free.
fn free_is_found() {
    explore(3, || {
        let model = Modelled::new(2, Fences(false));
        let (first, second) = (model.pool.take_seat(), model.pool.take_seat());
        let zero = model.pool.claim(&first).unwrap();
        let one = model.pool.claim(&first).unwrap();
        // So that the second seat has a hint of it.
        let _ = model.pool.release(&second, zero);
        let zero = model.pool.claim(&first).unwrap();
        let observer = {
            let model = model.clone();
            thread::spawn(move || {
                if model.turn(&second).is_ok() {
                    let found = model.pool.claim(&Seat::shared());
                    assert!(found.is_ok(), "exhausted while nobody had it");
                }
            })
        };
        let _ = model.give(&first, zero);
        observer.join().unwrap();
        drop(one);
    });
}

#[test]
fn what_came_back_is_found() {
    free_is_found();
}

#[test]
fn a_release_that_is_counted_last_is_caught() {
    assert_caught("exhausted while nobody", || weakened(Label::DrainLast, free_is_found));
}

/// Two threads have the same seat one after the other.
fn one_seat_two_owners() {
    explore(3, || {
        let model = Modelled::new(2, Fences(false));
        let _kept = model.pool.take_seat();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || {
                    let seat = model.pool.take_seat();
                    let grant = model.pool.claim(&seat);
                    model.pool.leave(seat);
                    grant.is_ok()
                })
            })
            .collect();
        for thread in threads {
            assert!(thread.join().unwrap(), "there was one for each");
        }
        assert_eq!(model.pool.tally().acquired, 2, "a count was lost");
    });
}

#[test]
fn a_seat_changes_hands_with_its_counts() {
    one_seat_two_owners();
}

#[test]
fn a_relaxed_seat_is_caught() {
    assert_caught("a count was lost", || weakened(Label::Seat, one_seat_two_owners));
}

/// The token of the first lease of seat 0: the last generation but one, no tick.
const TOKEN: u64 = (NEXT_TO_WRAP + 1) << 24;

/// One thread uses a buffer and lays it down; two want to take it up.
fn numbers() {
    explore(3, || {
        let model = Modelled::new(1, Fences(false));
        let seat = model.pool.take_seat();
        let grant = model.pool.claim(&seat).unwrap();
        let owner = {
            let model = model.clone();
            thread::spawn(move || {
                model.stamp(&grant);
                assert_eq!(model.pool.lay_down(grant), TOKEN);
            })
        };
        let take_up = |model: &Modelled| {
            let grant = model.pool.take_up(0, TOKEN);
            grant.map(|grant| model.stamp(&grant)).is_some()
        };
        let other = {
            let model = model.clone();
            thread::spawn(move || take_up(&model))
        };
        let ours = take_up(&model);
        let theirs = other.join().unwrap();
        owner.join().unwrap();
        assert!(!(ours && theirs), "taken up twice");
    });
}

#[test]
fn a_lease_as_numbers_is_taken_up_once() {
    numbers();
}

#[test]
fn a_relaxed_lay_down_is_caught() {
    assert_caught(RACE, || weakened(Label::Raw, numbers));
}

/// What the last owner of an abandoned pool ends, once.
struct End {
    kept: Mutex<bool>,
    ended: Mutex<u32>,
}

impl End {
    /// As the library does it, under the lock: whoever finds the pool drained takes out what keeps it.
    fn reap(&self, model: &Modelled) {
        let mut kept = self.kept.lock().unwrap();
        if model.pool.is_drained() && std::mem::take(&mut *kept) {
            self.end(model);
        }
    }

    /// As the library does it: what is not drained yet is kept for the last release.
    fn abandon(&self, model: &Modelled) {
        model.pool.abandon();
        let mut kept = self.kept.lock().unwrap();
        if model.pool.is_drained() {
            self.end(model);
        } else {
            *kept = true;
        }
    }

    /// The memory goes: an owner that still uses it is a race.
    fn end(&self, model: &Modelled) {
        model.stamp_index(0);
        model.stamp_index(1);
        *self.ended.lock().unwrap() += 1;
    }
}

/// The last handle goes while two threads give back the last two buffers.
fn last_release(fences: bool) {
    explore(3, move || {
        let model = Modelled::new(2, Fences(fences));
        let end = Arc::new(End { kept: Mutex::new(false), ended: Mutex::new(0) });
        let first = model.pool.take_seat();
        let grants = [(); 2].map(|()| model.pool.claim(&first).unwrap());
        let threads = grants.map(|grant| {
            let (model, end) = (model.clone(), end.clone());
            thread::spawn(move || {
                if model.give(&Seat::shared(), grant).is_abandoned() {
                    end.reap(&model);
                }
            })
        });
        end.abandon(&model);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*end.ended.lock().unwrap(), 1, "the pool must end once");
    });
}

#[test]
fn the_last_buffer_of_an_abandoned_pool_ends_it_once() {
    last_release(true);
}

#[test]
fn an_end_without_fences_is_caught() {
    assert_caught("must end once", || last_release(false));
}

#[test]
fn a_relaxed_drain_is_caught() {
    assert_caught(RACE, || weakened(Label::Drain, || last_release(true)));
}

/// A release knows of its own buffer only; another was claimed since, and is still out when the pool is abandoned.
fn one_stays_out() {
    explore(3, || {
        let model = Modelled::new(2, Fences(false));
        let first = model.pool.take_seat();
        let grant = model.pool.claim(&first).unwrap();
        let releaser = {
            let model = model.clone();
            thread::spawn(move || {
                let own = model.pool.take_seat();
                let notice = model.give(&own, grant);
                assert!(!(notice.is_abandoned() && model.pool.is_drained()), "ended while a buffer was out");
            })
        };
        let kept = model.pool.claim(&first).unwrap();
        model.pool.abandon();
        releaser.join().unwrap();
        drop(kept);
    });
}

#[test]
fn a_pool_does_not_end_while_a_buffer_is_out() {
    one_stays_out();
}

#[test]
fn a_relaxed_abandon_is_caught() {
    assert_caught("ended while", || weakened(Label::Abandon, one_stays_out));
}
