//! The staging ring under threads: each byte of each message is checked, and nothing is missing at the end.
//!
//! The checker itself is tried on the ring of another project, rewritten from its description: it moves the shared
//! index before the message is there.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::similar_names,
    reason = "a test may panic; bytes of a pattern; ping and pong"
)]

mod staging_kit;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use staging_kit::{block_on, ring, stress_end, within_limit};
use transload::staging::{Batch, Consumer, DequeueError, EnqueueError, Producer};
use transload_core::Flag;

/// Header: who sent it and its number. Then one repeated byte that follows from both, then a checksum of the header.
fn fill(message: &mut [u8], producer: u8, number: u64) {
    let header = (number << 8) | u64::from(producer);
    let end = message.len() - 8;
    message[..8].copy_from_slice(&header.to_le_bytes());
    message[8..end].fill(repeated(header));
    message[end..].copy_from_slice(&checksum(header).to_le_bytes());
}

fn repeated(header: u64) -> u8 {
    (checksum(header) >> 32) as u8
}

fn checksum(header: u64) -> u64 {
    (header ^ 0x5555).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
}

/// The sender and number of a message, or nothing if any of its bytes belongs to another.
fn parse(message: &[u8]) -> Option<(usize, u64)> {
    let (header, rest) = message.split_first_chunk::<8>()?;
    let (body, sum) = rest.split_last_chunk::<8>()?;
    let header = u64::from_le_bytes(*header);
    let byte = repeated(header);
    let whole = u64::from_le_bytes(*sum) == checksum(header) && body.iter().all(|other| *other == byte);
    whole.then_some((usize::from(header as u8), header >> 8))
}

/// Checks messages as they come out.
#[derive(Debug)]
struct Checker {
    /// The number that each producer's next message has.
    next: Vec<u64>,
    whole: u64,
    torn: u64,
    /// Older than one that came before from the same producer: delivered twice, or out of order.
    stale: u64,
    /// Numbers that were passed over.
    missing: u64,
}

impl Checker {
    fn new(producers: usize) -> Self {
        Self { next: vec![0; producers], whole: 0, torn: 0, stale: 0, missing: 0 }
    }

    fn see(&mut self, message: &[u8]) {
        let Some((producer, number)) = parse(message).filter(|(producer, _)| *producer < self.next.len())
        else {
            self.torn += 1;
            return;
        };
        let next = &mut self.next[producer];
        if number < *next {
            self.stale += 1;
        } else {
            self.whole += 1;
            self.missing += number - *next;
            *next = number + 1;
        }
    }

    fn faults(&self) -> u64 {
        self.torn + self.stale + self.missing
    }
}

