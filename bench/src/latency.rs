//! One message in and out again in one thread, everything in cache, beside one contended compare-and-swap.
//!
//! Percentiles are of operations that are timed one by one; they hold the cost of reading the clock, and a processor
//! whose counter steps by 10 ns shows only such steps. The mean is of many operations in a row, without the clock.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use transload_core::Padded;

use crate::adapter::{Adapter, Receiver, Role, Sender};
use crate::adapters::{Crossbeam, FlumeEach, KanalEach, Staging, SyncChannel, Thingbuf};
use crate::message::{stamp_ends, tag};
use crate::pin::{Cores, pin_to};
use crate::settings::Settings;
use crate::statistics::{Spread, percentile};

/// Size of the message.
pub const MESSAGE_BYTES: usize = 64;
/// Few enough slots to stay in the first-level cache.
const CAPACITY: usize = 64;
/// Operations before the clock starts, as a part of those on the clock.
const WARM_UP_SHARE: u64 = 5;
/// Operations of one run for each millisecond of a timed run elsewhere.
const SAMPLES_PER_MS: u64 = 500;

/// What one operation costs, over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// The operation.
    pub name: &'static str,
    /// `None` for what is no queue.
    pub role: Option<Role>,
    /// Nanoseconds of an operation timed by itself.
    pub p50_ns: Spread,
    /// Nanoseconds of an operation timed by itself.
    pub p99_ns: Spread,
    /// Nanoseconds of an operation among many.
    pub mean_ns: Spread,
}

/// One run of one operation.
struct Samples {
    singles: Vec<u64>,
    mean: f64,
}

struct Probe {
    name: &'static str,
    role: Option<Role>,
    sample: fn(Cores, u64) -> Samples,
}

impl Probe {
    fn of<A: Adapter<MESSAGE_BYTES>>() -> Self {
        Self { name: A::NAME, role: Some(A::ROLE), sample: round_trips::<A> }
    }
}

fn probes() -> Vec<Probe> {
    vec![
        Probe { name: "clock alone", role: None, sample: clock },
        Probe { name: "contended compare-and-swap", role: None, sample: contended_swaps },
        Probe { name: "cache line to the other core and back", role: None, sample: ping_pong },
        Probe::of::<Crossbeam>(),
        Probe::of::<Thingbuf>(),
        Probe::of::<KanalEach>(),
        Probe::of::<FlumeEach>(),
        Probe::of::<SyncChannel>(),
        Probe::of::<Staging>(),
    ]
}

/// Measures every operation in interleaved rounds.
///
/// # Panics
///
/// When a thread does: a queue lost the one message in it.
pub fn measure(settings: &Settings) -> Vec<Latency> {
    let probes = probes();
    let count = settings.run_ms * SAMPLES_PER_MS;
    let mut rounds = vec![[const { Vec::new() }; 3]; probes.len()];
    for round in 0..settings.rounds {
        for index in Settings::order(probes.len(), round) {
            let cores = settings.cores;
            let sample = probes[index].sample;
            let run = thread::spawn(move || {
                pin_to(cores.producer(0));
                sample(cores, count)
            });
            let Samples { mut singles, mean } = run.join().expect("the measuring thread panicked");
            let [p50, p99, means] = &mut rounds[index];
            p50.push(nanoseconds(percentile(&mut singles, 500)));
            p99.push(nanoseconds(percentile(&mut singles, 990)));
            means.push(mean);
        }
    }
    let spread = |values: &Vec<f64>| Spread::of(values).expect("at least one round");
    let latency = |(probe, rounds): (&Probe, &[Vec<f64>; 3])| {
        let [p50_ns, p99_ns, mean_ns] = rounds.each_ref().map(spread);
        Latency { name: probe.name, role: probe.role, p50_ns, p99_ns, mean_ns }
    };
    probes.iter().zip(&rounds).map(latency).collect()
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn nanoseconds(value: u64) -> f64 {
    value as f64
}

fn elapsed_ns(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Times `count` operations together, then `count` more one by one.
#[inline]
fn sample(count: u64, mut operation: impl FnMut(u64)) -> Samples {
    for sequence in 0..count / WARM_UP_SHARE {
        operation(sequence);
    }
    let start = Instant::now();
    for sequence in 0..count {
        operation(sequence);
    }
    let mean = nanoseconds(elapsed_ns(start.elapsed())) / nanoseconds(count);
    let single = |sequence| {
        let start = Instant::now();
        operation(sequence);
        elapsed_ns(start.elapsed())
    };
    Samples { singles: (0..count).map(single).collect(), mean }
}

fn clock(_: Cores, count: u64) -> Samples {
    let samples = sample(count, |sequence| {
        black_box(sequence);
    });
    let start = Instant::now();
    for _ in 0..count {
        black_box(Instant::now());
    }
    Samples { mean: nanoseconds(elapsed_ns(start.elapsed())) / nanoseconds(count), ..samples }
}

fn round_trips<A: Adapter<MESSAGE_BYTES>>(_: Cores, count: u64) -> Samples {
    let (mut sender, mut receiver) = A::open(CAPACITY);
    let mut message = [0; MESSAGE_BYTES];
    sample(count, |sequence| {
        stamp_ends(&mut message, tag(0, sequence));
        let sent = sender.send(black_box(&message));
        let arrived = black_box(receiver.receive(1)).len();
        assert!(sent && arrived == 1, "{} lost the one message in it", A::NAME);
    })
}

/// A load and compare-and-swaps until one succeeds, while another core does the same on the same word.
fn contended_swaps(cores: Cores, count: u64) -> Samples {
    fn add_one(word: &AtomicU64) {
        let mut seen = word.load(Ordering::Relaxed);
        while let Err(other) = word.compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed) {
            seen = other;
        }
    }
    beside(cores, add_one, |word| sample(count, |_| add_one(word)))
}

/// How far apart the two cores are now: nanoseconds for a cache line to the consumer's core and back.
///
/// # Panics
///
/// When a thread does, which this does not let happen.
pub fn distance(cores: Cores) -> f64 {
    const TRIPS: u64 = 2000;
    let run = thread::spawn(move || {
        pin_to(cores.producer(0));
        ping_pong(cores, TRIPS)
    });
    run.join().expect("the measuring thread panicked").mean
}

/// A word made odd here and even again by the other core: how far apart the two cores are.
fn ping_pong(cores: Cores, count: u64) -> Samples {
    let answer = |word: &AtomicU64| {
        let seen = word.load(Ordering::Acquire);
        if seen % 2 == 1 {
            word.store(seen + 1, Ordering::Release);
        } else {
            spin_loop();
        }
    };
    beside(cores, answer, |word| {
        sample(count, |_| {
            let ping = word.load(Ordering::Relaxed) + 1;
            word.store(ping, Ordering::Release);
            while word.load(Ordering::Acquire) == ping {
                spin_loop();
            }
        })
    })
}

/// Runs `here` while the consumer's core repeats `there` on the same word.
fn beside(
    cores: Cores,
    there: impl Fn(&AtomicU64) + Sync,
    here: impl FnOnce(&AtomicU64) -> Samples,
) -> Samples {
    let word = Padded(AtomicU64::new(0));
    let (running, stop) = (Padded(AtomicBool::new(false)), Padded(AtomicBool::new(false)));
    thread::scope(|scope| {
        scope.spawn(|| {
            pin_to(cores.consumer());
            running.store(true, Ordering::Release);
            while !stop.load(Ordering::Relaxed) {
                there(&word);
            }
        });
        while !running.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let samples = here(&word);
        stop.store(true, Ordering::Relaxed);
        samples
    })
}
