//! The staging ring's waiting and async forms: who is woken, when time is up, and what a dropped future leaves behind.

mod staging_kit;

use std::pin::pin;
use std::sync::{Arc, Barrier, mpsc};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use staging_kit::{LIMIT, Signal, block_on, drain, ring, until, within_limit};
use transload::staging::{DequeueError, EnqueueError};

/// Long enough that the other side is most likely asleep. Nothing depends on it but what is tested.
const DOZE: Duration = Duration::from_millis(20);

#[test]
fn wait_returns_when_a_message_comes_or_is_there_already() {
    let (producer, mut consumer) = ring(4, 1);
    let (waits, started) = mpsc::channel();
    let thread = thread::spawn(move || {
        waits.send(()).unwrap();
        consumer.wait().unwrap();
        consumer.wait().unwrap();
        assert_eq!(consumer.wait_timeout(Duration::ZERO), Ok(true));
        drain(&mut consumer)
    });
    started.recv_timeout(LIMIT).unwrap();
    thread::sleep(DOZE);
    producer.try_enqueue(b"x").unwrap();
    assert_eq!(within_limit(|| thread.join().unwrap()), [b"x"]);
}

#[test]
fn wait_timeout_waits_that_long_and_says_whether_a_message_came() {
    let (producer, mut consumer) = ring(4, 1);
    for timeout in [Duration::ZERO, DOZE, Duration::from_millis(150)] {
        let before = Instant::now();
        assert_eq!(consumer.wait_timeout(timeout), Ok(false));
        assert!(before.elapsed() >= timeout);
    }
    let thread = thread::spawn(move || consumer.wait_timeout(Duration::MAX));
    thread::sleep(DOZE);
    producer.try_enqueue(b"x").unwrap();
    assert_eq!(within_limit(|| thread.join().unwrap()), Ok(true));
}

#[test]
fn enqueue_waits_for_room_and_enqueue_timeout_gives_up() {
    let (producer, mut consumer) = ring(2, 1);
    producer.try_enqueue_batch(b"ab").unwrap();
    for timeout in [Duration::ZERO, DOZE, Duration::from_millis(150)] {
        let before = Instant::now();
        assert_eq!(producer.enqueue_timeout(b"c", timeout), Err(EnqueueError::Full));
        assert!(before.elapsed() >= timeout);
        let before = Instant::now();
        assert_eq!(producer.reserve_batch_timeout(2, timeout).err(), Some(EnqueueError::Full));
        assert!(before.elapsed() >= timeout);
    }
    let waiting = {
        let producer = producer.clone();
        thread::spawn(move || {
            producer.enqueue(b"c").unwrap();
            producer.enqueue_timeout(b"d", Duration::MAX).unwrap();
            let mut slots = producer.reserve_batch_timeout(9, LIMIT).unwrap();
            let (one, two) = slots.as_mut_slices();
            one.fill(b'e');
            two.fill(b'e');
            slots.commit();
        })
    };
    let mut seen = Vec::new();
    until("five messages", || {
        thread::sleep(DOZE);
        seen.extend(drain(&mut consumer).concat());
        seen.len() >= 5
    });
    within_limit(|| waiting.join().unwrap());
    seen.extend(drain(&mut consumer).concat());
    assert_eq!(seen[..5], *b"abcde");
}

#[test]
fn a_wrong_size_and_a_closed_ring_are_told_without_waiting() {
    let (producer, mut consumer) = ring(2, 2);
    producer.try_enqueue_batch(b"abcd").unwrap();
    let wrong = EnqueueError::WrongSize { expected: 2, actual: 3 };
    assert_eq!(producer.enqueue(b"abc"), Err(wrong));
    assert_eq!(producer.enqueue_timeout(b"abc", LIMIT), Err(wrong));
    assert_eq!(block_on(producer.enqueue_async(b"abc")), Err(wrong));
    producer.close();
    assert_eq!(producer.enqueue(b"ab"), Err(EnqueueError::Closed));
    assert_eq!(producer.enqueue_timeout(b"ab", LIMIT), Err(EnqueueError::Closed));
    assert_eq!(block_on(producer.enqueue_async(b"ab")), Err(EnqueueError::Closed));
    assert_eq!(producer.reserve_batch_timeout(1, LIMIT).err(), Some(EnqueueError::Closed));
    assert_eq!(consumer.wait(), Ok(()), "what was accepted is still there");
    drain(&mut consumer);
    assert_eq!(consumer.wait(), Err(DequeueError::Closed));
    assert_eq!(consumer.wait_timeout(LIMIT), Err(DequeueError::Closed));
    assert_eq!(block_on(consumer.wait_async()), Err(DequeueError::Closed));
}

