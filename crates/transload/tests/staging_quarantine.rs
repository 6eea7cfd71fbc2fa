//! The staging ring when slots are given up for ever, because a device or a kernel may still access them.
#![cfg(target_os = "linux")]

mod staging_kit;

use std::pin::pin;
use std::task::Poll;

use staging_kit::{Signal, drain, ring, within_limit};
use transload::memory::{Slab, SlabError};
use transload::staging::{EnqueueError, PinnedStagingBuffer, StagingError};

#[test]
fn a_reservation_shrinks_the_ring_by_its_slot_and_the_slot_is_never_used_again() {
    let (producer, mut consumer) = ring(4, 1);
    producer.try_enqueue(&[1]).unwrap();
    let mut slot = producer.try_reserve().unwrap();
    slot[0] = 99;
    let lost = (&raw const slot[0]).addr() - producer.as_ptr().addr();
    slot.quarantine();
    assert_eq!((producer.capacity(), producer.len_bytes(), producer.statistics().quarantined), (3, 4, 1));
    assert_eq!(drain(&mut consumer), [[1]]);
    for round in 0..20u8 {
        let accepted = (0..9).take_while(|step| producer.try_enqueue(&[10 * round + step]).is_ok()).count();
        assert_eq!(accepted, 3, "round {round}");
        let batch = consumer.take(1).unwrap();
        assert!(!batch.pieces().iter().any(|piece| piece.contains(&lost)));
        drop(batch);
        let rest = drain(&mut consumer);
        assert_eq!(rest, [[10 * round + 1], [10 * round + 2]]);
    }
    // SAFETY: inside the ring's memory; nobody else touches the slot, which is the point of this test.
    assert_eq!(unsafe { producer.as_ptr().wrapping_add(lost).read() }, 99);
    assert_eq!(producer.statistics().skipped, 0);
}

#[test]
fn a_batch_shrinks_the_ring_by_its_slots_and_leaves_their_bytes_alone() {
    let (producer, mut consumer) = ring(8, 3);
    for number in 0..8u8 {
        producer.try_enqueue(&[number; 3]).unwrap();
    }
    let (kept, gone, last) =
        (consumer.take(2).unwrap(), consumer.take(3).unwrap(), consumer.take(3).unwrap());
    gone.quarantine();
    assert_eq!(producer.capacity(), 5);
    assert_eq!(producer.try_enqueue(&[0; 3]), Err(EnqueueError::Full), "an older batch is still there");
    drop((kept, last));
    for round in 0..20u8 {
        let accepted = (0..9).take_while(|_| producer.try_enqueue(&[100 + round; 3]).is_ok()).count();
        assert_eq!(accepted, 5);
        assert_eq!(drain(&mut consumer), vec![vec![100 + round; 3]; 5]);
    }
    for number in 2..5u8 {
        let start = producer.as_ptr().wrapping_add(3 * usize::from(number));
        // SAFETY: inside the ring's memory; nobody else touches these slots, which is the point of this test.
        let bytes = unsafe { std::slice::from_raw_parts(start, 3) };
        assert_eq!(bytes, [number; 3]);
    }
}

#[test]
fn part_of_a_batch_reservation_can_be_given_up_for_ever() {
    let (producer, mut consumer) = ring(8, 1);
    let mut slots = producer.try_reserve_batch(5).unwrap();
    slots.as_mut_slices().0.copy_from_slice(b"abcde");
    slots.commit_prefix(2);
    slots.quarantine();
    assert_eq!((producer.capacity(), producer.statistics().quarantined), (5, 3));
    assert_eq!(producer.try_enqueue_batch(b"xyz0123"), Ok(3));
    assert_eq!(drain(&mut consumer).concat(), b"abxyz");
    assert_eq!(
        producer.try_enqueue_batch(b"0123456").unwrap() + producer.try_enqueue_batch(b"456").unwrap(),
        5
    );
    assert_eq!(producer.try_enqueue(b"x"), Err(EnqueueError::Full));
}

