//! Models: claim, publish, skip and free, one message and batches, across the wrap of laps.
//!
//! Two or three threads, two slots, at most three forced switches; a few thousand to some hundred thousand
//! executions, each model within seconds in release (the figures are printed).
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
use common::{Modelled, RACE, assert_caught, explore};
use loom::thread;
use transload_core::{Label, Mark, weakened};

/// Two producers send three messages through two slots; the consumer checks order and completeness.
fn messages() {
    explore(3, || {
        let (model, mut reader) = Modelled::new(2);
        let producers: Vec<_> = (0..2u64)
            .map(|producer| {
                let model = model.clone();
                thread::spawn(move || {
                    (0..2 - producer).filter(|message| model.send(producer * 10 + message).is_ok()).count()
                })
            })
            .collect();
        let (mut received, mut last) = (0, [None; 2]);
        let mut drain = || {
            while let Ok(values) = model.receive(&mut reader, 2) {
                for value in values {
                    let producer = usize::try_from(value / 10).unwrap();
                    assert!(last[producer] < Some(value), "a producer's messages out of order");
                    last[producer] = Some(value);
                    received += 1;
                }
            }
        };
        drain();
        drain();
        let accepted: usize = producers.into_iter().map(|thread| thread.join().unwrap()).sum();
        drain();
        assert_eq!(accepted, received);
        assert!(model.ring.is_empty() && !model.ring.is_full());
    });
}

#[test]
fn messages_arrive_whole_and_in_order() {
    messages();
}

#[test]
fn a_relaxed_publish_is_caught() {
    assert_caught(RACE, || weakened(Label::Publish, messages));
}

#[test]
fn a_relaxed_free_is_caught() {
    assert_caught(RACE, || weakened(Label::Free, messages));
}

/// A full ring: one producer refreshes the copy of `head`, the other may use only the copy.
fn cached_head() {
    explore(3, || {
        let (model, mut reader) = Modelled::new(2);
        for value in 0..2 {
            model.send(value).unwrap();
        }
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || {
                    let _ = model.send(9);
                })
            })
            .collect();
        assert_eq!(model.receive(&mut reader, 2).unwrap().len(), 2);
        for thread in producers {
            thread.join().unwrap();
        }
    });
}

#[test]
fn the_copy_of_head_carries_what_head_carries() {
    cached_head();
}

#[test]
fn a_relaxed_copy_of_head_is_caught() {
    assert_caught(RACE, || weakened(Label::CachedHead, cached_head));
}

/// A producer writes half a message and gives up; the next lap's producer uses the slot.
fn skips() {
    explore(3, || {
        let (model, mut reader) = Modelled::new(2);
        let (gives_up, goes_on) = (model.clone(), model.clone());
        let first = thread::spawn(move || {
            if let Ok(claim) = gives_up.ring.claim(1) {
                gives_up.write(claim.first(), 1);
                let _ = gives_up.ring.publish(claim, Mark::Skipped);
            }
        });
        let second = thread::spawn(move || (0..2).filter(|_| goes_on.send(2).is_ok()).count() as u64);
        let mut received = 0;
        for _ in 0..2 {
            if let Ok(values) = model.receive(&mut reader, 2) {
                assert!(values.iter().all(|&value| value == 2), "half a message was delivered");
                received += values.len() as u64;
            }
        }
        first.join().unwrap();
        let accepted = second.join().unwrap();
        while let Ok(values) = model.receive(&mut reader, 2) {
            received += values.len() as u64;
        }
        assert_eq!(accepted, received);
        // Skips at the end are freed too: the ring holds two messages again.
        let _ = model.ring.pass_skipped(&mut reader);
        assert!(model.send(2).is_ok() && model.send(2).is_ok() && model.send(2).is_err());
    });
}

#[test]
fn skips_are_stepped_over_and_their_slots_used_again() {
    skips();
}

#[test]
fn a_relaxed_skip_is_caught() {
    assert_caught(RACE, || weakened(Label::Publish, skips));
}

/// A batch claim, published in two parts, beside a producer of single messages.
fn batch_claims() {
    explore(3, || {
        let (model, mut reader) = Modelled::new(4);
        let (batches, singles) = (model.clone(), model.clone());
        let first = thread::spawn(move || {
            let mut claim = batches.ring.claim(3).unwrap();
            let count = claim.count() as u64;
            batches.write_all(&claim, 10);
            let _ = batches.ring.publish(claim.split_to(1), Mark::Written);
            let _ = batches.ring.publish(claim, Mark::Written);
            count
        });
        let second = thread::spawn(move || (0..2).filter(|_| singles.send(1).is_ok()).count() as u64);
        let (mut received, mut expected) = (0, 10);
        let mut drain = || {
            while let Ok(values) = model.receive(&mut reader, 3) {
                for value in values {
                    received += 1;
                    if value >= 10 {
                        assert_eq!(value, expected, "a batch out of order");
                        expected += 1;
                    }
                }
            }
        };
        drain();
        let accepted = first.join().unwrap() + second.join().unwrap();
        drain();
        assert_eq!(accepted, received);
    });
}

#[test]
fn batch_claims_are_published_in_parts() {
    batch_claims();
}

#[test]
fn a_relaxed_batch_publish_is_caught() {
    assert_caught(RACE, || weakened(Label::Publish, batch_claims));
}

/// The consumer throws away while two producers send: what is accepted is received or thrown away.
fn discards() {
    explore(3, || {
        let (model, mut reader) = Modelled::new(2);
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || (0..2).filter(|_| model.send(1).is_ok()).count() as u64)
            })
            .collect();
        let mut discarded = 0;
        for _ in 0..2 {
            discarded += model.ring.discard(&mut reader).0;
            thread::yield_now();
        }
        let accepted: u64 = producers.into_iter().map(|thread| thread.join().unwrap()).sum();
        discarded += model.ring.discard(&mut reader).0;
        assert_eq!(accepted, discarded);
        assert_eq!(model.ring.discarded(), discarded);
        assert!(model.ring.is_empty());
    });
}

#[test]
fn clearing_beside_producers_counts_each_message() {
    discards();
}

#[test]
fn a_relaxed_free_while_clearing_is_caught() {
    // Clearing reads no bytes, so the race shows between the producers' writes: the publish must be acquired.
    assert_caught(RACE, || weakened(Label::Publish, discards));
}
