//! Models: no side sleeps while the other has done what it waits for.
//!
//! A sleep is a loom condition variable without a time-out: a lost wake-up is a deadlock, which loom reports.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
use common::{DEADLOCK, Fences, Modelled, NEXT_TO_WRAP, assert_caught, explore};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use transload_core::{Mark, TakeError};

/// Where one side sleeps; counts wake-ups, as each would be a system call.
#[derive(Default)]
struct Bed {
    woken: Mutex<usize>,
    called: Condvar,
}

impl Bed {
    fn wake(&self) {
        *self.woken.lock().unwrap() += 1;
        self.called.notify_all();
    }

    fn sleep(&self, seen: usize) {
        let mut woken = self.woken.lock().unwrap();
        while *woken == seen {
            woken = self.called.wait(woken).unwrap();
        }
    }

    fn calls(&self) -> usize {
        *self.woken.lock().unwrap()
    }
}

/// The consumer sleeps for its next position; two producers publish, and only the one that covers it wakes.
fn consumer_sleeps(fences: bool, mark: Mark) {
    explore(3, move || {
        let (model, mut reader) = Modelled::starting_at(NEXT_TO_WRAP, 4, Fences(fences));
        let bed = Arc::new(Bed::default());
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (model, bed) = (model.clone(), bed.clone());
                thread::spawn(move || {
                    let claim = model.ring.claim(1).unwrap();
                    model.write(claim.first(), 1);
                    if model.ring.publish(claim, mark) {
                        bed.wake();
                    }
                })
            })
            .collect();
        model.ring.announce_consumer(&mut reader);
        let skipped = model.ring.taken();
        let _ = model.ring.pass_skipped(&mut reader);
        if model.ring.taken() == skipped && model.ring.peek(&mut reader, 1).is_err() {
            bed.sleep(0);
        }
        model.ring.withdraw_consumer();
        for thread in producers {
            thread.join().unwrap();
        }
        assert!(bed.calls() <= 1, "a needless system call");
    });
}

#[test]
fn a_sleeping_consumer_is_woken_once() {
    consumer_sleeps(true, Mark::Written);
}

#[test]
fn a_sleeping_consumer_is_woken_by_a_skip() {
    consumer_sleeps(true, Mark::Skipped);
}

#[test]
fn a_consumer_without_fences_is_caught() {
    assert_caught(DEADLOCK, || consumer_sleeps(false, Mark::Written));
}

/// The consumer sleeps for a position whose slot a batch on another thread then holds for ever: nobody publishes
/// that position, so whoever publishes the next one has to wake.
fn consumer_sleeps_for_a_held_slot(fences: bool) {
    explore(3, move || {
        let (model, mut reader) = Modelled::starting_at(NEXT_TO_WRAP, 2, Fences(fences));
        for _ in 0..2 {
            model.send(1).unwrap();
        }
        let (first, second) =
            (model.ring.take(&mut reader, 1).unwrap(), model.ring.take(&mut reader, 1).unwrap());
        let bed = Arc::new(Bed::default());
        let other = {
            let (model, bed) = (model.clone(), bed.clone());
            thread::spawn(move || {
                model.ring.hold(&first);
                let _ = model.ring.release(first);
                let _ = model.ring.release(second);
                if model.send(2).unwrap() {
                    bed.wake();
                }
            })
        };
        model.ring.announce_consumer(&mut reader);
        if model.receive(&mut reader, 1).is_err() {
            bed.sleep(0);
            model.ring.withdraw_consumer();
            assert_eq!(model.receive(&mut reader, 1), Ok(vec![2]));
        }
        other.join().unwrap();
    });
}

#[test]
fn a_consumer_that_sleeps_for_a_held_slot_is_woken() {
    consumer_sleeps_for_a_held_slot(true);
}

#[test]
fn a_consumer_that_sleeps_for_a_held_slot_without_fences_is_caught() {
    assert_caught(DEADLOCK, || consumer_sleeps_for_a_held_slot(false));
}

/// A producer sleeps for room; the consumer frees the slots, copying out or by a batch.
fn producer_sleeps(fences: bool, batch: bool) {
    explore(3, move || {
        let (model, mut reader) = Modelled::starting_at(NEXT_TO_WRAP, 2, Fences(fences));
        for _ in 0..2 {
            model.send(1).unwrap();
        }
        let bed = Arc::new(Bed::default());
        let consumer = {
            let (model, bed) = (model.clone(), bed.clone());
            thread::spawn(move || {
                let wake = if batch {
                    let taken = model.ring.take(&mut reader, 1).unwrap();
                    model.read_all(&taken);
                    model.ring.release(taken)
                } else {
                    let run = model.ring.peek(&mut reader, 1).unwrap();
                    model.read(run.first());
                    model.ring.finish(&mut reader, run)
                };
                if wake > 0 {
                    bed.wake();
                }
            })
        };
        model.ring.announce_producer();
        if model.send(2).is_err() {
            bed.sleep(0);
            model.send(2).expect("woken, and nobody else wants the slot");
        }
        model.ring.withdraw_producer();
        consumer.join().unwrap();
    });
}

#[test]
fn a_sleeping_producer_is_woken_by_copying_out() {
    producer_sleeps(true, false);
}

#[test]
fn a_sleeping_producer_is_woken_by_a_released_batch() {
    producer_sleeps(true, true);
}

#[test]
fn a_producer_without_fences_is_caught() {
    assert_caught(DEADLOCK, || producer_sleeps(false, false));
}

/// The consumer sleeps behind a held slot, which nobody will publish again.
#[test]
fn a_sleeping_consumer_is_woken_behind_a_held_slot() {
    explore(3, || {
        let (model, mut reader) = Modelled::starting_at(NEXT_TO_WRAP, 2, Fences(true));
        let claim = model.ring.claim(1).unwrap();
        let _ = model.ring.publish(claim, Mark::Held);
        model.send(1).unwrap();
        assert_eq!(model.receive(&mut reader, 2).unwrap(), [1]);
        let bed = Arc::new(Bed::default());
        let producer = {
            let (model, bed) = (model.clone(), bed.clone());
            thread::spawn(move || {
                let claim = model.ring.claim(1).unwrap();
                model.write(claim.first(), 2);
                if model.ring.publish(claim, Mark::Written) {
                    bed.wake();
                }
            })
        };
        model.ring.announce_consumer(&mut reader);
        let _ = model.ring.pass_skipped(&mut reader);
        if model.ring.peek(&mut reader, 1).is_err() {
            bed.sleep(0);
        }
        model.ring.withdraw_consumer();
        producer.join().unwrap();
        assert_eq!(model.receive(&mut reader, 2).unwrap(), [2]);
        assert_eq!(model.receive(&mut reader, 2).unwrap_err(), TakeError::Empty);
    });
}
