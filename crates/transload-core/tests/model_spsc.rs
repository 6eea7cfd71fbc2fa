//! Models: one sender, one receiver, each with words that the other only reads.
//!
//! Two slots, or one, three messages, positions next to the wrap of their word, at most three forced switches.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
use common::{DEADLOCK, Fences, RACE, assert_caught, explore};
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::Relaxed;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use transload_core::{
    FutexWord, Label, SPSC_FUTEX_WORDS, SPSC_SIGNAL, SharedWord, SpscOwn, SpscPeer, SpscReceiver,
    SpscSendError, SpscSender, weakened,
};

const START: u64 = u64::MAX - 1;
const MESSAGES: u32 = 3;

/// Words that several views show.
struct View<T>(Arc<Vec<T>>);

impl<T> Clone for View<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> AsRef<[T]> for View<T> {
    fn as_ref(&self) -> &[T] {
        &self.0
    }
}

/// The words of one side.
#[derive(Clone)]
struct Side {
    position: View<SharedWord>,
    futexes: View<FutexWord>,
}

impl Side {
    fn new() -> Self {
        let futexes = (0..SPSC_FUTEX_WORDS).map(|_| FutexWord::new(0)).collect();
        Self { position: View(Arc::new(vec![SharedWord::new(START)])), futexes: View(Arc::new(futexes)) }
    }

    fn own(&self) -> SpscOwn<View<SharedWord>, View<FutexWord>> {
        SpscOwn::new(self.position.clone(), self.futexes.clone())
    }

    fn peer(&self) -> SpscPeer<View<SharedWord>, View<FutexWord>> {
        SpscPeer::new(self.position.clone(), self.futexes.clone())
    }
}

/// What the kernel has for those who sleep on a word.
#[derive(Default)]
struct Bed {
    wakes: Mutex<u32>,
    woken: Condvar,
}

impl Bed {
    fn wake(&self) {
        *self.wakes.lock().unwrap() += 1;
        self.woken.notify_all();
    }

    /// Sleeps while the word has this value, until somebody wakes.
    fn sleep(&self, word: &FutexWord, value: u32) {
        let mut wakes = self.wakes.lock().unwrap();
        let before = *wakes;
        if word.as_atomic().load(Relaxed) != value {
            return;
        }
        while *wakes == before {
            wakes = self.woken.wait(wakes).unwrap();
        }
    }
}

type Sender = SpscSender<View<SharedWord>, View<FutexWord>, Fences>;
type Receiver = SpscReceiver<View<SharedWord>, View<FutexWord>, Fences>;

/// A lane.
struct Lane {
    producer: Side,
    consumer: Side,
    lengths: View<SharedWord>,
    slots: Vec<UnsafeCell<u64>>,
    fences: Fences,
    /// Where the receiver sleeps, and the sender.
    beds: [Bed; 2],
}

impl Lane {
    fn new(slots: usize, fences: bool) -> Arc<Self> {
        Arc::new(Self {
            producer: Side::new(),
            consumer: Side::new(),
            lengths: View(Arc::new((0..slots).map(|_| SharedWord::new(0)).collect())),
            slots: (0..slots).map(|_| UnsafeCell::new(0)).collect(),
            fences: Fences(fences),
            beds: [Bed::default(), Bed::default()],
        })
    }

    fn sender(&self) -> Sender {
        SpscSender::new(self.producer.own(), self.consumer.peer(), self.lengths.clone(), self.fences)
    }

    fn receiver(&self) -> Receiver {
        SpscReceiver::new(self.consumer.own(), self.producer.peer(), self.lengths.clone(), 100, self.fences)
    }

    fn send(&self, sender: &mut Sender, value: u32) -> bool {
        let slot = match sender.slot() {
            Ok(slot) => slot,
            Err(SpscSendError::Full) => return false,
            Err(error) => panic!("{error}"),
        };
        // SAFETY: the slot is this side's; loom reports it if that is false.
        self.slots[slot].with_mut(|bytes| unsafe { *bytes = u64::from(value) });
        if sender.publish(value).is_some() {
            self.beds[0].wake();
        }
        true
    }

