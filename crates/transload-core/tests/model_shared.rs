//! Models of the pool and the ring that processes share: a member dies before each of its writes, while others go on.
//!
//! Two or three buffers whose tags, and a ring of two cells whose laps, are next to their wrap; two or three threads, at
//! most two forced switches. The kernel says that a member is dead once it does no more: its recovery is ordered behind
//! all of its writes, as loom's joins and the order within a thread are here. So it is of no matter whether a recovery
//! looks at the words or at the ring first, and there is no twin for that.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod shared_kit;

use common::{RACE, assert_caught, explore};
use loom::thread;
use shared_kit::{Consumer, Modelled, explore_deaths};
use transload_core::{ClaimCursor, Label, Recovered, SharedCount, weakened};

/// What no order of events may end in.
fn assert_whole(model: &Modelled) {
    assert_eq!(model.parts().count(SharedCount::Spoiled), 0, "spoilt: a cell named no message");
    model.assert_free();
}

/// A producer has died at any write; a recoverer, a live producer and the consumer meet what it has left. Two buffers:
/// what is freed is sent once more.
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
        // Buffer, word, cell: with the third write it is published.
        let published = sent.is_some() || writes >= 3;
        assert_eq!(consumer.times(11), usize::from(published), "delivered if it was published");
        assert_eq!(consumer.times(22), usize::from(live), "delivered if it was published");
        assert_whole(&model);
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

#[test]
fn a_relaxed_publish_is_caught() {
    // What the cell names is not seen: the message is passed over.
    assert_caught("delivered if it was published", || weakened(Label::SharedPublish, || dead_producer(2)));
}

#[test]
fn a_recovery_that_does_not_look_at_the_ring_is_caught() {
    assert_caught("delivered if it was published", || weakened(Label::SharedScan, || dead_producer(2)));
}

/// The consumer, on a thread of its own: loom begins with the other ones, and moves loads behind their stores.
fn receive_beside(model: &loom::sync::Arc<Modelled>, max: usize) -> thread::JoinHandle<Consumer> {
    let model = model.clone();
    thread::spawn(move || {
        let mut consumer = Consumer::new(&model, 3);
        let _ = consumer.receive(max);
        consumer
    })
}

/// A producer dies while another one and the consumer run, and is recovered at once.
fn dying_producer() {
    explore_deaths(1, 4, |writes, deaths| {
        let model = Modelled::new(2, 2);
        let live = {
            let model = model.clone();
            thread::spawn(move || model.send(&model.member(2), 22).unwrap())
        };
        let consumer = receive_beside(&model, 1);
        let dying = model.member(1);
        let sent = deaths.until(dying.parts(), writes, || model.send(&dying, 11).unwrap()).is_some();
        let _ = model.recover(1);
        let _ = live.join().unwrap();
        let mut consumer = consumer.join().unwrap();
        consumer.drain();
        let times = consumer.times(11);
        assert!(times == 1 || times == 0 && !sent, "delivered if it was published");
        assert!(times == 0 || writes >= 3, "delivered before it was published");
        assert_eq!(consumer.times(22), 1);
        assert_whole(&model);
    });
}

#[test]
fn a_producer_dies_while_others_run() {
    dying_producer();
}

/// The consumer dies at any write, of a message that it is done with and one that it keeps; the next one takes over
/// before, while or after it is recovered, and a producer wants a place all the while.
fn dead_consumer(preemptions: usize, wants_place: bool) {
    explore_deaths(preemptions, 8, move |writes, deaths| {
        let model = Modelled::new(3, 2);
        let producer = model.member(1);
        for value in [1, 2] {
            let _ = model.send(&producer, value).unwrap();
        }
        let producer = {
            let model = model.clone();
            thread::spawn(move || wants_place && model.send(&producer, 3).is_ok())
        };
        let mut dead = Consumer::new(&model, 2);
        let _ = deaths.until_consumer(&mut dead, writes, |dead| {
            dead.receive(1).unwrap();
            dead.receive_over().unwrap();
        });
        let next = {
            let model = model.clone();
            thread::spawn(move || {
                let mut next = Consumer::new(&model, 3);
                let _ = next.receive_over();
                next
            })
        };
        let recovered = model.recover(2);
        let sent = producer.join().unwrap();
        let mut next = next.join().unwrap();
        next.drain();

        let all: Vec<_> = [1, 2, 3].into_iter().take(if sent { 3 } else { 2 }).collect();
        for &value in &all {
            assert!(dead.times(value) + next.times(value) > 0, "message {value} is lost");
        }
        let mut again = 0;
        for &(value, redelivered) in &next.delivered {
            assert!(redelivered || dead.times(value) == 0, "message {value} comes again unmarked");
            again += u64::from(redelivered);
        }
        assert!(next.delivered.is_sorted_by(|one, other| one.0 < other.0), "out of order");
        assert_eq!((again, again), (recovered.put_back, model.parts().count(SharedCount::Redelivered)));
        assert_whole(&model);
    });
}

