//! What the ring lends: reservations to producers, batches to the consumer.

mod staging_kit;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use staging_kit::{drain, ring, stress_end, until, within_limit};
use transload::staging::{Consumer, DequeueError, EnqueueError, PinnedStagingBuffer, Stall};

#[test]
fn a_half_written_message_is_not_there_and_a_committed_one_is() {
    let (producer, mut consumer) = ring(4, 8);
    let mut bytes = [0; 32];
    let mut slot = producer.try_reserve().unwrap();
    slot[..4].copy_from_slice(b"half");
    assert_eq!(consumer.dequeue_batch(&mut bytes, 4), Ok(0));
    assert_eq!(consumer.len(), 1, "it is being written");
    slot[4..].copy_from_slice(b"half");
    slot.commit();
    assert_eq!(consumer.dequeue_batch(&mut bytes, 4), Ok(1));
    assert_eq!(&bytes[..8], b"halfhalf");
}

#[test]
fn messages_behind_a_reservation_wait_for_it_and_keep_their_order() {
    let (producer, mut consumer) = ring(8, 1);
    producer.try_enqueue(b"a").unwrap();
    let mut slot = producer.try_reserve().unwrap();
    producer.try_enqueue_batch(b"cd").unwrap();
    assert_eq!(drain(&mut consumer), [b"a"]);
    slot[0] = b'b';
    slot.commit();
    assert_eq!(drain(&mut consumer).concat(), b"bcd");
}

#[test]
fn a_dropped_reservation_is_stepped_over_and_counted() {
    let (producer, mut consumer) = ring(4, 1);
    let mut slot = producer.try_reserve().unwrap();
    slot[0] = b'x';
    drop(slot);
    producer.try_enqueue(b"a").unwrap();
    assert_eq!(drain(&mut consumer), [b"a"], "its bytes are never delivered");
    assert_eq!((consumer.statistics().skipped, consumer.len()), (1, 0));
    for _ in 0..100 {
        for _ in 0..4 {
            drop(producer.try_reserve().unwrap());
        }
        assert_eq!(producer.try_reserve().err(), Some(EnqueueError::Full));
        assert_eq!(consumer.take(9).err(), Some(DequeueError::Empty));
    }
    assert_eq!(consumer.statistics().skipped, 401);
}

#[test]
fn after_a_panic_in_a_reservation_the_next_ten_messages_arrive() {
    let (producer, mut consumer) = ring(16, 8);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut slot = producer.try_reserve().unwrap();
        slot[..4].copy_from_slice(b"half");
        panic!("in the middle of a message (this is the test)");
    }));
    assert!(result.is_err());
    for number in 0..10u64 {
        producer.try_enqueue(&number.to_le_bytes()).unwrap();
    }
    let expected: Vec<_> = (0..10u64).map(|number| number.to_le_bytes().to_vec()).collect();
    assert_eq!(drain(&mut consumer), expected);
    assert_eq!(consumer.statistics().skipped, 1);
}

#[test]
fn a_producer_thread_that_dies_does_not_close_the_ring_for_others() {
    let (producer, mut consumer) = ring(4, 1);
    let dying = producer.clone();
    let died = thread::spawn(move || {
        let _slots = dying.try_reserve_batch(2).unwrap();
        panic!("with two slots reserved (this is the test)");
    });
    assert!(within_limit(|| died.join()).is_err());
    producer.try_enqueue_batch(b"ab").unwrap();
    assert_eq!(drain(&mut consumer).concat(), b"ab");
    assert_eq!((consumer.statistics().skipped, consumer.is_closed()), (2, false));
}

#[test]
fn batch_reservations_wrap_and_commit_a_prefix() {
    for offset in 0..8usize {
        let (producer, mut consumer) = ring(8, 2);
        producer.try_enqueue_batch(&vec![0; 2 * offset]).unwrap();
        drain(&mut consumer);
        let mut slots = producer.try_reserve_batch(6).unwrap();
        assert_eq!((slots.len(), slots.is_empty()), (6, false));
        let (first, second) = slots.as_mut_slices();
        assert_eq!(
            (first.len(), second.len()),
            (2 * 6.min(8 - offset), 2 * 6usize.saturating_sub(8 - offset))
        );
        for (number, byte) in first.iter_mut().chain(second).enumerate() {
            *byte = u8::try_from(number).unwrap();
        }
        slots.commit_prefix(0);
        slots.commit_prefix(2);
        assert_eq!(drain(&mut consumer), [[0, 1], [2, 3]]);
        assert_eq!(slots.len(), 4);
        let (first, second) = slots.as_mut_slices();
        assert_eq!(first.len() + second.len(), 8);
        assert_eq!([&*first, &*second].concat()[..2], [4, 5], "what was written stays");
        slots.commit_prefix(1);
        drop(slots);
        producer.try_enqueue(&[9, 9]).unwrap();
        assert_eq!(drain(&mut consumer), [[4, 5], [9, 9]], "offset {offset}");
        assert_eq!(consumer.statistics().skipped, 3);
    }
}

