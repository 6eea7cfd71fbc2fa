//! Models: batches released in any order on other threads, while a producer uses what they free.
//!
//! Three threads, two slots, at most four forced switches.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
use common::{Modelled, RACE, assert_caught, explore};
use loom::thread;
use transload_core::{Label, Mark, TakeError, weakened};

fn released_on_two_threads() {
    explore(4, || {
        let (model, mut reader) = Modelled::new(2);
        for value in 0..2 {
            model.send(value).unwrap();
        }
        let threads: Vec<_> = (0..2)
            .map(|value| {
                let taken = model.ring.take(&mut reader, 1).unwrap();
                let model = model.clone();
                thread::spawn(move || {
                    assert_eq!(model.read_all(&taken), [value]);
                    let _ = model.ring.release(taken);
                })
            })
            .collect();
        let nothing_left = model.ring.take(&mut reader, 1).map(|_| ());
        let accepted = (0..2).filter(|_| model.send(7).is_ok()).count() as u64;
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(nothing_left, Err(TakeError::Empty));
        // Both batches are back, so exactly the slots that the third message does not use are free.
        let free = (0..5).filter(|_| model.send(8).is_ok()).count() as u64;
        assert_eq!(free + accepted, 2, "released slots are stranded");
    });
}

#[test]
fn slots_come_back_whatever_the_order() {
    released_on_two_threads();
}

#[test]
fn a_missing_fence_strands_slots() {
    assert_caught("stranded", || weakened(Label::BatchFence, released_on_two_threads));
}

#[test]
fn a_relaxed_done_flag_is_caught() {
    assert_caught("stranded", || weakened(Label::BatchDone, released_on_two_threads));
}

/// One batch on another thread, one on the consumer's, which then uses what both have freed.
fn released_beside_the_consumer() {
    explore(4, || {
        let (model, mut reader) = Modelled::new(2);
        for value in 0..2 {
            model.send(value).unwrap();
        }
        let (first, second) =
            (model.ring.take(&mut reader, 1).unwrap(), model.ring.take(&mut reader, 1).unwrap());
        let holder = {
            let model = model.clone();
            thread::spawn(move || {
                assert_eq!(model.read_all(&first), [0]);
                let _ = model.ring.release(first);
            })
        };
        let _ = model.ring.release(second);
        let mut sent = (0..2).filter(|_| model.send(7).is_ok()).count();
        holder.join().unwrap();
        sent += (0..3).filter(|_| model.send(8).is_ok()).count();
        assert_eq!(sent, 2, "released slots are stranded");
    });
}

#[test]
fn the_consumer_may_free_for_another_thread() {
    released_beside_the_consumer();
}

/// A batch is out on another thread while the consumer copies the next message out and steps over a skip: what
/// they free waits for the batch, and nothing is lost.
fn copied_out_behind_an_open_batch() {
    explore(3, || {
        let (model, mut reader) = Modelled::new(4);
        model.send(0).unwrap();
        model.send(1).unwrap();
        let claim = model.ring.claim(1).unwrap();
        let _ = model.ring.publish(claim, Mark::Skipped);
        let taken = model.ring.take(&mut reader, 1).unwrap();
        let holder = {
            let model = model.clone();
            thread::spawn(move || {
                assert_eq!(model.read_all(&taken), [0]);
                let _ = model.ring.release(taken);
            })
        };
        assert_eq!(model.receive(&mut reader, 4).unwrap(), [1]);
        let _ = model.ring.pass_skipped(&mut reader);
        let producer = {
            let model = model.clone();
            thread::spawn(move || (0..3).filter(|_| model.send(5).is_ok()).count())
        };
        holder.join().unwrap();
        let mut sent = producer.join().unwrap();
        let _ = model.ring.pass_skipped(&mut reader);
        sent += (0..5).filter(|_| model.send(5).is_ok()).count();
        assert_eq!(sent, 4, "slots behind the batch are stranded");
    });
}

#[test]
fn slots_behind_an_open_batch_wait_for_it() {
    copied_out_behind_an_open_batch();
}

#[test]
fn a_relaxed_free_behind_a_batch_is_caught() {
    assert_caught(RACE, || weakened(Label::Free, copied_out_behind_an_open_batch));
}

/// The consumer copies out, which frees by a plain store, and only then takes its first batch.
fn copied_out_before_the_first_batch() {
    explore(3, || {
        let (model, mut reader) = Modelled::new(2);
        let producer = {
            let model = model.clone();
            thread::spawn(move || (0..4).filter(|&value| model.send(value).is_ok()).count())
        };
        let mut received = model.receive(&mut reader, 1).map_or(0, |values| values.len());
        let holder = model.ring.take(&mut reader, 1).ok().map(|taken| {
            let model = model.clone();
            thread::spawn(move || {
                let count = model.read_all(&taken).len();
                let _ = model.ring.release(taken);
                count
            })
        });
        received += model.receive(&mut reader, 1).map_or(0, |values| values.len());
        received += holder.map_or(0, |holder| holder.join().unwrap());
        let accepted = producer.join().unwrap();
        while let Ok(values) = model.receive(&mut reader, 2) {
            received += values.len();
        }
        assert_eq!(accepted, received);
        assert!(
            model.send(9).is_ok() && model.send(9).is_ok() && model.send(9).is_err(),
            "slots are stranded"
        );
    });
}

#[test]
fn a_plain_free_and_a_later_batch_agree() {
    copied_out_before_the_first_batch();
}

#[test]
fn a_relaxed_plain_free_is_caught() {
    assert_caught(RACE, || weakened(Label::Free, copied_out_before_the_first_batch));
}
