//! Models: nobody sleeps while there is a message, or room, in the memory that processes share.
//!
//! One buffer, one or two cells, two threads, at most three forced switches. A sleep is a loom condition variable
//! without a time-out: a lost wake-up is a deadlock, which loom reports.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod shared_kit;

use common::{DEADLOCK, Fences, assert_caught, explore};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use shared_kit::{Consumer, Deaths, Modelled};
use transload_core::Sleeper;

/// What the kernel has: whether somebody is to sleep who has not been woken.
#[derive(Default)]
struct Bed {
    sleeps: Mutex<bool>,
    woken: Condvar,
}

impl Bed {
    fn wake(&self, anybody: bool) {
        if anybody {
            *self.sleeps.lock().unwrap() = false;
            self.woken.notify_all();
        }
    }

    /// Announces, looks once more, and sleeps if that found nothing.
    fn sleep_unless(&self, model: &Modelled, sleeper: Sleeper, is_there: impl FnOnce() -> bool) {
        *self.sleeps.lock().unwrap() = true;
        model.parts().sleeper(sleeper).announce(&model.fences);
        if is_there() {
            return;
        }
        let mut sleeps = self.sleeps.lock().unwrap();
        while *sleeps {
            sleeps = self.woken.wait(sleeps).unwrap();
        }
    }
}

/// The consumer sleeps until there is a message.
fn sleeping_consumer(fences: bool) {
    explore(3, move || {
        let model = Modelled::with_fences(1, 2, Fences(fences));
        let bed = Arc::new(Bed::default());
        let producer = {
            let (model, bed) = (model.clone(), bed.clone());
            thread::spawn(move || bed.wake(model.send(&model.member(1), 5).unwrap()))
        };
        let mut consumer = Consumer::new(&model, 2);
        while consumer.receive(1).is_err() {
            bed.sleep_unless(&model, Sleeper::Consumer, || {
                consumer.member.is_ready(&consumer.reader).unwrap()
            });
        }
        producer.join().unwrap();
        assert_eq!(consumer.delivered, [(5, false)]);
        model.assert_free();
    });
}

#[test]
fn a_message_wakes_the_consumer() {
    sleeping_consumer(true);
}

#[test]
fn a_message_without_fences_is_caught() {
    assert_caught(DEADLOCK, || sleeping_consumer(false));
}

/// How room is made.
#[derive(Clone, Copy)]
enum Room {
    Finish,
    Keep,
    Recover,
}

/// A producer sleeps until there is a buffer: the only one is with the consumer.
fn sleeping_producer(room: Room, fences: bool) {
    explore(3, move || {
        let model = Modelled::with_fences(1, 1, Fences(fences));
        let bed = Arc::new(Bed::default());
        let mut consumer = Consumer::new(&model, 2);
        let producer = model.member(1);
        let _ = model.send(&producer, 5).unwrap();
        let mut taken = consumer.take(1).unwrap();
        let other = {
            let (model, bed) = (model.clone(), bed.clone());
            thread::spawn(move || match room {
                Room::Finish => bed.wake(consumer.finish(taken)),
                Room::Keep => {
                    let (grant, wakes) = consumer.member.keep(&consumer.notes, &mut taken).unwrap().unwrap();
                    bed.wake(wakes);
                    bed.wake(consumer.member.release(grant).unwrap());
                }
                Room::Recover => {
                    // It dies when the cell is empty.
                    let keep = || consumer.member.keep(&consumer.notes, &mut taken).is_ok();
                    assert_eq!(Deaths::default().until(consumer.member.parts(), 1, keep), None);
                    model.parts().recover(2, &model.fences);
                    bed.wake(true);
                }
            })
        };
        while model.send(&producer, 6).is_err() {
            let is_there = || model.parts().holding(0).is_none();
            bed.sleep_unless(&model, Sleeper::Room, is_there);
        }
        other.join().unwrap();
    });
}

#[test]
fn room_wakes_producers() {
    for room in [Room::Finish, Room::Keep, Room::Recover] {
        sleeping_producer(room, true);
    }
}

#[test]
fn room_without_fences_is_caught() {
    // After a recovery everybody is woken: there is no look that could come too early.
    for room in [Room::Finish, Room::Keep] {
        assert_caught(DEADLOCK, || sleeping_producer(room, false));
    }
}
