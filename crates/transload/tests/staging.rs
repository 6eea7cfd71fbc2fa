//! The staging ring: construction, messages in and out, sizes, closing, clearing, wrapping and foreign memory.

mod staging_kit;

use std::ptr::NonNull;
use std::thread;

use staging_kit::{drain, ring, until, within_limit};
use transload::memory::{Lock, Policy, Slab, SlabError, Source};
use transload::staging::{BatchSize, DequeueError, EnqueueError, PinnedStagingBuffer, StagingError};

#[test]
fn a_new_ring_has_the_sizes_that_were_asked_for_and_is_empty() {
    for (capacity, message_size) in [(2, 1), (16, 8), (4096, 256), (8, 4097)] {
        let ring = PinnedStagingBuffer::new(capacity, message_size).unwrap();
        assert_eq!((ring.capacity(), ring.message_size()), (capacity, message_size));
        assert_eq!((ring.len(), ring.is_empty(), ring.is_full(), ring.is_closed()), (0, true, false, false));
        assert_eq!(ring.len_bytes(), capacity * message_size);
        assert!(!ring.as_ptr().is_null());
        assert_eq!(ring.as_ptr(), ring.slab().as_ptr());
        assert_eq!(ring.as_ptr().addr() % 65536, 0, "whole pages for devices");
        let (producer, consumer) = ring.split();
        assert_eq!(producer.as_ptr(), consumer.as_ptr());
        let quiet = producer.statistics();
        assert_eq!((quiet.claimed, quiet.delivered, quiet.cleared, quiet.skipped), (0, 0, 0, 0));
        assert_eq!((quiet.quarantined, quiet.wake_ups, quiet.stalled), (0, 0, None));
    }
}

#[test]
fn capacities_that_cannot_be_are_errors_with_the_number_and_the_way_out() {
    let cases = [
        (0, "a capacity of 0 messages cannot be: use a power of two from 2 to 2147483648"),
        (1, "a capacity of 1 messages cannot be: use a power of two from 2 to 2147483648"),
        (3, "a capacity of 3 messages cannot be: use a power of two from 2 to 2147483648 (2 or 4)"),
        (15, "a capacity of 15 messages cannot be: use a power of two from 2 to 2147483648 (8 or 16)"),
        (
            (1 << 31) + 1,
            "a capacity of 2147483649 messages cannot be: use a power of two from 2 to 2147483648",
        ),
        (
            usize::MAX,
            "a capacity of 18446744073709551615 messages cannot be: use a power of two from 2 to 2147483648",
        ),
    ];
    let slab = Slab::new(1, 64).unwrap();
    for (capacity, text) in cases {
        let given = PinnedStagingBuffer::builder(capacity, 1).slab(slab.clone()).build();
        for error in [PinnedStagingBuffer::new(capacity, 1).unwrap_err(), given.unwrap_err()] {
            assert!(matches!(error, StagingError::Capacity { wanted } if wanted == capacity), "{error:?}");
            assert_eq!(error.to_string(), text);
        }
    }
    PinnedStagingBuffer::builder(2, 32).slab(slab).build().expect("the failures left the slab alone");
}

#[test]
fn messages_of_no_bytes_are_an_error() {
    let slab = Slab::new(1, 64).unwrap();
    let given = PinnedStagingBuffer::builder(16, 0).slab(slab).build();
    for error in [PinnedStagingBuffer::new(16, 0).unwrap_err(), given.unwrap_err()] {
        assert!(matches!(error, StagingError::MessageSize), "{error:?}");
        assert_eq!(error.to_string(), "messages of 0 bytes cannot be sent: use a message size of at least 1");
    }
}

