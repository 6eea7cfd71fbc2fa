//! The staging ring and fork: the child does not have the memory, and whatever it does harms the parent's ring not at
//! all.
#![cfg(target_os = "linux")]

mod forking;
mod staging_kit;

use std::thread;
use std::time::Duration;

use forking::fork;
use staging_kit::{drain, ring};
use transload::staging::{Consumer, Producer};

/// That the parent's ring goes on: what was there, and a few laps more.
fn goes_on(producer: &Producer, consumer: &mut Consumer, there: &[&[u8]]) {
    assert!(!producer.is_closed());
    assert_eq!(drain(consumer), there);
    for round in 0..20u8 {
        while producer.try_enqueue(&[round; 2]).is_ok() {}
        assert_eq!(drain(consumer), vec![[round; 2]; producer.capacity()]);
    }
}

#[test]
fn a_child_that_touches_nothing_exits_and_the_parent_goes_on() {
    let (producer, mut consumer) = ring(4, 2);
    producer.try_enqueue_batch(b"aabb").unwrap();
    let batch = consumer.take(1).unwrap();
    let mut slot = producer.try_reserve().unwrap();
    let status = fork(|| {});
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
    assert_eq!(batch.as_slices().0, b"aa");
    slot.copy_from_slice(b"cc");
    slot.commit();
    drop(batch);
    goes_on(&producer, &mut consumer, &[b"bb", b"cc"]);
}

#[test]
fn a_child_that_drops_and_closes_everything_leaves_the_parent_alone() {
    let (producer, consumer) = ring(4, 2);
    producer.try_enqueue_batch(b"aabb").unwrap();
    let mut ends = Some((producer, consumer));
    let status = fork(|| {
        let (producer, mut consumer) = ends.take().unwrap();
        let reserved = producer.try_reserve().unwrap();
        drop(reserved);
        let batch = consumer.take(1).unwrap();
        assert_eq!(consumer.clear(), 1);
        producer.close();
        drop((batch, consumer, producer));
    });
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
    let (producer, mut consumer) = ends.unwrap();
    goes_on(&producer, &mut consumer, &[b"aa", b"bb"]);
}

#[test]
fn a_child_that_sends_or_reads_is_ended_and_the_parent_goes_on() {
    let (producer, mut consumer) = ring(4, 2);
    producer.try_enqueue_batch(b"aabb").unwrap();
    let status = fork(|| producer.try_enqueue(b"cc").unwrap());
    assert_eq!(status.terminating_signal(), Some(libc::SIGSEGV), "{status:?}");
    let status = fork(|| {
        let _ = consumer.dequeue_batch(&mut [0; 2], 1);
    });
    assert_eq!(status.terminating_signal(), Some(libc::SIGSEGV), "{status:?}");
    goes_on(&producer, &mut consumer, &[b"aa", b"bb"]);
}

#[test]
fn a_child_may_make_a_ring_of_its_own_and_wait_on_it() {
    let (producer, mut consumer) = ring(4, 2);
    producer.try_enqueue_batch(b"aabb").unwrap();
    let status = fork(|| {
        let (own_producer, mut own_consumer) = ring(4, 2);
        let sends = thread::spawn(move || {
            for number in 0..50u8 {
                thread::sleep(Duration::from_millis(1));
                own_producer.enqueue(&[number; 2]).unwrap();
            }
        });
        for number in 0..50u8 {
            own_consumer.wait().unwrap();
            assert_eq!(own_consumer.take(1).unwrap().as_slices().0, [number; 2]);
        }
        sends.join().unwrap();
    });
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
    goes_on(&producer, &mut consumer, &[b"aa", b"bb"]);
}
