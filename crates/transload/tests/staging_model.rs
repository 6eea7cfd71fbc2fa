//! The staging ring against a model that cannot be wrong: random calls, compared after each.
//!
//! The model keeps a list of what was claimed, from the oldest slot that is not yet free to the newest. What the ring
//! should answer to any call follows from it by counting. Two broken rings show that the comparison finds faults.

#![allow(clippy::cast_possible_truncation, reason = "bytes of a pattern")]

mod staging_kit;

use std::collections::VecDeque;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use staging_kit::ring;
use transload::staging::{Batch, BatchReservation, Consumer, DequeueError, EnqueueError, Producer};

const SIZES: [usize; 9] = [1, 3, 24, 56, 63, 64, 65, 4095, 4097];
const CAPACITIES: [usize; 4] = [2, 4, 8, 16];
const MOST_RESERVATIONS: usize = 3;
const MOST_BATCHES: usize = 5;

#[derive(Clone, Debug)]
enum Step {
    Enqueue,
    EnqueueBatch(usize),
    Reserve(usize),
    /// Of the reservation with this index, so many slots.
    Commit(usize, usize),
    GiveUp(usize),
    Dequeue(usize),
    Take(usize),
    TakeContiguous(usize),
    DropBatch(usize),
    Clear,
    Close,
    /// Quarantines a reservation.
    LoseReservation(usize),
    /// Quarantines a batch.
    LoseBatch(usize),
}

fn steps(losses: bool) -> impl Strategy<Value = Vec<Step>> {
    let lost = prop::bool::weighted(if losses { 0.2 } else { 0.0 });
    let step = prop_oneof![
        6 => Just(Step::Enqueue),
        4 => (0..20usize).prop_map(Step::EnqueueBatch),
        4 => (0..6usize).prop_map(Step::Reserve),
        4 => (0..MOST_RESERVATIONS, 0..7usize).prop_map(|(which, count)| Step::Commit(which, count)),
        2 => (0..MOST_RESERVATIONS, lost).prop_map(|(which, lost)| {
            if lost { Step::LoseReservation(which) } else { Step::GiveUp(which) }
        }),
        4 => (1..20usize).prop_map(Step::Dequeue),
        5 => (1..20usize).prop_map(Step::Take),
        2 => (1..20usize).prop_map(Step::TakeContiguous),
        7 => (0..MOST_BATCHES, lost).prop_map(|(which, lost)| {
            if lost { Step::LoseBatch(which) } else { Step::DropBatch(which) }
        }),
        1 => Just(Step::Clear),
    ];
    (prop::collection::vec(step, 1..80), prop::bool::weighted(0.3), 0..80usize).prop_map(
        |(mut steps, closes, at)| {
            if closes {
                steps.insert(at.min(steps.len()), Step::Close);
            }
            steps
        },
    )
}

/// What a claimed position has come to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slot {
    Reserved,
    Written(u64),
    Skipped,
    /// The consumer is past it; free once everything before it is free.
    Done,
    /// In a batch that is held.
    Lent,
    /// Its slot is lost for ever, and nothing was or will be written for it.
    Lost,
}

/// The model: positions `first..first + slots.len()` are claimed and not yet free.
#[derive(Debug)]
struct Model {
    capacity: usize,
    /// Which slots are lost for ever.
    lost: Vec<bool>,
    first: u64,
    taken: u64,
    slots: VecDeque<Slot>,
    closed: bool,
    next_number: u64,
    delivered: u64,
    cleared: u64,
    skipped: u64,
}

