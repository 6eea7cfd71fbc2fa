//! Lanes whose other end lies, or is killed: by targeted lies, by processes that scribble, in both directions. Whoever lies
//! is cut off with an error that says so; everybody else goes on.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test may panic, and counts little"
)]

mod hostile_kit;
mod lane_kit;

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use hostile_kit::{Dice, LIMIT, Raw, within_limit};
use lane_kit::{
    ANSWER, ASLEEP, LENGTHS, OFFER, POSITION, SEALS, SIGNAL, consumer, header, id_of, kill, lane,
    lying_consumer, lying_producer, memory, process, receive, role, send,
};
use transload::shared::isolated::{
    Consumer, IsolatedTakeError, Lane, LaneEnd, LaneError, LaneSendError, Offer, SpscFault,
};

const SLOTS: usize = 4;
const SLOT_BYTES: usize = 64;

/// The next end of a lane.
fn end(consumer: &mut Consumer) -> (u64, LaneEnd) {
    match consumer.take(9).unwrap_err() {
        IsolatedTakeError::Ended { lane, end } => (lane, end),
        error => panic!("{error}"),
    }
}

#[test]
fn a_tail_that_cannot_be_ends_its_lane_only() {
    let begin = 2;
    for (tail, is_lie) in [
        (begin, false),
        (begin + SLOTS as u64, false),
        (begin + SLOTS as u64 + 1, true),
        (begin - 1, true),
        (0, true),
        (1 << 40, true),
        (u64::MAX, true),
        (u64::MAX / 2, true),
    ] {
        let ((raw, bad), (mut good, lane)) = (lying_producer(SLOTS, SLOT_BYTES), lane(SLOTS, SLOT_BYTES));
        let mut consumer = consumer([bad, lane]);
        raw.word(POSITION).store(begin);
        drop(consumer.take(begin as usize).unwrap());
        raw.word(POSITION).store(tail);
        good.try_send_copy(b"good").unwrap();
        assert!(consumer.wait_timeout(LIMIT).unwrap());
        let batch = consumer.take(9).unwrap();
        assert_eq!((batch.lane(), batch.to_vec(0).unwrap()), (1, b"good".to_vec()), "it has its turn");
        if is_lie {
            assert!(consumer.is_ready().unwrap(), "there is something to be told");
            let (lane, end) = end(&mut consumer);
            let most = begin + SLOTS as u64;
            let fault = SpscFault::Position { found: tail, least: begin, most };
            assert_eq!((lane, end), (0, LaneEnd::Fault(fault)));
            assert_eq!(consumer.lanes().count(), 1);
        } else {
            assert_eq!(consumer.is_ready().unwrap(), tail > begin);
        }
        drop(batch);
        good.try_send_copy(b"good").unwrap();
        while consumer.take(9).is_ok_and(|batch| batch.lane() == 0) {}
        assert_eq!(consumer.take(9).unwrap_err(), IsolatedTakeError::Empty);
    }
}

#[test]
fn a_tail_that_goes_back_is_a_lie_even_within_the_ring() {
    let (raw, bad) = lying_producer(SLOTS, SLOT_BYTES);
    let mut consumer = consumer([bad]);
    raw.word(POSITION).store(3);
    let batch = consumer.take(9).unwrap();
    // Not done with these: but they were published.
    raw.word(POSITION).store(2);
    assert_eq!(end(&mut consumer).1, LaneEnd::Fault(SpscFault::Position { found: 2, least: 3, most: 4 }));
    assert_eq!(batch.messages(), 3);
}

#[test]
fn a_length_that_cannot_be_ends_the_lane_after_what_came_before() {
    for found in [SLOT_BYTES as u64 + 1, u64::from(u32::MAX), 1 << 32, u64::MAX] {
        let (raw, bad) = lying_producer(SLOTS, SLOT_BYTES);
        let mut consumer = consumer([bad]);
        raw.word(LENGTHS).store(1);
        raw.word(LENGTHS + 8).store(SLOT_BYTES as u64);
        raw.word(LENGTHS + 16).store(found);
        raw.word(POSITION).store(4);
        let batch = consumer.take(9).unwrap();
        assert_eq!(batch.iter().map(|message| message.len_bytes).collect::<Vec<_>>(), [1, SLOT_BYTES]);
        // It cannot be made shorter or longer any more.
        raw.word(LENGTHS).store(u64::MAX);
        assert_eq!(batch.message(0).unwrap().len_bytes, 1);
        let fault = SpscFault::Length { position: 2, found, most: SLOT_BYTES as u32 };
        assert_eq!(end(&mut consumer), (0, LaneEnd::Fault(fault)));
        // What is there is still readable, and done without harm.
        assert_eq!(batch.to_vec(1).unwrap().len(), SLOT_BYTES);
        drop(batch);
        assert_eq!(consumer.take(9).unwrap_err(), IsolatedTakeError::Empty);
    }
}

