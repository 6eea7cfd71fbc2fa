//! Models: nobody sleeps while a buffer is free, also when somebody stops waiting.
//!
//! One buffer, two or three threads, at most three forced switches. A sleep is a loom condition variable without a
//! time-out: a lost wake-up is a deadlock, which loom reports.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod pool_kit;

use common::{DEADLOCK, Fences, assert_caught, explore};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use pool_kit::Modelled;
use std::collections::VecDeque;
use transload_core::Seat;

/// Who listens, in order, and who of them has been called: what the library has from its event.
#[derive(Default)]
struct Bed {
    queue: Mutex<VecDeque<(usize, bool)>>,
    called: Condvar,
}

impl Bed {
    fn listen(&self, who: usize) {
        self.queue.lock().unwrap().push_back((who, false));
    }

    fn wake_one(&self) {
        Self::call_next(&mut self.queue.lock().unwrap());
        self.called.notify_all();
    }

    fn call_next(queue: &mut VecDeque<(usize, bool)>) {
        if let Some(next) = queue.iter_mut().find(|(_, called)| !called) {
            next.1 = true;
        }
    }

    fn sleep(&self, who: usize) {
        let mut queue = self.queue.lock().unwrap();
        while !queue.iter().any(|&entry| entry == (who, true)) {
            queue = self.called.wait(queue).unwrap();
        }
        queue.retain(|&(other, _)| other != who);
    }

    /// Stops listening. Whoever was called and does not need it calls the next.
    fn forget(&self, who: usize, pass_on: bool) {
        let mut queue = self.queue.lock().unwrap();
        let called = queue.contains(&(who, true));
        queue.retain(|&(other, _)| other != who);
        if called && pass_on {
            Self::call_next(&mut queue);
            self.called.notify_all();
        }
    }
}

/// Waits as long as it takes, then uses the buffer and gives it back.
fn wait_and_use(model: &Modelled, bed: &Bed, who: usize) {
    let seat = Seat::shared();
    let grant = loop {
        bed.listen(who);
        model.pool.announce_waiter();
        let found = model.pool.claim(&seat);
        if found.is_err() {
            bed.sleep(who);
        } else {
            bed.forget(who, true);
        }
        model.pool.withdraw_waiter();
        if let Ok(grant) = found {
            break grant;
        }
    };
    if model.give(&seat, grant).wakes() {
        bed.wake_one();
    }
}

/// One sleeps until the other gives back.
fn sleeper(fences: bool) {
    explore(3, move || {
        let model = Modelled::new(1, Fences(fences));
        let bed = Arc::new(Bed::default());
        let grant = model.pool.claim(&Seat::shared()).unwrap();
        let other = {
            let (model, bed) = (model.clone(), bed.clone());
            thread::spawn(move || {
                if model.give(&Seat::shared(), grant).wakes() {
                    bed.wake_one();
                }
            })
        };
        wait_and_use(&model, &bed, 0);
        other.join().unwrap();
    });
}

#[test]
fn a_release_wakes_who_sleeps() {
    sleeper(true);
}

#[test]
fn a_release_without_fences_is_caught() {
    assert_caught(DEADLOCK, || sleeper(false));
}

/// Two wait for one buffer; one of them gives up at any time, perhaps just when it is called.
fn one_gives_up(pass_on: bool) {
    explore(2, move || {
        let model = Modelled::new(1, Fences(true));
        let bed = Arc::new(Bed::default());
        let grant = model.pool.claim(&Seat::shared()).unwrap();
        let giver = {
            let (model, bed) = (model.clone(), bed.clone());
            thread::spawn(move || {
                if model.give(&Seat::shared(), grant).wakes() {
                    bed.wake_one();
                }
            })
        };
        let quitter = {
            let (model, bed) = (model.clone(), bed.clone());
            thread::spawn(move || {
                bed.listen(1);
                model.pool.announce_waiter();
                bed.forget(1, pass_on);
                model.pool.withdraw_waiter();
            })
        };
        wait_and_use(&model, &bed, 0);
        giver.join().unwrap();
        quitter.join().unwrap();
    });
}

#[test]
fn who_gives_up_passes_its_call_on() {
    one_gives_up(true);
}

#[test]
fn a_call_that_is_not_passed_on_is_caught() {
    assert_caught(DEADLOCK, || one_gives_up(false));
}
