//! Models: what a member is told of the shared pool and ring as a whole is true. Exhausted, full, and where the head is.
//!
//! Two buffers and two cells next to their wrap, two or three threads, at most three forced switches.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod shared_kit;

use common::{RACE, assert_caught, explore};
use loom::thread;
use shared_kit::{Consumer, Modelled};
use transload_core::{ClaimCursor, Label, SharedNoGrant, weakened};

/// How a buffer comes back, and what becomes of the other one, which was free until then.
#[derive(Clone, Copy)]
enum Move {
    Release,
    Recover,
}

/// Buffer 1 is out and buffer 0 is free; another thread gives 1 back and then claims 0, and may send it. One is free at
/// each instant.
fn always_one_free(how: Move, send: bool) {
    explore(3, move || {
        let model = Modelled::new(2, 2);
        let other = model.member(1);
        let grants = [0, 1].map(|nth| other.claim(&ClaimCursor::new(nth)).unwrap());
        let [zero, one] = grants;
        let _ = other.release(zero).unwrap();
        let mover = {
            let model = model.clone();
            thread::spawn(move || {
                let other = match how {
                    Move::Release => {
                        model.write(1, 7);
                        let _ = other.release(one).unwrap();
                        other
                    }
                    Move::Recover => {
                        assert_eq!(model.recover(1).freed, 1);
                        model.member(3)
                    }
                };
                if let Ok(grant) = other.claim(&ClaimCursor::new(0))
                    && send
                {
                    let _ = other.send(grant, 1).unwrap();
                }
            })
        };
        let found = model.member(2).claim(&ClaimCursor::new(1));
        assert_ne!(
            found.map(|grant| grant.index()).err(),
            Some(SharedNoGrant::Exhausted),
            "exhausted while a buffer was free at each instant"
        );
        mover.join().unwrap();
    });
}

#[test]
fn exhausted_is_never_said_while_a_buffer_is_free() {
    for how in [Move::Release, Move::Recover] {
        always_one_free(how, false);
        always_one_free(how, true);
    }
}

#[test]
fn a_relaxed_look_is_caught() {
    for send in [false, true] {
        let twin = || weakened(Label::SharedLook, || always_one_free(Move::Release, send));
        assert_caught("exhausted while", twin);
    }
}

/// A buffer comes back while somebody looks for one, who finds it the next time at the latest. Not where it looks first,
/// which is before it remembers that there was none.
fn what_came_back(how: Move) {
    explore(3, move || {
        let model = Modelled::new(2, 2);
        let _kept = model.member(3).claim(&ClaimCursor::new(0)).unwrap();
        let other = model.member(1);
        let grant = other.claim(&ClaimCursor::new(1)).unwrap();
        // The observer is the spawned thread: loom begins with the other one, and moves loads behind its stores.
        let observer = {
            let model = model.clone();
            thread::spawn(move || {
                let (member, cursor) = (model.member(2), ClaimCursor::new(0));
                let first = member.claim(&cursor).is_ok();
                (member, cursor, first)
            })
        };
        match how {
            Move::Release => assert!(!other.release(grant).unwrap()),
            Move::Recover => assert_eq!(model.recover(1).freed, 1),
        }
        let (member, cursor, first) = observer.join().unwrap();
        assert!(first || member.claim(&cursor).is_ok(), "exhausted while nobody had it");
    });
}

#[test]
fn what_came_back_is_found() {
    what_came_back(Move::Release);
    what_came_back(Move::Recover);
}

#[test]
fn a_relaxed_tally_is_caught() {
    for how in [Move::Release, Move::Recover] {
        let twin = || weakened(Label::SharedTally, || what_came_back(how));
        assert_caught("exhausted while nobody", twin);
    }
}

/// Two members want a buffer of two, or the only one, and write to it; who finds none has been told the truth: nobody
/// has given anything back meanwhile, or one came back and went again.
fn owners(buffers: usize) {
    explore(2, move || {
        let model = Modelled::new(buffers, 2);
        let others = [1, 2].map(|number| {
            let model = model.clone();
            thread::spawn(move || {
                let member = model.member(number);
                let cursor = ClaimCursor::new(0);
                match member.claim(&cursor) {
                    Ok(grant) => {
                        model.write(grant.index(), 1);
                        let _ = member.release(grant).unwrap();
                        // What came back is found, if nobody else has it.
                        let again = member.claim(&cursor);
                        if let Ok(grant) = again {
                            let _ = member.release(grant).unwrap();
                        }
                    }
                    Err(why) => assert!(buffers == 1, "{why} while nobody can have both"),
                }
            })
        });
        for other in others {
            other.join().unwrap();
        }
        model.assert_free();
    });
}

#[test]
fn a_buffer_has_one_owner() {
    owners(1);
    owners(2);
}

#[test]
fn a_relaxed_lend_is_caught() {
    assert_caught(RACE, || weakened(Label::SharedLend, || owners(1)));
}

/// One member sends and takes by itself, one message at a time, so there is never more than that one and ours.
fn never_full() {
    explore(3, || {
        let model = Modelled::new(3, 2);
        // The observer is the spawned thread, as above.
        let observer = {
            let model = model.clone();
            thread::spawn(move || {
                let member = model.member(2);
                let grant = member.claim(&ClaimCursor::new(2)).unwrap();
                model.write(grant.index(), 9);
                assert!(member.send(grant, 9).is_ok(), "wrongly full");
            })
        };
        let mut consumer = Consumer::new(&model, 1);
        for value in 0..2 {
            let grant = consumer.member.claim(&ClaimCursor::new(value)).unwrap();
            model.write(grant.index(), value.into());
            assert!(consumer.member.send(grant, value).is_ok());
            assert!(consumer.receive(2).is_ok(), "wrongly empty");
        }
        observer.join().unwrap();
        consumer.drain();
        assert_eq!(consumer.times(9), 1);
        model.assert_free();
    });
}

#[test]
fn full_is_never_said_while_there_is_room() {
    never_full();
}

#[test]
fn a_relaxed_tail_is_caught() {
    assert_caught("wrongly ", || weakened(Label::SharedTail, never_full));
}

/// Two messages are done on two threads, in any order, while a producer fills their cells again. The head may lag behind.
fn done_out_of_order() {
    explore(2, || {
        let model = Modelled::new(3, 2);
        let mut consumer = Consumer::new(&model, 1);
        for value in [1, 2] {
            let _ = model.send(&consumer.member, value).unwrap();
        }
        let (first, second) = (consumer.take(1).unwrap(), consumer.take(1).unwrap());
        let producer = {
            let model = model.clone();
            thread::spawn(move || model.send(&model.member(2), 3).is_ok())
        };
        let consumer = loom::sync::Arc::new(consumer);
        let other = {
            let consumer = consumer.clone();
            thread::spawn(move || consumer.finish(second))
        };
        let _ = consumer.finish(first);
        let _ = other.join().unwrap();
        let sent = producer.join().unwrap();
        let mut next = Consumer::new(&model, 3);
        next.drain();
        assert_eq!(next.delivered, if sent { vec![(3, false)] } else { vec![] });
        model.assert_free();
    });
}

#[test]
fn messages_are_done_in_any_order_on_any_thread() {
    done_out_of_order();
}