#[test]
fn a_head_that_cannot_be_is_a_fault_for_ever() {
    for head in [3, SLOTS as u64 + 1, 1 << 40, u64::MAX, u64::MAX / 2, 0] {
        let (raw, mut producer) = lying_consumer(SLOTS, SLOT_BYTES);
        // It has seen 1, and has published 5 then.
        (0..SLOTS).for_each(|_| producer.try_send_copy(b"x").unwrap());
        raw.word(POSITION).store(1);
        producer.try_send_copy(b"x").unwrap();
        raw.word(POSITION).store(head);
        let result = producer.try_send_copy(b"x");
        if (1..=5).contains(&head) {
            // What is said to be done may be overwritten: the consumer has only itself to harm.
            result.unwrap();
            continue;
        }
        let fault = LaneSendError::Fault(SpscFault::Position { found: head, least: 1, most: 5 });
        assert_eq!(result, Err(fault));
        raw.word(POSITION).store(5);
        assert_eq!(producer.try_send_copy(b"x"), Err(fault), "there is no way back");
        assert_eq!(producer.send_timeout(b"x", LIMIT), Err(fault));
        assert_eq!(producer.try_reserve().map(drop).unwrap_err(), fault);
    }
}

#[test]
fn words_to_sleep_on_may_say_anything() {
    within_limit(|| {
        let short = Duration::from_millis(30);
        // The other's: each wake-up is for nothing, and the one that is asked for goes to nobody.
        let (raw, bad) = lying_producer(SLOTS, SLOT_BYTES);
        let mut consumer = consumer([bad]);
        let (of_consumer, mut producer) = lying_consumer(1, SLOT_BYTES);
        raw.futex(ASLEEP).as_atomic().store(7, std::sync::atomic::Ordering::Relaxed);
        of_consumer.futex(ASLEEP).as_atomic().store(u32::MAX, std::sync::atomic::Ordering::Relaxed);
        producer.try_send_copy(b"x").unwrap();
        let stop = transload_core::Flag::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut dice = Dice::new(3);
                while !stop.is_raised() {
                    for raw in [&raw, &of_consumer] {
                        let word = raw.futex(SIGNAL).as_atomic();
                        word.store(dice.roll() as u32, std::sync::atomic::Ordering::Relaxed);
                    }
                }
            });
            let waited = consumer.wait_timeout(short);
            let sent = producer.send_timeout(b"x", LIMIT);
            stop.raise();
            // A liar that has no lock is nobody: to be told, if it was looked for.
            waited.unwrap();
            assert_eq!(sent.unwrap_err(), LaneSendError::Gone);
        });
        raw.word(POSITION).store(1);
        drop(consumer.take(1).unwrap());
    });
}

/// Offers lanes of its own making, one after the other, and scribbles over each.
fn scribbling_producer(socket: &OwnedFd) {
    let mut dice = Dice::new(11);
    let finish = Instant::now() + LIMIT;
    while Instant::now() < finish {
        let words = header(1, SLOTS, SLOT_BYTES, [dice.roll(), dice.roll()]);
        let (raw, file) = memory(&words, words[9], SEALS);
        if !send(socket, OFFER, &[&file]) || receive(socket).is_none() {
            return;
        }
        scribble(&raw, &mut dice, words[9] as usize, Duration::from_millis(2));
    }
}