#[test]
fn a_consumer_dies_anywhere() {
    dead_consumer(2, false);
    dead_consumer(1, true);
}

#[test]
fn a_buffer_that_is_free_before_its_cell_is_caught() {
    assert_caught("spoilt", || weakened(Label::SharedFreeFirst, || dead_consumer(1, true)));
}

/// A consumer that is not dead gives up its part with a message in its hands, and dies, or puts it back, while the next
/// one waits for it.
fn handed_over(dies: bool) {
    explore(3, move || {
        let model = Modelled::new(2, 2);
        let _ = model.send(&model.member(1), 1).unwrap();
        let mut first = Consumer::new(&model, 2);
        let taken = first.take(1).unwrap();
        let other = {
            let model = model.clone();
            thread::spawn(move || {
                let mut next = Consumer::new(&model, 3);
                let early = next.receive_over().is_ok();
                (next, early)
            })
        };
        let message = first.member.message(&first.notes, &taken, 0).unwrap();
        assert_eq!(model.read(message.index), 1);
        if dies {
            assert_eq!(model.recover(2), Recovered { put_back: 1, ..Recovered::default() });
        } else {
            first.member.put_back(&first.notes, taken).unwrap();
        }
        let (mut next, early) = other.join().unwrap();
        assert!(early || next.receive_over().is_ok());
        assert_eq!(next.delivered, [(1, true)]);
        assert_whole(&model);
    });
}

#[test]
fn a_consumer_waits_for_what_the_last_one_has() {
    handed_over(true);
    handed_over(false);
}

#[test]
fn a_relaxed_lend_to_the_next_consumer_is_caught() {
    for dies in [true, false] {
        assert_caught(RACE, || weakened(Label::SharedLend, || handed_over(dies)));
    }
}

/// A recovery dies at any write, and another one does the rest. The dead member had a message taken, one sent and a
/// buffer; a consumer and a producer run all the while.
fn dying_recovery() {
    explore_deaths(1, 4, |writes, deaths| {
        let model = Modelled::new(3, 2);
        let mut dead = Consumer::new(&model, 1);
        for value in [1, 2] {
            let _ = model.send(&dead.member, value).unwrap();
        }
        let _held = dead.take(1).unwrap();
        let _owned = dead.member.claim(&ClaimCursor::new(0)).unwrap();
        let live = {
            let model = model.clone();
            thread::spawn(move || model.send(&model.member(2), 22).is_ok())
        };
        let next = receive_beside(&model, 1);
        let parts = model.parts();
        let first = deaths.until(&parts, writes, || parts.recover(1, &model.fences));
        let second = model.recover(1);
        let live = live.join().unwrap();
        let mut next = next.join().unwrap();
        next.drain();
        if let Some(first) = first {
            let all = Recovered { freed: 1, put_back: 1, quarantined: 0 };
            assert_eq!((first, second), (all, Recovered::default()));
        }
        let expected: &[_] =
            if live { &[(1, true), (2, false), (22, false)] } else { &[(1, true), (2, false)] };
        assert_eq!(next.delivered, expected);
        assert_whole(&model);
    });
}

#[test]
fn a_recovery_dies_anywhere() {
    dying_recovery();
}

/// Two producers, one of which sends two messages, and the consumer.
fn in_order() {
    explore(2, || {
        let model = Modelled::new(3, 2);
        let one = {
            let model = model.clone();
            thread::spawn(move || model.send(&model.member(2), 22).is_ok())
        };
        let two = {
            let model = model.clone();
            thread::spawn(move || {
                let member = model.member(1);
                [11, 12].map(|value| model.send(&member, value).is_ok())
            })
        };
        let mut consumer = Consumer::new(&model, 3);
        let _ = consumer.receive(2);
        let (two, one) = (two.join().unwrap(), one.join().unwrap());
        consumer.drain();
        let sent = [(11, two[0]), (12, two[1]), (22, one)];
        for (value, sent) in sent {
            assert_eq!(consumer.times(value), usize::from(sent), "delivered if it was published");
        }
        let place = |wanted| consumer.delivered.iter().position(|&(value, _)| value == wanted);
        assert!(!(two[0] && two[1]) || place(11) < place(12), "out of order");
        assert!(one || two[0] && two[1], "full with less than two");
        assert_whole(&model);
    });
}

#[test]
fn messages_of_a_producer_stay_in_order() {
    in_order();
}