    /// Takes at most two messages, and checks them.
    fn receive(&self, receiver: &mut Receiver, next: &mut u64) -> bool {
        let mut lengths = Vec::new();
        let Some(run) = receiver.take(2, |slot, len| lengths.push((slot, len))).unwrap() else {
            return false;
        };
        assert_eq!((run.first, run.count), (START.wrapping_add(*next), lengths.len()));
        for (slot, len) in lengths {
            *next += 1;
            assert_eq!(u64::from(len), *next);
            // SAFETY: the slot is this side's; loom reports it if that is false.
            self.slots[slot].with(|bytes| assert_eq!(unsafe { *bytes }, *next));
        }
        if receiver.finish(run.count).is_some() {
            self.beds[1].wake();
        }
        true
    }
}

fn messages_arrive(slots: usize) {
    explore(3, move || {
        let lane = Lane::new(slots, false);
        let sending = {
            let lane = lane.clone();
            thread::spawn(move || {
                let mut sender = lane.sender();
                for value in 1..=MESSAGES {
                    while !lane.send(&mut sender, value) {
                        thread::yield_now();
                    }
                }
            })
        };
        let (mut receiver, mut next) = (lane.receiver(), 0);
        while next < MESSAGES.into() {
            if !lane.receive(&mut receiver, &mut next) {
                thread::yield_now();
            }
        }
        sending.join().unwrap();
    });
}

#[test]
fn each_message_arrives_once_whole_and_in_order() {
    messages_arrive(1);
    messages_arrive(2);
}

#[test]
fn a_weak_store_of_a_position_is_caught() {
    assert_caught(RACE, || weakened(Label::SpscPosition, || messages_arrive(1)));
}

#[test]
fn a_missing_fence_behind_its_load_is_caught() {
    assert_caught(RACE, || weakened(Label::SpscFence, || messages_arrive(1)));
}

/// Sends a message, and sleeps where there is no room.
fn send(lane: &Lane, sender: &mut Sender, value: u32) {
    while !lane.send(sender, value) {
        let signal = sender.begin_sleep();
        if sender.slot().is_err() {
            lane.beds[1].sleep(&lane.consumer.futexes.0[SPSC_SIGNAL], signal);
        }
        sender.end_sleep();
    }
}

/// Receives so many messages, and sleeps where there is none.
fn receive(lane: &Lane, receiver: &mut Receiver, next: &mut u64, last: u64) {
    while *next < last {
        if lane.receive(receiver, next) {
            continue;
        }
        let signal = receiver.begin_sleep();
        if receiver.available() == Ok(0) {
            lane.beds[0].sleep(&lane.producer.futexes.0[SPSC_SIGNAL], signal);
        }
        receiver.end_sleep();
    }
}

/// The receiver sleeps until there is a message. Without a time-out: a lost wake-up is a deadlock.
fn sleeping_receiver(fences: bool) {
    explore(3, move || {
        let lane = Lane::new(2, fences);
        let sending = {
            let lane = lane.clone();
            thread::spawn(move || {
                let mut sender = lane.sender();
                (1..=2).for_each(|value| assert!(lane.send(&mut sender, value)));
            })
        };
        receive(&lane, &mut lane.receiver(), &mut 0, 2);
        sending.join().unwrap();
    });
}

/// The sender sleeps until there is room.
fn sleeping_sender(fences: bool) {
    explore(3, move || {
        let lane = Lane::new(1, fences);
        let mut sender = lane.sender();
        assert!(lane.send(&mut sender, 1));
        let receiving = {
            let lane = lane.clone();
            thread::spawn(move || assert!(lane.receive(&mut lane.receiver(), &mut 0)))
        };
        send(&lane, &mut sender, 2);
        receiving.join().unwrap();
    });
}

#[test]
fn nobody_sleeps_while_there_is_something_to_do() {
    sleeping_receiver(true);
    sleeping_sender(true);
    // Both, in turn.
    explore(2, || {
        let lane = Lane::new(1, true);
        let sending = {
            let lane = lane.clone();
            thread::spawn(move || {
                let mut sender = lane.sender();
                (1..=2).for_each(|value| send(&lane, &mut sender, value));
            })
        };
        receive(&lane, &mut lane.receiver(), &mut 0, 2);
        sending.join().unwrap();
    });
}

#[test]
fn a_message_without_fences_is_caught() {
    assert_caught(DEADLOCK, || sleeping_receiver(false));
}

#[test]
fn room_without_fences_is_caught() {
    assert_caught(DEADLOCK, || sleeping_sender(false));
}