/// Random words everywhere, and plausible ones where it matters.
fn scribble(raw: &Raw, dice: &mut Dice, len_bytes: usize, time: Duration) {
    let finish = Instant::now() + time;
    while Instant::now() < finish {
        for _ in 0..dice.below(200) {
            let position = raw.word(POSITION);
            match dice.below(8) {
                0 => position.store(position.load().wrapping_add(dice.below(SLOTS as u64 + 2))),
                1 => position.store(position.load().wrapping_sub(dice.below(2) * dice.below(2))),
                2 if dice.below(50) == 0 => position.store(dice.roll()),
                3 => raw.word(LENGTHS + dice.below(SLOTS as u64) as usize * 8).store(dice.below(80)),
                4 => raw.word(SIGNAL).store(dice.roll()),
                5 => raw.word(ASLEEP).store(dice.roll()),
                _ => {
                    let end = if dice.below(2) == 0 { 4096 } else { len_bytes };
                    let word = raw.word(dice.below(end as u64 / 8) as usize * 8);
                    if !std::ptr::eq(word, position) {
                        word.store(dice.roll());
                    }
                }
            }
        }
        std::thread::sleep(Duration::from_micros(dice.below(50)));
    }
}

/// Sends numbers for ever.
fn honest_producer(socket: &OwnedFd) {
    let mut producer = Offer::builder(SLOTS, SLOT_BYTES).create().unwrap().hand_over(socket, LIMIT).unwrap();
    for number in 0_u64.. {
        match producer.send_timeout(&number.to_le_bytes(), LIMIT) {
            Ok(()) => {}
            Err(LaneSendError::Gone) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_producer_that_scribbles_harms_nobody() {
    if let Some((role, socket)) = role() {
        return if role == "liar" { scribbling_producer(&socket) } else { honest_producer(&socket) };
    }
    within_limit(|| {
        const TEST: &str = "a_producer_that_scribbles_harms_nobody";
        let (liar, to_liar) = process(TEST, "liar");
        let (honest, to_honest) = process(TEST, "honest");
        let mut consumer = Consumer::new();
        let good = consumer.add(Lane::accept(&to_honest, LIMIT).unwrap());
        consumer.add(Lane::accept(&to_liar, LIMIT).unwrap());
        let (mut expected, mut of_liar, mut faults) = (0_u64, 0, 0);
        let finish = Instant::now() + Duration::from_secs(2);
        while Instant::now() < finish || expected == 0 || faults == 0 {
            assert!(consumer.wait_timeout(LIMIT).unwrap());
            match consumer.take(9) {
                Ok(batch) if batch.lane() == good => {
                    for nth in 0..batch.messages() {
                        assert_eq!(batch.to_vec(nth).unwrap(), expected.to_le_bytes());
                        expected += 1;
                    }
                }
                Ok(batch) => {
                    for (nth, message) in batch.iter().enumerate() {
                        assert!(message.len_bytes <= SLOT_BYTES && message.slot < SLOTS);
                        assert_eq!(batch.to_vec(nth).unwrap().len(), message.len_bytes);
                        of_liar += 1;
                    }
                }
                Err(IsolatedTakeError::Ended { lane, end: _ }) => {
                    assert_ne!(lane, good);
                    faults += 1;
                    consumer.add(Lane::accept(&to_liar, LIMIT).unwrap());
                }
                Err(IsolatedTakeError::Empty) => {}
                Err(error) => panic!("{error}"),
            }
        }
        println!("{expected} honest messages, {of_liar} of the liar, {faults} lanes cut off");
        kill(liar);
        kill(honest);
    });
}

/// Answers each offer with a memory of its own making, and scribbles over it.
fn scribbling_consumer(socket: &OwnedFd) {
    let mut dice = Dice::new(12);
    loop {
        // What the producer offers is taken as any consumer takes it, for its id.
        let Some(offered) = receive(socket) else { return };
        let words = header(2, SLOTS, SLOT_BYTES, id_of(&offered));
        let (raw, file) = memory(&words, words[9], SEALS);
        send(socket, ANSWER, &[&file]);
        scribble(&raw, &mut dice, words[9] as usize, Duration::from_millis(2));
    }
}

#[test]
fn a_consumer_that_scribbles_harms_nobody() {
    if let Some((_, socket)) = role() {
        return scribbling_consumer(&socket);
    }
    within_limit(|| {
        let (liar, socket) = process("a_consumer_that_scribbles_harms_nobody", "liar");
        // A lane to somebody else, which goes on all the while.
        let (mut other, lane) = lane(SLOTS, SLOT_BYTES);
        let mut consumer = consumer([lane]);
        let (mut sent, mut faults, mut gone, mut refused) = (0_u64, 0, 0, 0);
        let finish = Instant::now() + Duration::from_secs(2);
        while Instant::now() < finish || faults == 0 {
            let offer = Offer::builder(SLOTS, SLOT_BYTES).create().unwrap();
            let mut producer = match offer.hand_over(&socket, LIMIT) {
                Ok(producer) => producer,
                // It was faster with its scribbling than the header was read.
                Err(
                    LaneError::Header { .. } | LaneError::OutOfRange { .. } | LaneError::OtherLane { .. },
                ) => {
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            loop {
                match producer.send_timeout(&sent.to_le_bytes(), Duration::from_millis(40)) {
                    Ok(()) => sent += 1,
                    Err(LaneSendError::Full) => {}
                    Err(LaneSendError::Fault(_)) => break faults += 1,
                    // It has no lock: for who is kept waiting by it, it is dead.
                    Err(LaneSendError::Gone) => break gone += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            other.try_send_copy(b"other").unwrap();
            assert_eq!(consumer.take(1).unwrap().to_vec(0).unwrap(), b"other");
        }
        println!("{sent} messages, {faults} faults, {gone} times nobody, {refused} refused");
        kill(liar);
    });
}

#[test]
fn what_a_killed_producer_had_published_arrives() {
    if let Some((_, socket)) = role() {
        let mut producer = Offer::builder(1 << 14, 8).create().unwrap().hand_over(&socket, LIMIT).unwrap();
        for number in 0_u64.. {
            match producer.send_timeout(&number.to_le_bytes(), LIMIT) {
                Ok(()) => {}
                Err(_) => return,
            }
            // Acknowledged now and then: these must arrive.
            if number.is_multiple_of(500) {
                let _ = rustix::net::send(&socket, &number.to_le_bytes(), rustix::net::SendFlags::NOSIGNAL);
            }
        }
    }
    within_limit(|| {
        for round in 0..5_u64 {
            let (child, socket) = process("what_a_killed_producer_had_published_arrives", "producer");
            let mut consumer = consumer([Lane::accept(&socket, LIMIT).unwrap()]);
            std::thread::sleep(Duration::from_millis(round));
            let mut acknowledged = None;
            let mut bytes = [0; 8];
            let finish = Instant::now() + LIMIT;
            while acknowledged < Some(500 * round) && Instant::now() < finish {
                if rustix::net::recv(&socket, &mut bytes, rustix::net::RecvFlags::empty()).is_ok() {
                    acknowledged = Some(u64::from_le_bytes(bytes));
                }
            }
            kill(child);
            while rustix::net::recv(&socket, &mut bytes, rustix::net::RecvFlags::empty())
                .is_ok_and(|(bytes, _)| bytes > 0)
            {
                acknowledged = Some(u64::from_le_bytes(bytes));
            }
            let mut next = 0_u64;
            let last = loop {
                assert!(consumer.wait_timeout(LIMIT).unwrap());
                match consumer.take(100) {
                    Ok(batch) => {
                        for nth in 0..batch.messages() {
                            assert_eq!(batch.to_vec(nth).unwrap(), next.to_le_bytes());
                            next += 1;
                        }
                    }
                    Err(error) => break error,
                }
            };
            assert_eq!(last, IsolatedTakeError::Ended { lane: 0, end: LaneEnd::Gone });
            assert!(Some(next) > acknowledged, "{next} arrived, {acknowledged:?} was acknowledged");
        }
    });
}

#[test]
fn a_killed_consumer_is_noticed_by_all_its_producers() {
    if let Some((_, socket)) = role() {
        let mut consumer = Consumer::new();
        (0..3).for_each(|_| {
            consumer.add(Lane::accept(&socket, LIMIT).unwrap());
        });
        let finish = Instant::now() + LIMIT;
        while Instant::now() < finish {
            if consumer.wait_timeout(LIMIT).unwrap() {
                let _ = consumer.take(1);
            }
        }
        return;
    }
    within_limit(|| {
        let (child, socket) = process("a_killed_consumer_is_noticed_by_all_its_producers", "consumer");
        let mut producers: Vec<_> = (0..3)
            .map(|_| Offer::builder(2, 8).create().unwrap().hand_over(&socket, LIMIT).unwrap())
            .collect();
        for producer in &mut producers {
            (0..1000).for_each(|_| producer.send_timeout(b"x", LIMIT).unwrap());
            assert!(producer.is_connected());
        }
        kill(child);
        for producer in &mut producers {
            assert!(!producer.is_connected());
            let error = (0..3).find_map(|_| producer.send_timeout(b"x", LIMIT).err());
            assert_eq!(error, Some(LaneSendError::Gone));
        }
    });
}