#[test]
fn waiting_with_too_many_batches_is_an_error_and_no_wait() {
    let (producer, mut consumer) = ring(128, 1);
    producer.try_enqueue_batch(&[0; 65]).unwrap();
    let batches: Vec<_> = (0..64).map(|_| consumer.take(1).unwrap()).collect();
    assert_eq!(consumer.wait(), Err(DequeueError::TooManyBatches));
    assert_eq!(consumer.wait_timeout(LIMIT), Err(DequeueError::TooManyBatches));
    assert_eq!(block_on(consumer.wait_async()), Err(DequeueError::TooManyBatches));
    drop(batches);
    assert_eq!(consumer.wait(), Ok(()));
}

#[test]
fn closing_wakes_everybody_who_waits() {
    for (way, name) in ["producer closes", "consumer gone"].into_iter().enumerate() {
        let (producer, consumer) = ring(2, 1);
        producer.try_enqueue_batch(b"ab").unwrap();
        let started = Arc::new(Barrier::new(7));
        let threads: Vec<_> = (0..6)
            .map(|kind| {
                let (producer, started) = (producer.clone(), started.clone());
                thread::spawn(move || {
                    started.wait();
                    match kind % 3 {
                        0 => producer.enqueue(b"c"),
                        1 => producer.enqueue_timeout(b"c", Duration::MAX),
                        _ => block_on(producer.enqueue_async(b"c")),
                    }
                })
            })
            .collect();
        started.wait();
        thread::sleep(DOZE);
        if way == 0 {
            producer.close();
        } else {
            drop(consumer);
        }
        for thread in threads {
            assert_eq!(within_limit(|| thread.join().unwrap()), Err(EnqueueError::Closed), "{name}");
        }
    }
}

#[test]
fn the_last_producer_to_go_wakes_the_consumer() {
    for asynchronous in [false, true] {
        let (producer, mut consumer) = ring(2, 1);
        let others = [producer.clone(), producer.clone()];
        let thread =
            thread::spawn(
                move || {
                    if asynchronous { block_on(consumer.wait_async()) } else { consumer.wait() }
                },
            );
        drop(others);
        thread::sleep(DOZE);
        assert!(!thread.is_finished(), "one producer is left");
        drop(producer);
        assert_eq!(within_limit(|| thread.join().unwrap()), Err(DequeueError::Closed));
    }
}

#[test]
fn a_consumer_asleep_for_a_reservation_is_woken_when_it_is_dropped_or_the_ring_closed_behind_it() {
    let (producer, mut consumer) = ring(4, 1);
    let slot = producer.try_reserve().unwrap();
    producer.try_enqueue(b"x").unwrap();
    let signal = Signal::new();
    let mut waiting = pin!(consumer.wait_async());
    assert!(signal.poll(waiting.as_mut()).is_pending());
    drop(slot);
    assert_eq!(signal.count(), 1);
    assert_eq!(signal.poll(waiting.as_mut()), Poll::Ready(Ok(())));

    let (producer, mut consumer) = ring(4, 1);
    let slot = producer.try_reserve().unwrap();
    let mut waiting = pin!(consumer.wait_async());
    assert!(signal.poll(waiting.as_mut()).is_pending());
    producer.close();
    assert!(signal.poll(waiting.as_mut()).is_pending(), "the reservation may still be committed");
    let seen = signal.count();
    drop(slot);
    assert_eq!(signal.count(), seen + 1);
    assert_eq!(signal.poll(waiting.as_mut()), Poll::Ready(Err(DequeueError::Closed)));
}

