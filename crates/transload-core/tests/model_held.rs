//! Models: slots that are held for ever, because a kernel or a device may still write there.
//!
//! The one who still writes is a thread that never stops owning the slot: if a producer is given the slot again,
//! loom reports the race.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
use common::{Modelled, RACE, assert_caught, explore};
use loom::thread;
use transload_core::Mark;

fn held_by_a_producer(mark: Mark) {
    explore(3, move || {
        let (model, mut reader) = Modelled::new(2);
        let claim = model.ring.claim(1).unwrap();
        let position = claim.first();
        let kernel = {
            let model = model.clone();
            thread::spawn(move || model.write(position, 99))
        };
        let _ = model.ring.publish(claim, mark);
        let producer = {
            let model = model.clone();
            thread::spawn(move || (0..3).filter(|_| model.send(1).is_ok()).count())
        };
        let mut received = 0;
        for _ in 0..3 {
            received += model.receive(&mut reader, 2).map_or(0, |values| values.len());
        }
        let accepted = producer.join().unwrap();
        while let Ok(values) = model.receive(&mut reader, 2) {
            received += values.len();
        }
        kernel.join().unwrap();
        assert_eq!(accepted, received);
        if mark == Mark::Held {
            assert_eq!(model.ring.capacity(), 1, "the ring has shrunk by the slot");
        }
        assert!(accepted >= 1, "and goes on with the other");
    });
}

#[test]
fn a_held_slot_is_never_used_again() {
    held_by_a_producer(Mark::Held);
}

#[test]
fn a_slot_that_is_only_skipped_is_caught() {
    assert_caught(RACE, || held_by_a_producer(Mark::Skipped));
}

fn held_by_a_device(hold: bool) {
    explore(3, move || {
        let (model, mut reader) = Modelled::new(2);
        model.send(1).unwrap();
        let taken = model.ring.take(&mut reader, 1).unwrap();
        let position = taken.first();
        let device = {
            let model = model.clone();
            thread::spawn(move || model.read(position))
        };
        if hold {
            model.ring.hold(&taken);
        }
        let _ = model.ring.release(taken);
        let sent = (0..3).filter(|_| model.send(2).is_ok()).count();
        device.join().unwrap();
        assert_eq!(sent, 1, "one slot of two is left");
    });
}

#[test]
fn a_held_batch_is_never_used_again() {
    held_by_a_device(true);
}

#[test]
fn a_batch_that_is_only_released_is_caught() {
    assert_caught(RACE, || held_by_a_device(false));
}

#[test]
fn a_ring_whose_slots_are_all_held_is_full_and_closes() {
    explore(3, || {
        let (model, mut reader) = Modelled::new(2);
        for _ in 0..2 {
            let claim = model.ring.claim(1).unwrap();
            let _ = model.ring.publish(claim, Mark::Held);
        }
        assert!(model.send(1).is_err());
        let _ = model.ring.pass_skipped(&mut reader);
        assert!(model.send(1).is_err());
        assert!(model.ring.is_full());
        model.ring.close();
        assert!(model.receive(&mut reader, 1).is_err());
    });
}
