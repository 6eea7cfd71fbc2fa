//! Models of the pool and the ring that processes share: a member dies before each of its writes, while others go on.
//!
//! Two or three buffers whose tags, and a ring of two cells whose laps, are next to their wrap.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod shared_kit;

use common::{RACE, assert_caught};
use loom::thread;
use shared_kit::{Consumer, Modelled, explore_deaths};
use transload_core::{Label, weakened};

/// A producer has died at any write; a recoverer, a live producer and the consumer meet what it has left.
fn dead_producer(preemptions: usize) {
    explore_deaths(preemptions, 4, |writes, deaths| {
        let model = Modelled::new(2, 2);
        let dead = model.member(1);
        let sent = deaths.until(dead.parts(), writes, || model.send(&dead, 11).unwrap());
        let recoverer = {
            let model = model.clone();
            thread::spawn(move || model.recover(1))
        };
        let live = {
            let model = model.clone();
            thread::spawn(move || model.send(&model.member(2), 22).is_ok())
        };
        let mut consumer = Consumer::new(&model, 3);
        let _ = consumer.receive(2);
        let _ = recoverer.join().unwrap();
        let live = live.join().unwrap();
        consumer.drain();
        // Claim, word, cell: with the third write it is published.
        assert_eq!(sent.is_some() || writes >= 3, consumer.times(11) == 1, "delivered if it was published");
        assert_eq!(
            (consumer.times(11) + consumer.times(22), live),
            (consumer.delivered.len(), consumer.times(22) == 1)
        );
        model.assert_free();
    });
}

#[test]
fn a_producer_dies_anywhere() {
    dead_producer(2);
}

#[test]
fn a_relaxed_lend_is_caught() {
    assert_caught(RACE, || weakened(Label::SharedLend, || dead_producer(2)));
}
