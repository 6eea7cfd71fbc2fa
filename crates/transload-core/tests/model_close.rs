//! Models: closing beside producers. What was accepted is delivered, and only then is the ring drained.
//!
//! Two producers and a closing consumer, two slots, at most three forced switches.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
use common::{Modelled, assert_caught, explore};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::SeqCst};
use loom::thread;
use transload_core::TakeError;

fn close(flag_beside: bool) {
    explore(3, move || {
        let (model, mut reader) = Modelled::new(2);
        let flag = Arc::new(AtomicBool::new(false));
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (model, flag) = (model.clone(), flag.clone());
                thread::spawn(move || {
                    if flag_beside && flag.load(SeqCst) {
                        return 0;
                    }
                    u64::from(model.send(1).is_ok())
                })
            })
            .collect();
        let mut received = 0;
        if flag_beside {
            // The twin: a flag beside the tail. A producer may pass the flag before it is raised and claim after
            // the closer has looked at the tail.
            flag.store(true, SeqCst);
            let last = model.ring.tail();
            while model.ring.taken() < last {
                match model.receive(&mut reader, 2) {
                    Ok(values) => received += values.len() as u64,
                    Err(_) => thread::yield_now(),
                }
            }
        } else {
            assert!(model.ring.close());
            loop {
                match model.receive(&mut reader, 2) {
                    Ok(values) => received += values.len() as u64,
                    Err(TakeError::Closed) => break,
                    Err(_) => thread::yield_now(),
                }
            }
        }
        let accepted: u64 = producers.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(accepted, received, "accepted and never delivered");
    });
}

#[test]
fn what_was_accepted_before_closing_is_delivered() {
    close(false);
}

#[test]
fn a_flag_beside_the_tail_is_caught() {
    assert_caught("never delivered", || close(true));
}
