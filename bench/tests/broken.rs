//! The verifying mode must catch a queue that is wrong, and say in which way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use transload_bench::adapter::{Adapter, Receiver, Role, Sender};
use transload_bench::cell::Cell;
use transload_bench::contender::Contender;
use transload_bench::drive::Call;
use transload_bench::pin::{Cores, Spread};
use transload_bench::settings::Settings;
use transload_bench::verify::Findings;

const MESSAGES: u64 = 5000;

/// A queue behind a lock that goes wrong at every thousandth message.
struct Broken<const FAULT: u8>;

const NONE: u8 = 0;
const LOSES: u8 = 1;
const DOUBLES: u8 = 2;
const SWAPS: u8 = 3;
const TEARS: u8 = 4;
const FLIPS_LAST_BIT: u8 = 5;

struct Queue<const N: usize> {
    messages: VecDeque<[u8; N]>,
    capacity: usize,
    accepted: u64,
}

struct Handle<const N: usize, const FAULT: u8>(Arc<Mutex<Queue<N>>>);

struct Consumer<const N: usize> {
    queue: Arc<Mutex<Queue<N>>>,
    destination: Vec<[u8; N]>,
}

impl<const N: usize, const FAULT: u8> Clone for Handle<N, FAULT> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<const N: usize, const FAULT: u8> Adapter<N> for Broken<FAULT> {
    const NAME: &'static str = "broken";
    const ROLE: Role = Role::Rival;
    type Sender = Handle<N, FAULT>;
    type Receiver = Consumer<N>;

    fn open(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let queue = Arc::new(Mutex::new(Queue { messages: VecDeque::new(), capacity, accepted: 0 }));
        (Handle(Arc::clone(&queue)), Consumer { queue, destination: Vec::new() })
    }
}

impl<const N: usize, const FAULT: u8> Sender<N> for Handle<N, FAULT> {
    fn send(&mut self, message: &[u8; N]) -> bool {
        let mut queue = self.0.lock().expect("nothing panics while locked");
        if queue.messages.len() >= queue.capacity {
            return false;
        }
        queue.accepted += 1;
        let mut message = *message;
        // Near the middle of the queue's life, so that neighbours are there to be confused with.
        let faulty = queue.accepted % 1000 == 500;
        let previous = queue.messages.back().copied();
        match FAULT {
            LOSES if faulty => return true,
            DOUBLES if faulty => queue.messages.push_back(message),
            SWAPS if faulty => {
                if let Some(previous) = queue.messages.pop_back() {
                    queue.messages.push_back(message);
                    message = previous;
                }
            }
            TEARS if faulty => {
                if let Some(previous) = previous {
                    message[N / 2..].copy_from_slice(&previous[N / 2..]);
                }
            }
            FLIPS_LAST_BIT if faulty => message[N - 1] ^= 0x80,
            _ => {}
        }
        queue.messages.push_back(message);
        true
    }
}

impl<const N: usize> Receiver<N> for Consumer<N> {
    fn receive(&mut self, max: usize) -> &[[u8; N]] {
        let mut queue = self.queue.lock().expect("nothing panics while locked");
        self.destination.clear();
        // Leaves a message behind while there are more to come, so that the sender always has a neighbour to confuse.
        let ready = queue.messages.len().min(max);
        let last = queue.accepted >= MESSAGES;
        let count = if last { ready } else { ready.saturating_sub(1) };
        self.destination.extend(queue.messages.drain(..count));
        &self.destination
    }
}

const CELL: Cell = Cell { message_bytes: 64, capacity: 128, producers: 1, call: Call::Single };

fn settings() -> Option<Settings> {
    let cores = Cores::detect(Spread::Both);
    if let Err(reason) = &cores {
        println!("skipped: {reason}");
    }
    Some(Settings::quick(cores.ok()?))
}

/// What the verifying mode finds; `None` where it cannot run.
fn verify<const FAULT: u8>(cell: &Cell) -> Option<Findings> {
    let plan = settings()?.counted(MESSAGES, 1);
    Some((Contender::of::<Broken<FAULT>, 64>().verify)(plan, cell))
}

/// Demands these numbers of missing, torn and stale messages.
fn expect<const FAULT: u8>(expected: (u64, u64, u64)) {
    let Some(findings) = verify::<FAULT>(&CELL) else { return };
    assert_eq!((findings.missing, findings.torn, findings.stale), expected, "{findings:?}");
}

#[test]
fn a_sound_queue_passes() {
    for cell in [CELL, Cell { call: Call::Batch, ..CELL }] {
        let Some(findings) = verify::<NONE>(&cell) else { return };
        assert!(findings.is_clean(), "{findings:?}");
        assert!(findings.messages >= MESSAGES);
    }
}

#[test]
fn a_lost_message_is_missing() {
    expect::<LOSES>((5, 0, 0));
}

#[test]
fn a_doubled_message_is_stale() {
    expect::<DOUBLES>((0, 0, 5));
}

#[test]
fn swapped_messages_are_missing_and_stale() {
    expect::<SWAPS>((5, 0, 5));
}

#[test]
fn mixed_messages_are_torn() {
    expect::<TEARS>((5, 5, 0));
}

#[test]
fn one_bit_is_enough() {
    expect::<FLIPS_LAST_BIT>((5, 5, 0));
}

#[test]
fn a_broken_queue_is_not_timed() {
    let Some(settings) = settings() else { return };
    let plan = settings.counted(MESSAGES, 1);
    let refusal = Contender::of::<Broken<TEARS>, 64>().prove(plan, &CELL).unwrap_err();
    assert!(refusal.to_string().starts_with("broken fails its verification at 64 B"), "{refusal}");
}