#[test]
fn a_batch_reservation_gets_what_there_is_and_at_least_one() {
    let (producer, mut consumer) = ring(4, 1);
    producer.try_enqueue(b"a").unwrap();
    let mut slots = producer.try_reserve_batch(usize::MAX).unwrap();
    assert_eq!(slots.len(), 3);
    slots.commit_prefix(usize::MAX);
    assert!(slots.is_empty());
    assert_eq!(slots.as_mut_slices(), (&mut [][..], &mut [][..]));
    slots.commit_prefix(1);
    slots.commit();
    assert_eq!(producer.try_reserve_batch(0).err(), Some(EnqueueError::Full));
    drain(&mut consumer);
    let one = producer.try_reserve_batch(0).unwrap();
    assert_eq!(one.len(), 1);
    drop(one);
    assert_eq!((drain(&mut consumer).len(), consumer.statistics().skipped), (0, 1));
}

#[test]
fn a_forgotten_reservation_stops_the_consumer_and_harms_nobody() {
    let (producer, mut consumer) = ring(4, 1);
    producer.try_enqueue(b"a").unwrap();
    let _never_dropped = std::mem::ManuallyDrop::new(producer.try_reserve().unwrap());
    producer.try_enqueue_batch(b"cd").unwrap();
    assert_eq!(drain(&mut consumer), [b"a"]);
    producer.try_enqueue(b"e").unwrap();
    assert_eq!(producer.try_enqueue(b"f"), Err(EnqueueError::Full));
    assert_eq!(stall(&mut consumer).position, 1);
    producer.close();
    assert_eq!(consumer.take(1).err(), Some(DequeueError::Empty), "it might still be committed");
}

#[test]
fn slots_of_the_ring_itself_may_be_source_and_destination() {
    // Safe code may do this; no two of the slices ever overlap.
    let (producer, mut consumer) = ring(8, 2);
    producer.try_enqueue_batch(b"aabb").unwrap();
    let batch = consumer.take(1).unwrap();
    producer.try_enqueue(batch.as_slices().0).unwrap();
    let mut slots = producer.try_reserve_batch(4).unwrap();
    producer.try_enqueue(b"zz").unwrap();
    let (room, _) = slots.as_mut_slices();
    assert_eq!(consumer.dequeue_batch(room, 4), Ok(2));
    assert_eq!(&room[..4], b"bbaa");
    slots.commit_prefix(2);
    drop(slots);
    drop(batch);
    assert_eq!(drain(&mut consumer).concat(), b"bbaazz");
}

#[test]
fn the_consumer_says_how_long_it_waits_for_which_reservation() {
    let (producer, mut consumer) = ring(8, 1);
    producer.try_enqueue_batch(b"ab").unwrap();
    drain(&mut consumer);
    assert_eq!(consumer.wait_timeout(Duration::from_millis(1)), Ok(false));
    assert_eq!(producer.statistics().stalled, None, "an empty ring is no stall");

    let slot = producer.try_reserve().unwrap();
    producer.try_enqueue(b"d").unwrap();
    assert_eq!(producer.statistics().stalled, None, "the consumer has not waited yet");
    let first = stall(&mut consumer);
    assert_eq!(first.position, 2);
    thread::sleep(Duration::from_millis(10));
    let second = stall(&mut consumer);
    assert_eq!((second.position, producer.statistics().stalled.unwrap().position), (2, 2));
    assert!(second.since >= first.since + Duration::from_millis(10), "one wait after the other counts on");

    drop(slot);
    assert_eq!(consumer.wait_timeout(Duration::ZERO), Ok(true));
    assert_eq!(producer.statistics().stalled, None);
    assert_eq!(drain(&mut consumer), [b"d"]);
    let slot = producer.try_reserve().unwrap();
    assert_eq!(producer.statistics().stalled, None, "another reservation is another stall");
    assert_eq!(stall(&mut consumer).position, 4);
    drop(slot);
}

/// The stall that the consumer notes, also if its wait is too short for a sleep.
fn stall(consumer: &mut Consumer) -> Stall {
    assert_eq!(consumer.wait_timeout(Duration::ZERO), Ok(false));
    consumer.statistics().stalled.expect("the wait has found a reservation")
}