#[test]
fn products_beyond_the_address_space_are_errors() {
    for (capacity, message_size) in [(1 << 31, usize::MAX), (2, usize::MAX / 2 + 1), (1 << 20, 1 << 44)] {
        let error = PinnedStagingBuffer::new(capacity, message_size).unwrap_err();
        let StagingError::Slab(SlabError::TooLarge { buffer_count, buffer_size, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!((buffer_count, buffer_size), (capacity, message_size));

        let slab = Slab::new(16, 256).unwrap();
        let error = PinnedStagingBuffer::builder(capacity, message_size).slab(slab).build().unwrap_err();
        assert!(
            matches!(error, StagingError::SlabTooSmall { needed: usize::MAX, available: 4096, .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(&format!("{capacity} messages of {message_size} bytes")));
    }
}

#[test]
fn a_given_slab_must_hold_all_messages_and_may_hold_more() {
    let slab = Slab::new(1, 1023).unwrap();
    let error = PinnedStagingBuffer::builder(16, 64).slab(slab).build().unwrap_err();
    assert!(matches!(
        error,
        StagingError::SlabTooSmall { capacity: 16, message_size: 64, needed: 1024, available: 1023 }
    ));
    assert_eq!(
        error.to_string(),
        "16 messages of 64 bytes need a slab of 1024 bytes, and the given one has 1023"
    );
    for bytes in [1024, 5000] {
        let slab = Slab::new(1, bytes).unwrap();
        let ring = PinnedStagingBuffer::builder(16, 64).slab(slab.clone()).build().unwrap();
        assert!(ring.slab().same_memory(&slab));
        assert_eq!(ring.len_bytes(), 1024);
    }
}

#[test]
fn a_slab_serves_one_ring_at_a_time_until_the_ring_and_its_batches_are_gone() {
    let slab = Slab::new(4, 8).unwrap();
    let make = || PinnedStagingBuffer::builder(4, 8).slab(slab.clone()).build();
    let occupied =
        |error: StagingError| matches!(error, StagingError::Slab(SlabError::Occupied { len_bytes: 32 }));

    let unsplit = make().unwrap();
    assert!(occupied(make().unwrap_err()));
    drop(unsplit);

    let (producer, mut consumer) = make().unwrap().split();
    producer.try_enqueue(&[7; 8]).unwrap();
    let batch = consumer.take(1).unwrap();
    drop(consumer);
    assert!(occupied(make().unwrap_err()));
    drop(producer);
    assert!(occupied(make().unwrap_err()), "a batch is still read");
    assert_eq!(batch.as_slices().0, [7; 8]);
    drop(batch);

    let (_, mut consumer) = make().unwrap().split();
    assert!(drain(&mut consumer).is_empty(), "a new ring over old bytes is empty");
}

#[test]
fn a_forgotten_batch_keeps_its_slab_for_ever() {
    let slab = Slab::new(4, 8).unwrap();
    let (producer, mut consumer) =
        PinnedStagingBuffer::builder(4, 8).slab(slab.clone()).build().unwrap().split();
    producer.try_enqueue(&[7; 8]).unwrap();
    let _never_dropped = std::mem::ManuallyDrop::new(consumer.take(1).unwrap());
    drop((producer, consumer));
    let second = PinnedStagingBuffer::builder(4, 8).slab(slab).build();
    assert!(matches!(second, Err(StagingError::Slab(SlabError::Occupied { .. }))));
}

#[test]
fn policies_reach_the_slab_that_the_ring_makes() {
    let ring = PinnedStagingBuffer::builder(16, 64).memory(|slab| slab.lock(Policy::Never)).build().unwrap();
    assert_eq!(ring.slab().placement().lock, Lock::NotAsked);
    let error = PinnedStagingBuffer::builder(16, 64).memory(|slab| slab.numa_node(4711)).build().unwrap_err();
    assert!(matches!(error, StagingError::Slab(SlabError::UnknownNode { node: 4711, .. })), "{error:?}");
}

#[test]
fn a_message_goes_in_and_comes_out() {
    let (producer, mut consumer) = ring(16, 8);
    producer.try_enqueue(b"message!").unwrap();
    assert_eq!((consumer.len(), consumer.is_empty()), (1, false));
    let mut bytes = [0; 8];
    assert_eq!(consumer.dequeue_batch(&mut bytes, 1), Ok(1));
    assert_eq!(&bytes, b"message!");
    assert_eq!((consumer.len(), consumer.is_empty()), (0, true));
    assert_eq!(consumer.dequeue_batch(&mut bytes, 1), Ok(0));
    assert_eq!(consumer.take(1).err(), Some(DequeueError::Empty));
}

#[test]
fn messages_of_another_size_are_refused_with_both_sizes() {
    let (producer, consumer) = ring(4, 8);
    for actual in [0, 1, 7, 9, 16] {
        let wrong = EnqueueError::WrongSize { expected: 8, actual };
        assert_eq!(producer.try_enqueue(&vec![0; actual]), Err(wrong));
        if actual % 8 != 0 {
            assert_eq!(producer.try_enqueue_batch(&vec![0; actual]), Err(wrong));
        }
        assert_eq!(
            wrong.to_string(),
            format!("the ring takes messages of 8 bytes, and was given {actual} bytes")
        );
    }
    assert_eq!(producer.try_enqueue_batch(&[]), Ok(0));
    assert!(consumer.is_empty());
    assert_eq!(consumer.statistics().claimed, 0);
}

#[test]
fn every_slot_can_be_used_and_one_more_is_refused() {
    for capacity in [2, 4, 64, 256, 1024] {
        let (producer, mut consumer) = ring(capacity, 4);
        for number in 0..u32::try_from(capacity).unwrap() {
            assert!(!producer.is_full());
            producer.try_enqueue(&number.to_le_bytes()).unwrap();
        }
        assert_eq!((producer.len(), producer.is_full()), (capacity, true));
        assert_eq!(producer.try_enqueue(&[0; 4]), Err(EnqueueError::Full));
        assert_eq!(producer.try_enqueue_batch(&[0; 8]), Err(EnqueueError::Full));
        assert_eq!(producer.try_reserve().err(), Some(EnqueueError::Full));
        assert_eq!(producer.try_reserve_batch(2).err(), Some(EnqueueError::Full));
        assert_eq!(consumer.dequeue_batch(&mut [0; 4], 1), Ok(1));
        assert_eq!(producer.try_enqueue_batch(&[0; 8]), Ok(1), "one place was freed");
        let (first, second) = consumer.take(capacity).map(|batch| (batch.messages(), batch.bytes())).unwrap();
        assert_eq!((first, second), (capacity, 4 * capacity));
    }
}

#[test]
fn part_of_what_is_there_can_be_copied_out() {
    let (producer, mut consumer) = ring(8, 1);
    producer.try_enqueue_batch(b"abcde").unwrap();
    let mut bytes = *b"________";
    assert_eq!(consumer.dequeue_batch(&mut bytes, 2), Ok(2));
    assert_eq!(&bytes, b"ab______", "no byte more than that");
    assert_eq!(consumer.dequeue_batch(&mut bytes, 8), Ok(3));
    assert_eq!(&bytes, b"cde_____");
}

#[test]
fn copying_out_goes_across_the_wrap_and_across_slots_that_were_given_up() {
    for offset in 0..8 {
        let (producer, mut consumer) = ring(8, 3);
        for _ in 0..offset {
            producer.try_enqueue(&[0; 3]).unwrap();
        }
        drain(&mut consumer);
        for number in 0..8u8 {
            if number % 3 == 1 {
                drop(producer.try_reserve().unwrap());
            } else {
                producer.try_enqueue(&[number; 3]).unwrap();
            }
        }
        let mut bytes = [99; 24];
        assert_eq!(consumer.dequeue_batch(&mut bytes, 8), Ok(5), "offset {offset}");
        let expected: Vec<u8> = [0, 2, 3, 5, 6].into_iter().flat_map(|number| [number; 3]).collect();
        assert_eq!(bytes[..15], expected);
        assert_eq!(bytes[15..], [99; 9]);
        // The last slot was given up behind the last message: stepped over by the next look at the latest.
        assert_eq!(consumer.dequeue_batch(&mut bytes, 8), Ok(0));
        assert_eq!((consumer.statistics().skipped, consumer.len()), (3, 0));
    }
}

#[test]
fn a_destination_must_hold_as_many_messages_as_were_asked_for() {
    let (producer, mut consumer) = ring(4, 8);
    producer.try_enqueue(&[1; 8]).unwrap();
    let mut bytes = [0; 32];
    let too_small =
        |needed, available| Err::<usize, _>(DequeueError::DestinationTooSmall { needed, available });
    assert_eq!(consumer.dequeue_batch(&mut bytes[..23], 3), too_small(24, 23));
    assert_eq!(consumer.dequeue_batch(&mut [], 1), too_small(8, 0));
    assert_eq!(consumer.dequeue_batch(&mut bytes[..31], usize::MAX), too_small(32, 31));
    assert_eq!(consumer.dequeue_batch(&mut bytes, 0), Err(DequeueError::ZeroMax));
    assert_eq!(consumer.take(0).err(), Some(DequeueError::ZeroMax));
    assert_eq!(consumer.take_contiguous(0).err(), Some(DequeueError::ZeroMax));
    assert_eq!(
        DequeueError::DestinationTooSmall { needed: 24, available: 23 }.to_string(),
        "the destination has 23 bytes, and the messages asked for need 24"
    );
    assert_eq!(consumer.dequeue_batch(&mut bytes, usize::MAX), Ok(1), "a full ring is enough");
}

#[test]
fn a_message_of_zeros_is_a_message() {
    let (producer, mut consumer) = ring(4, 128);
    producer.try_enqueue(&[0; 128]).unwrap();
    assert_eq!(drain(&mut consumer), [[0; 128]]);
}

#[test]
fn stale_claims_of_earlier_laps_never_overwrite_what_is_unread() {
    // A full ring, lap after lap, and threads that keep trying: what is unread stays as it is.
    let (producer, mut consumer) = ring(2, 64);
    let threads: Vec<_> = (0..3u8)
        .map(|id| {
            let producer = producer.clone();
            thread::spawn(move || {
                while producer.try_enqueue(&[id; 64]) != Err(EnqueueError::Closed) {
                    thread::yield_now();
                }
            })
        })
        .collect();
    for _ in 0..300 {
        until("a full ring", || consumer.is_full());
        let batch = consumer.take(2).unwrap();
        let before: Vec<Vec<u8>> = batch.iter().map(<[u8]>::to_vec).collect();
        thread::yield_now();
        assert!(batch.iter().zip(&before).all(|(now, before)| now == before && now == [now[0]; 64]));
    }
    consumer.close();
    for thread in threads {
        within_limit(|| thread.join().unwrap());
    }
}

#[test]
fn closing_loses_nothing_from_whichever_end() {
    for from_consumer in [false, true] {
        let (producer, mut consumer) = ring(8, 1);
        let other = producer.clone();
        producer.try_enqueue_batch(b"abc").unwrap();
        let mut slot = other.try_reserve().unwrap();
        if from_consumer {
            consumer.close();
        } else {
            producer.close();
        }
        producer.close();
        assert!(producer.is_closed() && consumer.is_closed());
        assert_eq!(other.try_enqueue(b"x"), Err(EnqueueError::Closed));
        assert_eq!(other.try_enqueue_batch(b"x"), Err(EnqueueError::Closed));
        assert_eq!(other.try_reserve().err(), Some(EnqueueError::Closed));
        assert_eq!(other.try_enqueue(b"xy"), Err(EnqueueError::WrongSize { expected: 1, actual: 2 }));
        assert_eq!(consumer.take(8).unwrap().as_slices().0, b"abc");
        assert_eq!(consumer.dequeue_batch(&mut [0; 8], 8), Ok(0), "a reservation is still to come");
        slot[0] = b'd';
        slot.commit();
        assert_eq!(consumer.take(8).unwrap().as_slices().0, b"d");
        assert_eq!(consumer.take(8).err(), Some(DequeueError::Closed));
        assert_eq!(consumer.dequeue_batch(&mut [0; 8], 8), Err(DequeueError::Closed));
        assert_eq!(consumer.is_ready(), Err(DequeueError::Closed));
        assert_eq!(consumer.clear(), 0);
    }
}

#[test]
fn a_ring_closes_with_its_last_producer_or_its_consumer() {
    let (producer, mut consumer) = ring(4, 1);
    let other = producer.clone();
    producer.try_enqueue(b"a").unwrap();
    drop(producer);
    assert!(!consumer.is_closed());
    other.try_enqueue(b"b").unwrap();
    drop(other);
    assert!(consumer.is_closed());
    assert_eq!(drain(&mut consumer).concat(), b"ab");
    assert_eq!(consumer.take(1).err(), Some(DequeueError::Closed));

    let (producer, consumer) = ring(4, 1);
    producer.try_enqueue(b"a").unwrap();
    drop(consumer);
    assert_eq!(producer.try_enqueue(b"b"), Err(EnqueueError::Closed));
    drop(PinnedStagingBuffer::new(4, 1).unwrap());
}

#[test]
fn clear_throws_away_what_is_there_up_to_what_is_being_written() {
    let (producer, mut consumer) = ring(8, 1);
    assert_eq!(consumer.clear(), 0);
    producer.try_enqueue_batch(b"ab").unwrap();
    drop(producer.try_reserve().unwrap());
    producer.try_enqueue_batch(b"cd").unwrap();
    let mut slot = producer.try_reserve().unwrap();
    producer.try_enqueue(b"f").unwrap();
    assert_eq!(consumer.clear(), 4);
    assert_eq!(consumer.len(), 2);
    slot[0] = b'e';
    slot.commit();
    assert_eq!(drain(&mut consumer).concat(), b"ef");
    let statistics = consumer.statistics();
    assert_eq!((statistics.cleared, statistics.skipped, statistics.delivered), (4, 1, 2));
    assert_eq!(statistics.claimed, 7);
}

#[test]
fn clear_leaves_open_batches_alone() {
    let (producer, mut consumer) = ring(4, 1);
    producer.try_enqueue_batch(b"abcd").unwrap();
    let batch = consumer.take(2).unwrap();
    assert_eq!(consumer.clear(), 2);
    assert_eq!(producer.try_enqueue(b"x"), Err(EnqueueError::Full), "freed behind the batch only");
    assert_eq!(batch.as_slices().0, b"ab");
    drop(batch);
    assert_eq!(producer.try_enqueue_batch(b"efghi"), Ok(4));
}

#[test]
fn wrapped_foreign_memory_of_any_alignment_works_unchanged() {
    for message_size in [1, 3, 24, 56, 63, 64, 65, 4095, 4097] {
        const CAPACITY: usize = 16;
        let mut memory = vec![0xEE_u8; CAPACITY * message_size + 3];
        let base = NonNull::new(memory.as_mut_ptr()).unwrap();
        // One byte in, so that nothing is aligned, and one byte left at the end.
        // SAFETY: inside the vector.
        let start = unsafe { base.add(1) };
        // SAFETY: initialised, and `memory` is not touched until the ring is gone.
        let slab = unsafe { Slab::wrap(start, CAPACITY, message_size) }.unwrap();
        assert_eq!(slab.placement().source, Source::Wrapped);
        let (producer, mut consumer) =
            PinnedStagingBuffer::builder(CAPACITY, message_size).slab(slab).build().unwrap().split();
        assert_eq!(producer.as_ptr(), start.as_ptr());
        let message = |number: usize| {
            (0..message_size).map(move |at| u8::try_from((number + at) % 251).unwrap()).collect::<Vec<_>>()
        };
        let (mut sent, mut received) = (0, 0);
        while received < 10 * CAPACITY {
            while sent < 10 * CAPACITY && producer.try_enqueue(&message(sent)).is_ok() {
                sent += 1;
            }
            let batch = consumer.take(1 + received % 7).unwrap();
            for (step, bytes) in batch.iter().enumerate() {
                assert_eq!(bytes, message(received + step));
                let slot = (bytes.as_ptr().addr() - start.as_ptr().addr()) / message_size;
                assert_eq!(slot, (received + step) % CAPACITY, "messages lie densely");
            }
            received += batch.messages();
        }
        assert_eq!((sent, producer.len()), (10 * CAPACITY, 0));
        drop((producer, consumer));
        assert_eq!((memory[0], &memory[CAPACITY * message_size + 1..]), (0xEE, &[0xEE; 2][..]));
    }
}

#[test]
fn presets_are_8_64_and_512() {
    use BatchSize::{Balanced, HighThroughput, LowLatency};
    assert_eq!([LowLatency, Balanced, HighThroughput].map(BatchSize::messages), [8, 64, 512]);
}

#[test]
fn both_ends_and_batches_may_move_to_any_thread() {
    fn movable<T: Send + Sync + 'static>() {}
    movable::<transload::staging::Producer>();
    movable::<transload::staging::Consumer>();
    movable::<transload::staging::Batch>();
    movable::<PinnedStagingBuffer>();
}

#[test]
fn each_error_says_what_to_do_in_one_line() {
    let lines = [
        EnqueueError::Full.to_string(),
        EnqueueError::Closed.to_string(),
        DequeueError::Empty.to_string(),
        DequeueError::Closed.to_string(),
        DequeueError::TooManyBatches.to_string(),
        DequeueError::ZeroMax.to_string(),
    ];
    assert_eq!(
        lines[4],
        "64 batches are open or wait behind one that is, the most there can be: drop the oldest first"
    );
    assert_eq!(lines[5], "at most 0 messages were asked for: ask for 1 or more");
    assert!(lines.iter().all(|line| !line.is_empty() && !line.contains('\n')));
    assert!(size_of::<EnqueueError>() <= 24 && size_of::<DequeueError>() <= 24);
}