#[test]
fn a_dropped_wait_loses_no_message_and_a_later_wait_is_woken() {
    let (producer, mut consumer) = ring(4, 1);
    let signal = Signal::new();
    {
        let mut dropped = pin!(consumer.wait_async());
        assert!(signal.poll(dropped.as_mut()).is_pending());
        producer.try_enqueue(b"a").unwrap();
        assert_eq!(signal.count(), 1);
    }
    assert_eq!(drain(&mut consumer), [b"a"]);
    {
        let mut dropped = pin!(consumer.wait_async());
        assert!(signal.poll(dropped.as_mut()).is_pending());
    }
    producer.try_enqueue(b"b").unwrap();
    assert_eq!(signal.count(), 1, "nobody waits any more");
    assert_eq!(producer.statistics().wake_ups, 1);
    assert_eq!(drain(&mut consumer), [b"b"]);
    let mut waiting = pin!(consumer.wait_async());
    assert!(signal.poll(waiting.as_mut()).is_pending());
    producer.try_enqueue(b"c").unwrap();
    assert_eq!(signal.count(), 2);
    assert_eq!(signal.poll(waiting.as_mut()), Poll::Ready(Ok(())));
}

#[test]
fn a_forgotten_wait_does_not_swallow_the_wake_ups_of_later_ones() {
    let (producer, mut consumer) = ring(4, 1);
    let (forgotten, signal) = (Signal::new(), Signal::new());
    {
        let mut leaked = Box::pin(consumer.wait_async());
        assert!(forgotten.poll(leaked.as_mut()).is_pending());
        // As a runtime does that leaks its tasks.
        let _never_dropped = std::mem::ManuallyDrop::new(leaked);
    }
    for _ in 0..3 {
        let seen = signal.count();
        {
            let mut waiting = pin!(consumer.wait_async());
            assert!(signal.poll(waiting.as_mut()).is_pending());
            producer.try_enqueue(b"a").unwrap();
            assert_eq!(signal.count(), seen + 1, "the forgotten future was woken in its place");
            assert_eq!(signal.poll(waiting.as_mut()), Poll::Ready(Ok(())));
        }
        drain(&mut consumer);
    }
}

#[test]
fn a_cancelled_enqueue_passes_its_wake_up_on() {
    let (producer, mut consumer) = ring(2, 1);
    producer.try_enqueue_batch(b"ab").unwrap();
    let (first, second) = (Signal::new(), Signal::new());
    let mut one = Box::pin(producer.enqueue_async(b"c"));
    let mut two = Box::pin(producer.enqueue_async(b"d"));
    assert!(first.poll(one.as_mut()).is_pending() && second.poll(two.as_mut()).is_pending());
    assert_eq!(consumer.dequeue_batch(&mut [0], 1), Ok(1));
    assert_eq!((first.count(), second.count()), (1, 0), "one slot, one wake-up");
    drop(one);
    assert_eq!(second.count(), 1, "the wake-up of the cancelled one");
    assert_eq!(second.poll(two.as_mut()), Poll::Ready(Ok(())));
    assert_eq!(drain(&mut consumer), [b"b", b"d"], "the cancelled message was left out");
    assert_eq!(producer.statistics().claimed, 4 - 1);
}

#[test]
fn a_cancelled_enqueue_that_was_not_woken_leaves_no_trace() {
    let (producer, mut consumer) = ring(2, 1);
    producer.try_enqueue_batch(b"ab").unwrap();
    let signal = Signal::new();
    for _ in 0..100 {
        let mut cancelled = Box::pin(producer.enqueue_async(b"c"));
        assert!(signal.poll(cancelled.as_mut()).is_pending());
    }
    assert_eq!(drain(&mut consumer), [b"a", b"b"]);
    assert_eq!((signal.count(), producer.statistics().wake_ups), (0, 0));
}

#[test]
fn futures_may_move_to_any_thread() {
    fn movable<T: Send>(future: T) -> T {
        future
    }
    let (producer, mut consumer) = ring(2, 1);
    block_on(movable(producer.enqueue_async(b"a"))).unwrap();
    block_on(movable(consumer.wait_async())).unwrap();
}

#[test]
fn a_future_that_is_never_polled_does_nothing() {
    let (producer, mut consumer) = ring(2, 1);
    drop(producer.enqueue_async(b"a"));
    drop(consumer.wait_async());
    assert!(producer.is_empty());
}