#[test]
fn several_batches_live_at_once_and_go_in_any_order() {
    // All orders of four batches: slots come back in the order of the ring.
    for order in 0..24usize {
        let (producer, mut consumer) = ring(8, 1);
        producer.try_enqueue_batch(b"aabbccdd").unwrap();
        let mut batches: Vec<_> = (0..4).map(|_| Some(consumer.take(2).unwrap())).collect();
        let mut left: Vec<usize> = (0..4).collect();
        let (mut code, mut free) = (order, 0);
        while !left.is_empty() {
            let index = left.remove(code % left.len());
            code /= left.len() + 1;
            let letter = b'a' + u8::try_from(index).unwrap();
            let batch = batches[index].take().unwrap();
            assert_eq!(batch.as_slices().0, [letter; 2]);
            assert_eq!(batch.first_position(), 2 * index as u64);
            drop(batch);
            let oldest = batches.iter().take_while(|batch| batch.is_none()).count();
            while producer.try_enqueue(b"x").is_ok() {
                free += 1;
            }
            assert_eq!(free, 2 * oldest, "order {order}");
        }
    }
}

#[test]
fn batches_may_be_dropped_on_other_threads() {
    let (producer, mut consumer) = ring(64, 8);
    let (sender, receiver) = mpsc::channel();
    let droppers: Vec<_> = {
        let receiver = std::sync::Arc::new(std::sync::Mutex::new(receiver));
        (0..3)
            .map(|_| {
                let receiver = receiver.clone();
                thread::spawn(move || {
                    let next = || receiver.lock().unwrap().recv();
                    while let Ok(batch) = next() {
                        drop::<transload::staging::Batch>(batch);
                    }
                })
            })
            .collect()
    };
    let mut next = 0u64;
    for number in 0..20_000u64 {
        until("room", || producer.try_enqueue(&number.to_le_bytes()).is_ok());
        if number % 5 == 4 {
            match consumer.take(usize::try_from(number % 9 + 1).unwrap()) {
                Ok(batch) => {
                    for message in &batch {
                        assert_eq!(message, next.to_le_bytes());
                        next += 1;
                    }
                    sender.send(batch).unwrap();
                }
                Err(DequeueError::TooManyBatches | DequeueError::Empty) => {}
                Err(error) => panic!("{error}"),
            }
        }
        if consumer.is_full() {
            next += consumer.clear();
        }
    }
    drop(sender);
    for thread in droppers {
        within_limit(|| thread.join().unwrap());
    }
    next += drain(&mut consumer).len() as u64;
    assert_eq!(next, 20_000);
    assert_eq!(producer.try_enqueue_batch(&[0; 64 * 8]), Ok(64), "all slots have come back");
}

#[test]
fn sixty_four_batches_can_be_open_and_then_it_goes_on() {
    let (producer, mut consumer) = ring(128, 1);
    for round in 0..5 {
        producer.try_enqueue_batch(&[round; 100]).unwrap();
        let mut batches: Vec<_> = (0..64).map(|_| consumer.take(1).unwrap()).collect();
        assert_eq!(consumer.take(1).err(), Some(DequeueError::TooManyBatches));
        assert_eq!(consumer.dequeue_batch(&mut [0; 128], 128), Err(DequeueError::TooManyBatches));
        assert_eq!(consumer.is_ready(), Err(DequeueError::TooManyBatches));
        assert_eq!(consumer.len(), 36);
        // A younger one does not help: places in the table come back in the order of the ring as well.
        drop(batches.swap_remove(40));
        assert_eq!(consumer.take(1).err(), Some(DequeueError::TooManyBatches));
        drop(batches.remove(0));
        let next = consumer.take(9).unwrap();
        assert_eq!(next.messages(), 9);
        drop((batches, next));
        assert_eq!(drain(&mut consumer).len(), 27);
    }
}

#[test]
fn copying_out_and_skips_behind_an_open_batch_give_their_slots_back_with_it() {
    let (producer, mut consumer) = ring(8, 1);
    producer.try_enqueue_batch(b"abcd").unwrap();
    drop(producer.try_reserve().unwrap());
    producer.try_enqueue_batch(b"efg").unwrap();
    let batch = consumer.take(1).unwrap();
    let mut bytes = [0; 8];
    assert_eq!(consumer.dequeue_batch(&mut bytes, 8), Ok(6));
    assert_eq!(&bytes[..6], b"bcdefg");
    assert_eq!((producer.is_full(), producer.is_empty()), (true, true), "nothing is there, nothing fits");
    assert_eq!(producer.try_enqueue(b"h"), Err(EnqueueError::Full));
    drop(batch);
    assert_eq!(producer.try_enqueue_batch(b"hijklmnop"), Ok(8));
}

