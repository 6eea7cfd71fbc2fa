//! The ceiling for messages in place: the same copies and the same reads, handed over by no ring at all.
//!
//! A slab as large as the ring's, cut into chunks of one batch. In step `p` the producer copies messages into chunk
//! `p`, one after the other, while the consumer reads every cache line of chunk `p - 1`; then both meet and go on. So
//! every line is written by one core and read once by the other, as in a ring, and nothing is claimed or published for
//! a message. Two figures come of it. `lockstep` counts the waiting at each meeting. `busy` does not: it is the rate of
//! the slower of the two sides while it works, which no ring can exceed on the same memory. The thresholds are judged
//! on `busy`.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use transload_core::Padded;

use crate::BATCH;
use crate::check::{Check, Lines};
use crate::message::{LARGEST, tag};
use crate::patience::Patience;
use crate::pin::pin_to;
use crate::settings::Settings;

/// A slot of the slab, aligned as a page.
#[derive(Clone, Debug)]
#[repr(align(4096))]
struct Slot([u8; LARGEST]);

/// Laps over the slab before the clock starts.
const WARM_UP_LAPS: usize = 2;

/// Messages a second without a ring.
#[derive(Clone, Copy, Debug)]
pub struct Bare {
    /// Of the slower side, waiting left out.
    pub busy: f64,
    /// With the waiting at each meeting.
    pub lockstep: f64,
}

/// Where the two threads meet.
#[derive(Debug, Default)]
struct Meeting {
    arrivals: Padded<AtomicUsize>,
    stop: Padded<AtomicBool>,
    /// The meeting after which both leave, by its number from 1; none yet is 0. A number and no flag: the producer may
    /// be a step ahead when the consumer looks.
    last: Padded<AtomicUsize>,
}

impl Meeting {
    fn meet(&self) {
        let mine = self.arrivals.fetch_add(1, Ordering::AcqRel);
        let both = mine / 2 * 2 + 2;
        let mut patience = Patience::new();
        while self.arrivals.load(Ordering::Acquire) < both {
            patience.wait();
        }
    }
}

/// Copies and reads for the length of one run.
///
/// # Panics
///
/// When one of the threads does.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub fn run(settings: &Settings, capacity: usize) -> Bare {
    let chunks: Vec<_> = (0..capacity / BATCH).map(|_| Mutex::new(vec![Slot([0; LARGEST]); BATCH])).collect();
    let meeting = Meeting::default();
    let warm_up = WARM_UP_LAPS * chunks.len();
    thread::scope(|scope| {
        let copying = scope.spawn(|| {
            pin_to(settings.cores.producer(0));
            produce(&chunks, &meeting, warm_up)
        });
        let reading = scope.spawn(|| {
            pin_to(settings.cores.consumer());
            consume(&chunks, &meeting, warm_up)
        });
        thread::sleep(Duration::from_millis(settings.run_ms));
        meeting.stop.store(true, Ordering::Relaxed);
        let (steps, copied, elapsed) = copying.join().expect("the producer panicked");
        let read = reading.join().expect("the consumer panicked");
        let messages = (steps * BATCH) as f64;
        Bare { busy: messages / copied.max(read).as_secs_f64(), lockstep: messages / elapsed.as_secs_f64() }
    })
}

/// Returns the steps on the clock, the time spent copying in them, and the time that passed.
fn produce(chunks: &[Mutex<Vec<Slot>>], meeting: &Meeting, warm_up: usize) -> (usize, Duration, Duration) {
    let mut message = Box::new([0; LARGEST]);
    let (mut step, mut sequence, mut busy) = (0, 0, Duration::ZERO);
    let mut start = Instant::now();
    loop {
        if step == warm_up {
            (start, busy) = (Instant::now(), Duration::ZERO);
        }
        let mut slots = chunks[step % chunks.len()].lock().expect("no panic while locked");
        let begin = Instant::now();
        for slot in slots.iter_mut() {
            Lines::stamp(&mut message[..], tag(0, sequence));
            slot.0.copy_from_slice(&black_box(&*message)[..]);
            sequence += 1;
        }
        busy += begin.elapsed();
        drop(slots);
        step += 1;
        let last = step > warm_up && meeting.stop.load(Ordering::Relaxed);
        if last {
            meeting.last.store(step, Ordering::Release);
        }
        meeting.meet();
        if last {
            return (step - warm_up, busy, start.elapsed());
        }
    }
}

/// Returns the time spent reading in the steps on the clock: as many as the producer's, one step later.
fn consume(chunks: &[Mutex<Vec<Slot>>], meeting: &Meeting, warm_up: usize) -> Duration {
    let (mut step, mut busy) = (0, Duration::ZERO);
    let mut lines = Lines::default();
    loop {
        meeting.meet();
        let last = meeting.last.load(Ordering::Acquire) == step + 1;
        if step == warm_up {
            busy = Duration::ZERO;
        }
        let slots = chunks[step % chunks.len()].lock().expect("no panic while locked");
        let begin = Instant::now();
        for slot in black_box(&*slots) {
            lines.see(&slot.0);
        }
        busy += begin.elapsed();
        step += 1;
        if last {
            black_box(lines.lines());
            return busy;
        }
    }
}