#[test]
fn as_many_producers_as_slots_were_freed_are_woken_and_each_finds_room() {
    for freed in [1, 7, 40] {
        let (producer, mut consumer) = ring(256, 4);
        for number in 0..256u32 {
            producer.try_enqueue(&number.to_le_bytes()).unwrap();
        }
        let signals: Vec<_> = (0..40).map(|_| Signal::new()).collect();
        let mut futures: Vec<_> = (0..40).map(|_| Box::pin(producer.enqueue_async(&[9; 4]))).collect();
        for (signal, future) in signals.iter().zip(&mut futures) {
            assert!(signal.poll(future.as_mut()).is_pending());
        }
        let batch = consumer.take(freed).unwrap();
        assert!(signals.iter().all(|signal| signal.count() == 0), "taken is not free");
        drop(batch);
        assert_eq!(signals.iter().filter(|signal| signal.count() == 1).count(), freed);
        for (signal, future) in signals.iter().zip(&mut futures).filter(|(signal, _)| signal.count() == 1) {
            assert_eq!(signal.poll(future.as_mut()), Poll::Ready(Ok(())));
        }
        assert!(producer.is_full());
        // The others are woken as the rest becomes free.
        drain(&mut consumer);
        assert!(signals.iter().all(|signal| signal.count() == 1));
    }
}

#[test]
fn producers_on_threads_that_sleep_are_woken_by_freed_slots() {
    let (producer, mut consumer) = ring(256, 4);
    for number in 0..256u32 {
        producer.try_enqueue(&number.to_le_bytes()).unwrap();
    }
    let (done, finished) = mpsc::channel();
    let threads: Vec<_> = (0..24u32)
        .map(|number| {
            let (producer, done) = (producer.clone(), done.clone());
            thread::spawn(move || {
                producer.enqueue(&(1000 + number).to_le_bytes()).unwrap();
                done.send(()).unwrap();
            })
        })
        .collect();
    thread::sleep(5 * DOZE);
    assert_eq!(finished.try_iter().count(), 0, "there is no room");
    for freed in [1, 5, 18] {
        drop(consumer.take(freed).unwrap());
        for _ in 0..freed {
            finished.recv_timeout(LIMIT).unwrap();
        }
        assert!(producer.is_full());
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(drain(&mut consumer).len(), 256);
}

#[test]
fn slots_that_were_given_up_or_cleared_wake_producers_too() {
    for clear in [false, true] {
        let (producer, mut consumer) = ring(2, 1);
        let slots = producer.try_reserve_batch(2).unwrap();
        let signals = [Signal::new(), Signal::new()];
        let mut one = pin!(producer.enqueue_async(b"a"));
        let mut two = pin!(producer.enqueue_async(b"b"));
        assert!(signals[0].poll(one.as_mut()).is_pending() && signals[1].poll(two.as_mut()).is_pending());
        if clear {
            slots.commit();
            assert_eq!(consumer.clear(), 2);
        } else {
            drop(slots);
            assert_eq!(consumer.is_ready(), Ok(false));
        }
        assert_eq!(signals[0].poll(one.as_mut()), Poll::Ready(Ok(())));
        assert_eq!((signals[0].count(), signals[1].count()), (1, 1));
        assert_eq!(signals[1].poll(two.as_mut()), Poll::Ready(Ok(())));
    }
}

#[test]
fn async_ends_on_two_threads_pass_everything_on() {
    const MESSAGES: u32 = 20_000;
    let (producer, mut consumer) = ring(2, 4);
    let sends = thread::spawn(move || {
        for number in 0..MESSAGES {
            block_on(producer.enqueue_async(&number.to_le_bytes())).unwrap();
        }
    });
    let receives = thread::spawn(move || {
        let mut next = 0u32;
        while block_on(consumer.wait_async()).is_ok() {
            for message in drain(&mut consumer) {
                assert_eq!(message, next.to_le_bytes());
                next += 1;
            }
        }
        next
    });
    within_limit(|| sends.join().unwrap());
    assert_eq!(within_limit(|| receives.join().unwrap()), MESSAGES);
}

#[test]
fn only_a_message_that_somebody_sleeps_for_costs_a_wake_up() {
    let (producer, mut consumer) = ring(64, 1);
    let signal = Signal::new();
    {
        let mut waiting = pin!(consumer.wait_async());
        assert!(signal.poll(waiting.as_mut()).is_pending());
        let slot = producer.try_reserve().unwrap();
        producer.try_enqueue_batch(&[0; 32]).unwrap();
        assert_eq!(producer.statistics().wake_ups, 0, "those behind the first do not help the consumer");
        slot.commit();
        assert_eq!((producer.statistics().wake_ups, signal.count()), (1, 1));
    }
    drain(&mut consumer);
    assert_eq!(producer.statistics().wake_ups, 1);
}