impl Model {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            lost: vec![false; capacity],
            first: 0,
            taken: 0,
            slots: VecDeque::new(),
            closed: false,
            next_number: 0,
            delivered: 0,
            cleared: 0,
            skipped: 0,
        }
    }

    fn at(&mut self, position: u64) -> &mut Slot {
        let index = usize::try_from(position - self.first).expect("not yet free");
        &mut self.slots[index]
    }

    fn tail(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    fn is_lost(&self, position: u64) -> bool {
        self.lost[usize::try_from(position).expect("small") % self.capacity]
    }

    fn lose(&mut self, position: u64) {
        let slot = usize::try_from(position).expect("small") % self.capacity;
        assert!(!std::mem::replace(&mut self.lost[slot], true), "a lost slot was handed out");
    }

    fn lost(&self) -> usize {
        self.lost.iter().filter(|lost| **lost).count()
    }

    fn len(&self) -> usize {
        (self.taken..self.tail()).filter(|position| !self.is_lost(*position)).count()
    }

    fn is_full(&self) -> bool {
        (self.tail()..self.first + self.capacity as u64).all(|position| self.is_lost(position))
    }

    fn claim(
        &mut self,
        most: usize,
        slot: impl Fn(u64) -> Slot,
    ) -> Result<std::ops::Range<u64>, EnqueueError> {
        if self.closed {
            return Err(EnqueueError::Closed);
        }
        // Claims step over lost slots, also in vain; a ring that has no other stays as it is.
        while self.slots.len() < self.capacity && self.is_lost(self.tail()) && self.lost() < self.capacity {
            self.slots.push_back(Slot::Lost);
        }
        let from = self.tail();
        let until = (from..self.first + self.capacity as u64)
            .take(most.max(1))
            .take_while(|position| !self.is_lost(*position))
            .last();
        let Some(last) = until else { return Err(EnqueueError::Full) };
        self.slots.extend((0..=last - from).map(slot));
        Ok(from..self.tail())
    }

    fn free(&mut self) {
        while self.slots.front() == Some(&Slot::Done) {
            self.slots.pop_front();
            self.first += 1;
        }
    }

    fn pass_skipped(&mut self) {
        while self.taken < self.tail() {
            let taken = self.taken;
            match *self.at(taken) {
                Slot::Skipped => self.skipped += 1,
                Slot::Lost => {}
                _ => break,
            }
            *self.at(taken) = Slot::Done;
            self.taken += 1;
        }
        self.free();
    }

    /// At most so many written numbers that follow each other.
    fn run(&mut self, most: usize, into: Slot) -> Vec<u64> {
        let mut numbers = Vec::new();
        while numbers.len() < most && self.taken < self.tail() {
            let taken = self.taken;
            let Slot::Written(number) = *self.at(taken) else { break };
            *self.at(taken) = into;
            numbers.push(number);
            self.taken += 1;
        }
        self.free();
        numbers
    }

    fn nothing(&self) -> DequeueError {
        if self.closed && self.taken == self.tail() { DequeueError::Closed } else { DequeueError::Empty }
    }
}

/// The bytes of message `number`.
fn message(number: u64, size: usize) -> Vec<u8> {
    let seed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..size).map(|at| (seed >> (at % 8 * 8)) as u8 ^ (at as u8)).collect()
}

/// The calls that a broken twin gets wrong.
trait Dequeue {
    fn dequeue(
        &mut self,
        consumer: &mut Consumer,
        bytes: &mut [u8],
        max: usize,
    ) -> Result<usize, DequeueError> {
        consumer.dequeue_batch(bytes, max)
    }

    fn give_up(&mut self, slots: BatchReservation<'_>) {
        drop(slots);
    }
}

struct Right;

impl Dequeue for Right {}

/// Loses the last message of each seventh copy.
struct LosesOne(u32);

impl Dequeue for LosesOne {
    fn dequeue(
        &mut self,
        consumer: &mut Consumer,
        bytes: &mut [u8],
        max: usize,
    ) -> Result<usize, DequeueError> {
        self.0 += 1;
        let count = consumer.dequeue_batch(bytes, max)?;
        Ok(if self.0.is_multiple_of(7) { count.saturating_sub(1) } else { count })
    }
}

/// Delivers what was reserved and never committed.
struct DeliversTheGivenUp;

impl Dequeue for DeliversTheGivenUp {
    fn give_up(&mut self, slots: BatchReservation<'_>) {
        slots.commit();
    }
}

macro_rules! same {
    ($left:expr, $right:expr, $what:expr) => {
        let (left, right) = ($left, $right);
        if left != right {
            return Err(TestCaseError::fail(format!("{}: {left:?}, should be {right:?}", $what)));
        }
    };
}