/// Sends numbered messages from several threads and checks what comes out, until everything has come or `enough`. Says
/// how many were sent.
fn stress(
    producers: u8,
    each: u64,
    message_size: usize,
    send: impl Fn(&[u8]) -> bool + Sync,
    mut receive: impl FnMut(&mut dyn FnMut(&[u8])) -> usize,
    enough: impl Fn(&Checker) -> bool,
) -> (u64, Checker) {
    let (end, stop) = (stress_end(), Flag::new());
    let mut checker = Checker::new(usize::from(producers));
    let sent = thread::scope(|scope| {
        let (send, stop) = (&send, &stop);
        let threads: Vec<_> = (0..producers)
            .map(|producer| {
                scope.spawn(move || {
                    let mut message = vec![0; message_size];
                    for number in 0..each {
                        fill(&mut message, producer, number);
                        while !send(&message) {
                            if stop.is_raised() {
                                return number;
                            }
                            thread::yield_now();
                        }
                    }
                    each
                })
            })
            .collect();
        while !enough(&checker) {
            let all_ended = threads.iter().all(thread::ScopedJoinHandle::is_finished);
            if receive(&mut |message| checker.see(message)) == 0 {
                if all_ended {
                    break;
                }
                thread::yield_now();
            }
            if Instant::now() > end {
                stop.raise();
            }
        }
        stop.raise();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    (sent, checker)
}

fn stress_the_ring(producers: u8, each: u64, capacity: usize, message_size: usize) {
    let (producer, mut consumer) = ring(capacity, message_size);
    let mut bytes = vec![0; capacity * message_size];
    let mut copies = false;
    let (sent, checker) = stress(
        producers,
        each,
        message_size,
        |message| producer.try_enqueue(message).is_ok(),
        |see| {
            copies = !copies;
            if copies {
                let count = consumer.dequeue_batch(&mut bytes, capacity).unwrap();
                bytes.chunks_exact(message_size).take(count).for_each(see);
                count
            } else {
                let Ok(batch) = consumer.take(capacity) else { return 0 };
                batch.iter().for_each(see);
                batch.messages()
            }
        },
        |_| false,
    );
    assert_eq!((checker.whole, checker.faults()), (sent, 0), "{checker:?}");
    let statistics = producer.statistics();
    assert_eq!((statistics.claimed, statistics.delivered), (checker.whole, checker.whole));
    assert_eq!((statistics.wake_ups, consumer.len()), (0, 0));
}

#[test]
fn eight_producers_of_4_kib_through_two_slots() {
    stress_the_ring(8, 10_000, 2, 4096);
}

#[test]
fn one_producer_of_256_bytes() {
    stress_the_ring(1, 2_000_000, 256, 256);
}

#[test]
fn two_producers_of_256_bytes() {
    stress_the_ring(2, 1_500_000, 256, 256);
}

#[test]
fn four_producers_of_256_bytes() {
    stress_the_ring(4, 600_000, 256, 256);
}

#[test]
fn three_producers_of_odd_messages_through_four_slots() {
    stress_the_ring(3, 150_000, 4, 17);
}

/// A ring whose producers move the shared index before they copy, and whose consumer trusts the index.
mod early_claim {
    #![allow(clippy::disallowed_types, reason = "a broken twin of what transload-core does")]
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

    /// Of words rather than bytes, and atomic ones, so that its races are no undefined behaviour.
    pub(crate) struct Ring {
        words: Vec<AtomicU64>,
        message_words: usize,
        mask: usize,
        /// Wrapped, as there: after a lap a stale swap succeeds.
        tail: AtomicUsize,
        head: AtomicUsize,
    }

    impl Ring {
        pub(crate) fn new(capacity: usize, message_size: usize) -> Self {
            let message_words = message_size / 8;
            Self {
                words: (0..capacity * message_words).map(|_| AtomicU64::new(0)).collect(),
                message_words,
                mask: capacity - 1,
                tail: AtomicUsize::new(0),
                head: AtomicUsize::new(0),
            }
        }

        fn slot(&self, index: usize) -> &[AtomicU64] {
            &self.words[index * self.message_words..][..self.message_words]
        }

        pub(crate) fn try_enqueue(&self, message: &[u8]) -> bool {
            loop {
                let tail = self.tail.load(Acquire);
                let next = (tail + 1) & self.mask;
                if next == self.head.load(Acquire) {
                    return false;
                }
                if self.tail.compare_exchange(tail, next, AcqRel, Relaxed).is_ok() {
                    // A scheduler takes the processor away here now and then: on a machine with few of them that
                    // has to be often enough for a test.
                    if tail.is_multiple_of(4) {
                        std::thread::yield_now();
                    }
                    for (word, bytes) in self.slot(tail).iter().zip(message.as_chunks().0) {
                        word.store(u64::from_le_bytes(*bytes), Relaxed);
                    }
                    return true;
                }
            }
        }

        pub(crate) fn dequeue_batch(&self, see: &mut dyn FnMut(&[u8])) -> usize {
            let (mut head, tail) = (self.head.load(Acquire), self.tail.load(Acquire));
            let mut count = 0;
            while head != tail {
                let words = self.slot(head).iter().map(|word| word.load(Relaxed).to_le_bytes());
                see(&words.collect::<Vec<_>>().concat());
                head = (head + 1) & self.mask;
                count += 1;
            }
            self.head.store(head, Release);
            count
        }
    }
}

#[test]
fn a_ring_that_claims_early_is_caught() {
    for (producers, capacity) in [(1, 256), (2, 256), (4, 4)] {
        let twin = early_claim::Ring::new(capacity, 256);
        let (_, checker) = stress(
            producers,
            2_000_000,
            256,
            |message| twin.try_enqueue(message),
            |see| twin.dequeue_batch(see),
            |checker| checker.faults() > 0,
        );
        assert!(checker.faults() > 0, "{producers} producers: {checker:?}");
    }
}

/// A small generator: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("below a usize")
    }
}

/// What a producer of the mixed stress did.
#[derive(Default)]
struct Done {
    accepted: u64,
    given_up: u64,
}

const MIXED_SIZE: usize = 40;