#[test]
fn a_batch_outlives_both_ends() {
    let (producer, mut consumer) = ring(4, 2);
    producer.try_enqueue_batch(b"aabb").unwrap();
    let batch = consumer.take(2).unwrap();
    drop((producer, consumer));
    assert!(batch.is_closed());
    let moved = thread::spawn(move || batch.iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
    assert_eq!(within_limit(|| moved.join().unwrap()), [b"aa", b"bb"]);
}

#[test]
fn batches_know_where_they_are() {
    for offset in 0..8usize {
        let (producer, mut consumer) = ring(8, 3);
        producer.try_enqueue_batch(&vec![0; 3 * offset]).unwrap();
        drain(&mut consumer);
        producer.try_enqueue_batch(b"aaabbbcccdddeeefff").unwrap();
        assert_eq!(consumer.until_wrap(), 8 - offset);
        let batch = consumer.take(64).unwrap();
        let before_wrap = 6.min(8 - offset);
        assert_eq!(batch.first_position(), offset as u64);
        assert_eq!((batch.messages(), batch.bytes()), (6, 18));
        assert_eq!(batch.pieces(), [3 * offset..3 * (offset + before_wrap), 0..3 * (6 - before_wrap)]);
        let (first, second) = batch.as_slices();
        assert_eq!([first, second].concat(), b"aaabbbcccdddeeefff");
        assert_eq!(first.as_ptr(), batch.as_ptr().wrapping_add(3 * offset).cast_const());
        assert_eq!(batch.iter().collect::<Vec<_>>(), [b"aaa", b"bbb", b"ccc", b"ddd", b"eee", b"fff"]);
        assert_eq!(batch.iter().size_hint(), (6, Some(6)));
        assert_eq!((&batch).into_iter().count(), 6);
    }
}

#[test]
fn contiguous_batches_end_at_the_wrap() {
    for offset in 0..8usize {
        let (producer, mut consumer) = ring(8, 1);
        producer.try_enqueue_batch(&vec![0; offset]).unwrap();
        drain(&mut consumer);
        producer.try_enqueue_batch(b"abcdefgh").unwrap();
        let first = consumer.take_contiguous(64).unwrap();
        assert_eq!((first.messages(), first.pieces()[1].len()), (8 - offset, 0));
        if offset > 0 {
            let second = consumer.take_contiguous(64).unwrap();
            assert_eq!((second.messages(), second.pieces()[1].len()), (offset, 0));
        }
        assert_eq!(consumer.take_contiguous(1).err(), Some(DequeueError::Empty));
    }
}

#[test]
fn contiguous_batches_end_at_the_wrap_also_where_a_reservation_is_given_up_meanwhile() {
    const ROUNDS: u32 = 30_000;
    // Five positions a round in a ring of eight: each slot is given up in turn.
    let (producer, mut consumer) = ring(8, 1);
    let gives_up = thread::spawn(move || {
        let end = stress_end();
        for _ in (0..ROUNDS).take_while(|_| Instant::now() < end) {
            loop {
                if let Ok(slot) = producer.try_reserve() {
                    let _ = producer.try_enqueue_batch(b"abcd");
                    drop(slot);
                    break;
                }
                thread::yield_now();
            }
        }
    });
    let wrapped = within_limit(move || {
        let mut wrapped = 0;
        loop {
            match consumer.take_contiguous(64) {
                Ok(batch) => wrapped += usize::from(!batch.pieces()[1].is_empty()),
                Err(DequeueError::Closed) => return wrapped,
                Err(_) => std::hint::spin_loop(),
            }
        }
    });
    within_limit(|| gives_up.join().unwrap());
    assert_eq!(wrapped, 0);
}

#[test]
fn sampled_messages_have_an_age_and_others_none() {
    let (producer, mut consumer) =
        PinnedStagingBuffer::builder(128, 1).sample_latency(true).build().unwrap().split();
    producer.try_enqueue_batch(&[0; 128]).unwrap();
    thread::sleep(Duration::from_millis(2));
    let ages: Vec<_> = consumer.take(128).unwrap().sampled_ages().collect();
    assert_eq!(ages.len(), 2, "positions 0 and 64");
    assert!(ages.iter().all(|age| *age >= Duration::from_millis(2)), "{ages:?}");

    let (producer, mut consumer) = ring(128, 1);
    producer.try_enqueue_batch(&[0; 128]).unwrap();
    assert_eq!(consumer.take(128).unwrap().sampled_ages().count(), 0);
}