#[expect(clippy::too_many_lines, reason = "one arm a step")]
fn check(
    capacity: usize,
    size: usize,
    offset: usize,
    steps: &[Step],
    mut twin: impl Dequeue,
) -> Result<(), TestCaseError> {
    let (producer, mut consumer) = ring(capacity, size);
    let mut model = Model::new(capacity);
    for _ in 0..offset {
        producer.try_enqueue(&vec![0; size]).expect("empty");
        assert_eq!(consumer.clear(), 1);
    }
    (model.first, model.taken, model.cleared) = (offset as u64, offset as u64, offset as u64);
    let mut reservations: Vec<(BatchReservation<'_>, std::ops::Range<u64>)> = Vec::new();
    let mut batches: Vec<(Batch, Vec<u64>, u64)> = Vec::new();
    for step in steps {
        match *step {
            Step::Enqueue => {
                let number = model.next_number;
                let claimed = model.claim(1, |_| Slot::Written(number));
                same!(producer.try_enqueue(&message(number, size)), claimed.clone().map(drop), "try_enqueue");
                model.next_number += u64::from(claimed.is_ok());
            }
            Step::EnqueueBatch(count) => {
                let from = model.next_number;
                let bytes: Vec<u8> =
                    (from..from + count as u64).flat_map(|number| message(number, size)).collect();
                let expected = if count == 0 {
                    Ok(0)
                } else {
                    model.claim(count, |step| Slot::Written(from + step)).map(Iterator::count)
                };
                same!(producer.try_enqueue_batch(&bytes), expected, "try_enqueue_batch");
                model.next_number += expected.unwrap_or(0) as u64;
            }
            Step::Reserve(count) if reservations.len() < MOST_RESERVATIONS => {
                let expected = model.claim(count, |_| Slot::Reserved);
                let got = producer.try_reserve_batch(count);
                let lens = (got.as_ref().map(BatchReservation::len), expected.clone().map(Iterator::count));
                same!(lens.0.map_err(|error| *error), lens.1, "try_reserve_batch");
                if let (Ok(mut slots), Ok(claimed)) = (got, expected) {
                    let (first, second) = slots.as_mut_slices();
                    first.fill(0xDD);
                    second.fill(0xDD);
                    reservations.push((slots, claimed));
                }
            }
            Step::Commit(which, count) => {
                let Some((slots, claimed)) = reservations.get_mut(which) else { continue };
                let count = count.min(slots.len());
                let from = model.next_number;
                let bytes: Vec<u8> =
                    (from..from + count as u64).flat_map(|number| message(number, size)).collect();
                let (first, second) = slots.as_mut_slices();
                let before_wrap = bytes.len().min(first.len());
                first[..before_wrap].copy_from_slice(&bytes[..before_wrap]);
                second[..bytes.len() - before_wrap].copy_from_slice(&bytes[before_wrap..]);
                slots.commit_prefix(count);
                for number in from..from + count as u64 {
                    *model.at(claimed.start) = Slot::Written(number);
                    claimed.start += 1;
                }
                model.next_number += count as u64;
                same!(slots.len(), claimed.clone().count(), "slots left");
            }
            Step::GiveUp(which) if which < reservations.len() => {
                let (slots, claimed) = reservations.swap_remove(which);
                twin.give_up(slots);
                for position in claimed {
                    *model.at(position) = Slot::Skipped;
                }
            }
            Step::Dequeue(max) => {
                let mut bytes = vec![0xAA; capacity.min(max) * size];
                let got = twin.dequeue(&mut consumer, &mut bytes, max);
                let mut numbers = Vec::new();
                // One full ring at most, run by run; what was given up behind the last message waits for the next look.
                while numbers.len() < max.min(capacity) {
                    model.pass_skipped();
                    let run = model.run(max.min(capacity) - numbers.len(), Slot::Done);
                    if run.is_empty() {
                        break;
                    }
                    numbers.extend(run);
                }
                let expected = match (numbers.len(), model.nothing()) {
                    (0, DequeueError::Closed) => Err(DequeueError::Closed),
                    (count, _) => Ok(count),
                };
                same!(got, expected, "dequeue_batch");
                model.delivered += numbers.len() as u64;
                for (got, number) in bytes.chunks(size).zip(&numbers) {
                    prop_assert_eq!(got, message(*number, size), "dequeue_batch gave other bytes");
                }
                prop_assert!(bytes[numbers.len() * size..].iter().all(|byte| *byte == 0xAA));
            }
            Step::Take(max) | Step::TakeContiguous(max) if batches.len() < MOST_BATCHES => {
                model.pass_skipped();
                let first = model.taken;
                let got;
                let mut most = max;
                if let Step::Take(_) = step {
                    got = consumer.take(max);
                } else {
                    got = consumer.take_contiguous(max);
                    most = max.min(capacity - usize::try_from(first).expect("small") % capacity);
                }
                let numbers = model.run(most, Slot::Lent);
                let expected = if numbers.is_empty() { Err(model.nothing()) } else { Ok(numbers.len()) };
                same!(got.as_ref().map(Batch::messages).map_err(|error| *error), expected, "take");
                model.delivered += numbers.len() as u64;
                if let Ok(batch) = got {
                    same!(batch.first_position(), first, "first_position");
                    batches.push((batch, numbers, first));
                }
            }
            Step::DropBatch(which) if which < batches.len() => {
                let (batch, numbers, first) = batches.swap_remove(which);
                same!(batch.iter().count(), numbers.len(), "messages");
                for (got, number) in batch.iter().zip(&numbers) {
                    prop_assert_eq!(got, message(*number, size), "changed while it was lent");
                }
                drop(batch);
                for position in first..first + numbers.len() as u64 {
                    *model.at(position) = Slot::Done;
                }
                model.free();
            }
            Step::LoseReservation(which) if which < reservations.len() => {
                let (slots, claimed) = reservations.swap_remove(which);
                slots.quarantine();
                for position in claimed {
                    *model.at(position) = Slot::Lost;
                    model.lose(position);
                }
            }
            Step::LoseBatch(which) if which < batches.len() => {
                let (batch, numbers, first) = batches.swap_remove(which);
                batch.quarantine();
                for position in first..first + numbers.len() as u64 {
                    *model.at(position) = Slot::Done;
                    model.lose(position);
                }
                model.free();
            }
            Step::Clear => {
                let mut cleared = 0;
                loop {
                    model.pass_skipped();
                    let run = model.run(capacity, Slot::Done).len() as u64;
                    cleared += run;
                    if run == 0 {
                        break;
                    }
                }
                same!(consumer.clear(), cleared, "clear");
                model.cleared += cleared;
            }
            Step::Close => {
                producer.close();
                model.closed = true;
            }
            _ => {}
        }
        compare(&producer, &consumer, &model)?;
    }
    drop((batches, reservations));
    Ok(())
}

fn compare(producer: &Producer, consumer: &Consumer, model: &Model) -> Result<(), TestCaseError> {
    same!(producer.capacity(), model.capacity - model.lost(), "capacity");
    same!(consumer.len(), model.len(), "len");
    same!(consumer.is_empty(), model.len() == 0, "is_empty");
    same!(producer.is_full(), model.is_full(), "is_full");
    same!(producer.is_closed(), model.closed, "is_closed");
    let statistics = producer.statistics();
    same!(statistics.claimed, model.tail(), "claimed");
    same!(statistics.delivered, model.delivered, "delivered");
    same!(statistics.cleared, model.cleared, "cleared");
    same!(statistics.skipped, model.skipped, "skipped");
    same!(statistics.quarantined, model.lost(), "quarantined");
    same!(statistics.wake_ups, 0, "wake_ups");
    Ok(())
}

fn settings(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, cases, max_shrink_iters: 2000, ..ProptestConfig::default() }
}