/// Sends by every way there is, and gives some reservations up.
fn send_mixed(producer: &Producer, id: u8, messages: u64) -> Done {
    let mut random = Random(0x1234_5678 + u64::from(id));
    let mut done = Done::default();
    let end = stress_end();
    while done.accepted < messages && Instant::now() < end {
        let number = done.accepted;
        let count = 1 + random.below(7);
        let mut bytes = vec![0; count * MIXED_SIZE];
        for (step, message) in bytes.chunks_exact_mut(MIXED_SIZE).enumerate() {
            fill(message, id, number + step as u64);
        }
        let one = &bytes[..MIXED_SIZE];
        match random.below(8) {
            0 => done.accepted += u64::from(producer.try_enqueue(one).is_ok()),
            1 | 2 => done.accepted += producer.try_enqueue_batch(&bytes).unwrap_or(0) as u64,
            3 => {
                if let Ok(mut slot) = producer.try_reserve() {
                    slot.copy_from_slice(one);
                    slot.commit();
                    done.accepted += 1;
                }
            }
            4 => {
                if let Ok(mut slot) = producer.try_reserve() {
                    slot[..9].fill(0xDD);
                    done.given_up += 1;
                }
            }
            5 => {
                if let Ok(mut slots) = producer.try_reserve_batch(count) {
                    let reserved = slots.len();
                    let (first, second) = slots.as_mut_slices();
                    let (before, after) = bytes[..reserved * MIXED_SIZE].split_at(first.len());
                    first.copy_from_slice(before);
                    second.copy_from_slice(after);
                    let kept = random.below(reserved + 1);
                    slots.commit_prefix(kept / 2);
                    slots.commit_prefix(kept - kept / 2);
                    done.accepted += kept as u64;
                    done.given_up += (reserved - kept) as u64;
                }
            }
            6 => {
                let limit = Duration::from_micros(random.below(300) as u64);
                done.accepted += u64::from(producer.enqueue_timeout(one, limit).is_ok());
            }
            _ => {
                producer.enqueue(one).unwrap();
                done.accepted += 1;
            }
        }
    }
    done
}