#[test]
fn a_ring_without_slots_is_full_and_empty_and_still_closes() {
    let (producer, mut consumer) = ring(2, 1);
    producer.try_reserve_batch(2).unwrap().quarantine();
    for _ in 0..3 {
        assert_eq!(producer.try_enqueue(b"x"), Err(EnqueueError::Full));
        assert_eq!(consumer.dequeue_batch(&mut [0; 2], 2), Ok(0));
        assert!(producer.is_full() && producer.is_empty());
        assert_eq!((producer.capacity(), producer.len()), (0, 0));
    }
    producer.close();
    assert_eq!(producer.try_enqueue(b"x"), Err(EnqueueError::Closed));
    assert!(within_limit(move || consumer.wait()).is_err());
}

#[test]
fn sizes_stay_exact_beside_slots_that_are_gone() {
    // Whatever two of eight slots are gone and wherever the ring stands: compare with what really fits.
    for (first, second) in (0..8).flat_map(|first| (0..first).map(move |second| (first, second))) {
        let (producer, mut consumer) = ring(8, 1);
        for slot in 0..8 {
            if slot == first || slot == second {
                producer.try_reserve().unwrap().quarantine();
            } else {
                producer.try_enqueue(&[0]).unwrap();
            }
        }
        drain(&mut consumer);
        for step in 0..30 {
            let fill = step % 7;
            for len in 0..6 {
                assert_eq!((producer.len(), producer.is_empty(), producer.is_full()), (len, len == 0, false));
                if len == fill {
                    break;
                }
                producer.try_enqueue(&[0]).unwrap();
            }
            if fill == 6 {
                assert_eq!((producer.len(), producer.is_full()), (6, true));
                assert_eq!(producer.try_enqueue(&[0]), Err(EnqueueError::Full));
            }
            assert_eq!(producer.len(), fill);
            assert_eq!(drain(&mut consumer).len(), fill);
        }
    }
}

#[test]
fn a_consumer_that_sleeps_for_a_slot_that_is_then_lost_is_woken_by_the_next_message() {
    let (producer, mut consumer) = ring(4, 1);
    producer.try_enqueue_batch(b"abcd").unwrap();
    let (first, second) = (consumer.take(2).unwrap(), consumer.take(2).unwrap());
    let signal = Signal::new();
    {
        let mut waiting = pin!(consumer.wait_async());
        assert!(signal.poll(waiting.as_mut()).is_pending());
        first.quarantine();
        drop(second);
        producer.try_enqueue(b"e").unwrap();
        assert_eq!(signal.count(), 1, "nobody has told the consumer");
        assert_eq!(signal.poll(waiting.as_mut()), Poll::Ready(Ok(())));
    }
    assert_eq!(drain(&mut consumer), [b"e"]);
}

#[test]
fn a_slab_with_lost_slots_is_never_lent_again() {
    for through_a_batch in [false, true] {
        let slab = Slab::new(4, 8).unwrap();
        let (producer, mut consumer) =
            PinnedStagingBuffer::builder(4, 8).slab(slab.clone()).build().unwrap().split();
        if through_a_batch {
            producer.try_enqueue(&[1; 8]).unwrap();
            consumer.take(1).unwrap().quarantine();
        } else {
            producer.try_reserve().unwrap().quarantine();
        }
        drop((producer, consumer));
        // A device may still write there: a ring over the same memory would hand the slot out as its own.
        let second = PinnedStagingBuffer::builder(4, 8).slab(slab).build();
        assert!(
            matches!(second, Err(StagingError::Slab(SlabError::Occupied { len_bytes: 32 }))),
            "{second:?}"
        );
    }
}

#[test]
fn a_quarantined_slot_is_no_message_that_has_been_reached() {
    let (producer, consumer) = PinnedStagingBuffer::new(4, 8).unwrap().split();
    producer.try_reserve().unwrap().quarantine();
    let mut consumer = consumer;
    assert_eq!(consumer.is_ready(), Ok(false));
    assert!(!consumer.reaches(4), "slot 0 of the next lap is not claimed");
    producer.try_enqueue(&[1; 8]).unwrap();
    assert!(consumer.reaches(1) && !consumer.reaches(2));
}