fn cases(losses: bool) -> impl Strategy<Value = (usize, usize, usize, Vec<Step>)> {
    (prop::sample::select(&CAPACITIES), prop::sample::select(&SIZES), 0..33usize, steps(losses))
}

#[test]
fn random_calls_answer_as_the_model_does() {
    proptest!(settings(3000), |((capacity, size, offset, steps) in cases(false))| {
        check(capacity, size, offset, &steps, Right)?;
    });
}

#[test]
fn random_calls_with_slots_that_are_lost_answer_as_the_model_does() {
    // Each case keeps its memory for ever, so they are few and small.
    proptest!(settings(1000), |((capacity, _, offset, steps) in cases(true))| {
        check(capacity, 3, offset, &steps, Right)?;
    });
}

#[test]
fn every_start_offset_capacity_and_size_passes_ten_laps() {
    // One fixed sequence that touches everything, wherever the ring stands.
    let lap = [
        Step::Enqueue,
        Step::Reserve(2),
        Step::EnqueueBatch(9),
        Step::Take(1),
        Step::Commit(0, 1),
        Step::Take(2),
        Step::GiveUp(0),
        Step::Dequeue(3),
        Step::DropBatch(1),
        Step::EnqueueBatch(2),
        Step::Dequeue(20),
        Step::DropBatch(0),
        Step::Reserve(1),
        Step::GiveUp(0),
        Step::Enqueue,
        Step::Clear,
    ];
    let steps: Vec<Step> = lap.iter().cycle().take(10 * lap.len()).cloned().collect();
    for capacity in CAPACITIES {
        for size in SIZES {
            for offset in 0..=capacity {
                check(capacity, size, offset, &steps, Right).unwrap();
            }
        }
    }
}

/// Runs the same comparison on a broken ring, which must fail, and for the expected reason.
fn assert_caught(twin: impl Fn() -> Box<dyn Dequeue>, reasons: &[&str]) {
    struct Boxed(Box<dyn Dequeue>);
    impl Dequeue for Boxed {
        fn dequeue(
            &mut self,
            consumer: &mut Consumer,
            bytes: &mut [u8],
            max: usize,
        ) -> Result<usize, DequeueError> {
            self.0.dequeue(consumer, bytes, max)
        }
        fn give_up(&mut self, slots: BatchReservation<'_>) {
            self.0.give_up(slots);
        }
    }
    let mut runner = proptest::test_runner::TestRunner::new(settings(3000));
    let result = runner.run(&cases(false), |(capacity, size, offset, steps)| {
        check(capacity, size, offset, &steps, Boxed(twin()))
    });
    let found = result.expect_err("the broken ring was not caught").to_string();
    assert!(reasons.iter().any(|reason| found.contains(reason)), "caught by something else: {found}");
}

#[test]
fn a_ring_that_loses_one_message_in_seven_copies_is_caught() {
    assert_caught(|| Box::new(LosesOne(0)), &["dequeue_batch"]);
}

#[test]
fn a_ring_that_delivers_what_was_given_up_is_caught() {
    // By whichever call meets it first: a count, or the bytes.
    assert_caught(|| Box::new(DeliversTheGivenUp), &["should be", "gave other bytes"]);
}