/// Takes by every way there is, and hands half of the batches to other threads.
fn receive_mixed(
    mut consumer: Consumer,
    lend: &mpsc::SyncSender<Batch>,
    producers: usize,
) -> (Checker, Consumer) {
    let mut random = Random(99);
    let mut checker = Checker::new(producers);
    let mut bytes = vec![0; 64 * MIXED_SIZE];
    let mut kept = Vec::new();
    loop {
        let max = 1 + random.below(64);
        let outcome = match random.below(400) {
            0 => {
                consumer.clear();
                Ok(())
            }
            1..150 => consumer.dequeue_batch(&mut bytes, max).map(|count| {
                bytes.chunks_exact(MIXED_SIZE).take(count).for_each(|message| checker.see(message));
            }),
            way => consumer.take(max).map(|batch| {
                batch.iter().for_each(|message| checker.see(message));
                match way % 3 {
                    0 => lend.send(batch).unwrap(),
                    1 if kept.len() < 4 => kept.push(batch),
                    _ => drop(batch),
                }
            }),
        };
        match outcome {
            Ok(()) => {}
            Err(DequeueError::Closed) => return (checker, consumer),
            // Kept batches may be all that keeps the producers waiting.
            Err(DequeueError::Empty | DequeueError::TooManyBatches) => {
                kept.clear();
                let _ = consumer.wait_timeout(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
        if kept.len() == 4 {
            drop(kept.swap_remove(random.below(4)));
        }
    }
}

#[test]
fn mixed_producers_and_a_consumer_that_lends_to_other_threads() {
    const PRODUCERS: u8 = 4;
    const EACH: u64 = 60_000;
    for capacity in [2, 16, 64] {
        let (producer, consumer) = ring(capacity, MIXED_SIZE);
        let (lend, lent) = mpsc::sync_channel::<Batch>(8);
        let lender = thread::spawn(move || {
            let mut torn = 0;
            for batch in lent {
                // Seen whole by the consumer already: has anybody written there since?
                torn += batch.iter().filter(|message| parse(message).is_none()).count();
            }
            torn
        });
        let threads: Vec<_> = (0..PRODUCERS)
            .map(|id| {
                let producer = producer.clone();
                thread::spawn(move || send_mixed(&producer, id, EACH))
            })
            .collect();
        drop(producer);
        let (checker, consumer) =
            within_limit(move || receive_mixed(consumer, &lend, usize::from(PRODUCERS)));
        assert_eq!(within_limit(|| lender.join().unwrap()), 0);
        let mut done = Done::default();
        for thread in threads {
            let one = within_limit(|| thread.join().unwrap());
            done.accepted += one.accepted;
            done.given_up += one.given_up;
        }
        let statistics = consumer.statistics();
        assert_eq!((checker.torn, checker.stale), (0, 0), "{checker:?}");
        assert_eq!(checker.whole, statistics.delivered);
        assert_eq!(done.accepted, statistics.delivered + statistics.cleared, "{statistics:?}");
        assert_eq!(statistics.skipped, done.given_up);
        assert_eq!(statistics.claimed, done.accepted + done.given_up);
        // What was cleared is all that is missing, but for what came after a producer's last.
        assert!(checker.missing <= statistics.cleared, "{checker:?} {statistics:?}");
        assert_eq!(consumer.len(), 0);
    }
}

/// Three producers and a consumer that all sleep. Where all of them are futures, one lost wake-up is a failure.
fn everybody_waits(capacity: usize, futures: bool) {
    const EACH: u64 = 20_000;
    let (producer, mut consumer) = ring(capacity, 24);
    let threads: Vec<_> = (0..3u8)
        .map(|id| {
            let producer = producer.clone();
            thread::spawn(move || {
                let (mut message, end) = ([0; 24], stress_end());
                for number in 0..EACH {
                    if Instant::now() > end {
                        return number;
                    }
                    fill(&mut message, id, number);
                    if futures || id == 0 {
                        block_on(producer.enqueue_async(&message)).unwrap();
                    } else {
                        producer.enqueue(&message).unwrap();
                    }
                }
                EACH
            })
        })
        .collect();
    drop(producer);
    let checker = within_limit(move || {
        let mut checker = Checker::new(3);
        while if futures { block_on(consumer.wait_async()) } else { consumer.wait() }.is_ok() {
            consumer.take(3).unwrap().iter().for_each(|message| checker.see(message));
        }
        checker
    });
    let sent = threads.into_iter().map(|thread| within_limit(|| thread.join().unwrap())).sum();
    assert_eq!((checker.whole, checker.faults()), (sent, 0), "{checker:?}");
}

#[test]
fn threads_that_wait_for_room_all_arrive_in_order() {
    everybody_waits(2, false);
    everybody_waits(8, false);
}

#[test]
fn futures_that_wait_for_room_all_arrive_in_order() {
    everybody_waits(2, true);
    everybody_waits(8, true);
}

/// One side of a ping-pong: waits for a message, answers. Gives the gaps that are as long as a bounded sleep.
fn ping_pong(
    rounds: u32,
    first: bool,
    producer: &Producer,
    consumer: &mut Consumer,
    wait: impl Fn(&mut Consumer) -> Result<(), DequeueError>,
) -> Vec<Duration> {
    let mut gaps = Vec::new();
    if first {
        producer.try_enqueue(&0u32.to_le_bytes()).unwrap();
    }
    let mut bytes = [0; 4];
    let (mut before, end) = (Instant::now(), stress_end());
    for round in 0..rounds {
        if first && before > end {
            return gaps; // This closes the ring to the other side, which ends as well.
        }
        if wait(consumer).is_err() {
            return gaps;
        }
        let gap = before.elapsed();
        before = Instant::now();
        if gap >= Duration::from_millis(90) {
            gaps.push(gap);
        }
        assert_eq!(consumer.dequeue_batch(&mut bytes, 1), Ok(1));
        assert_eq!(u32::from_le_bytes(bytes), round);
        let answer = if first { round + 1 } else { round };
        match producer.try_enqueue(&answer.to_le_bytes()) {
            Ok(()) | Err(EnqueueError::Closed) => {}
            Err(error) => panic!("{error}"),
        }
    }
    gaps
}

fn both_sides(
    rounds: u32,
    wait: impl Fn(&mut Consumer) -> Result<(), DequeueError> + Send + Sync + Copy + 'static,
) -> (usize, u64) {
    let (to_pong, mut at_pong) = ring(2, 4);
    let (to_ping, mut at_ping) = ring(2, 4);
    let pong = thread::spawn(move || {
        let gaps = ping_pong(rounds, false, &to_ping, &mut at_pong, wait).len();
        (gaps, to_ping.statistics().wake_ups)
    });
    let ping = thread::spawn(move || {
        let gaps = ping_pong(rounds, true, &to_pong, &mut at_ping, wait).len();
        (gaps, to_pong.statistics().wake_ups)
    });
    let (one, two) = (within_limit(|| ping.join().unwrap()), within_limit(|| pong.join().unwrap()));
    (one.0 + two.0, one.1 + two.1)
}

/// The futures have no bounded sleep: one lost wake-up in all these rounds and the test hangs, then fails.
#[test]
fn no_wake_up_of_a_future_is_lost_in_a_ping_pong() {
    let (_, wake_ups) = both_sides(200_000, |consumer| block_on(consumer.wait_async()));
    assert!(wake_ups > 1000, "{wake_ups} wake-ups: nobody slept, so nothing was tested");
}

/// A thread's sleep ends after 100 ms in any case, so that a lost wake-up is a gap of that length and no hang. A busy
/// machine makes such gaps as well, hence one in ten thousand is no failure here; the test above is exact.
#[test]
fn no_wake_up_of_a_thread_is_lost_in_a_ping_pong() {
    let (gaps, wake_ups) = both_sides(200_000, Consumer::wait);
    println!("{gaps} gaps of 90 ms or more, {wake_ups} wake-ups");
    assert!(gaps < 40, "{gaps} gaps of 90 ms or more");
}
