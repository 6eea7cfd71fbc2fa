//! One run of one queue: pinned producers and one pinned consumer, for a span of time or a number of messages.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use transload_core::Padded;

use crate::patience::Patience;
use crate::pin::{Cores, pin_to};

/// No run lasts longer: a queue that hangs is stopped and reported.
const LIMIT: Duration = Duration::from_mins(1);

/// How often the main thread looks up. It sleeps between, so that the two cores belong to the threads of the run.
const GLANCE: Duration = Duration::from_micros(500);

/// One producer's side of a run.
pub trait Feed: Send {
    /// Offers messages from number `sequence` on and returns how many the queue took; 0 when it is full.
    fn offer(&mut self, sequence: u64) -> usize;
}

/// The consumer's side of a run.
pub trait Drain: Send {
    /// Takes a batch and returns how many messages it held; 0 when the queue is empty.
    fn take(&mut self) -> usize;
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// After this long, counted from the end of the warm-up.
    After(Duration),
    /// After so many messages from each producer.
    Messages(u64),
}

/// What a run does.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Where the threads run.
    pub cores: Cores,
    /// The clock starts when so many messages have passed: a few laps of the queue.
    pub warm_up: u64,
    /// When it stops.
    pub ending: Ending,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome<D> {
    /// Messages that the queue accepted from each producer, warm-up and tail included.
    pub sent: Vec<u64>,
    /// Messages that the consumer took between warm-up and stop.
    pub timed: u64,
    /// How long that took.
    pub elapsed: Duration,
    /// The consumer's side, with what it counted over the whole run.
    pub drain: D,
    /// The run was stopped because it did not end by itself.
    pub overdue: bool,
}

impl<D> Outcome<D> {
    /// Messages a second.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub fn rate(&self) -> f64 {
        self.timed as f64 / self.elapsed.as_secs_f64()
    }
}

/// What the threads of a run share.
#[derive(Debug, Default)]
struct Signals {
    ready: Padded<AtomicUsize>,
    warm: Padded<AtomicBool>,
    stop: Padded<AtomicBool>,
    done: Padded<AtomicUsize>,
}

impl Signals {
    /// Waits until all threads stand here, so that none has a head start.
    fn line_up(&self, threads: usize) {
        self.ready.fetch_add(1, Ordering::AcqRel);
        let mut patience = Patience::new();
        while self.ready.load(Ordering::Acquire) < threads {
            patience.wait();
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Counts a producer as done even when it panics, so that the consumer does not wait for it for ever.
struct Leave<'a>(&'a Signals);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.done.fetch_add(1, Ordering::AcqRel);
    }
}

/// Runs the feeds, a thread each, against the drain.
///
/// # Panics
///
/// When one of the threads does.
pub fn run<F: Feed, D: Drain>(plan: Plan, feeds: Vec<F>, drain: D) -> Outcome<D> {
    let signals = &Signals::default();
    let producers = feeds.len();
    let limit = match plan.ending {
        Ending::After(_) => u64::MAX,
        Ending::Messages(limit) => limit,
    };
    thread::scope(|scope| {
        let threads: Vec<_> = feeds
            .into_iter()
            .enumerate()
            .map(|(index, feed)| {
                scope.spawn(move || {
                    let _leave = Leave(signals);
                    pin_to(plan.cores.producer(index));
                    signals.line_up(producers + 1);
                    produce(signals, feed, limit)
                })
            })
            .collect();
        let consumer = scope.spawn(move || {
            pin_to(plan.cores.consumer());
            signals.line_up(producers + 1);
            consume(signals, drain, plan.warm_up, producers)
        });
        let overdue = watch(signals, plan.ending, producers, || consumer.is_finished());
        let sent = threads.into_iter().map(|thread| thread.join().expect("a producer panicked")).collect();
        let (timed, elapsed, drain) = consumer.join().expect("the consumer panicked");
        Outcome { sent, timed, elapsed, drain, overdue }
    })
}

/// Feeds until the limit or the stop; returns how many messages were accepted.
fn produce<F: Feed>(signals: &Signals, mut feed: F, limit: u64) -> u64 {
    let mut sequence = 0;
    let mut patience = Patience::new();
    while sequence < limit && !signals.stopped() {
        match feed.offer(sequence) {
            0 => patience.wait(),
            accepted => {
                patience.reset();
                sequence += accepted as u64;
            }
        }
    }
    sequence
}

/// Drains: first the warm-up, then on the clock, then whatever is left when all producers are done.
fn consume<D: Drain>(signals: &Signals, mut drain: D, warm_up: u64, producers: usize) -> (u64, Duration, D) {
    let mut patience = Patience::new();
    let mut step = || match drain.take() {
        0 => {
            patience.wait();
            0
        }
        taken => {
            patience.reset();
            taken as u64
        }
    };
    let mut before = 0;
    while before < warm_up && !signals.stopped() {
        before += step();
    }
    signals.warm.store(true, Ordering::Relaxed);
    let start = Instant::now();
    let mut timed = 0;
    while !signals.stopped() {
        timed += step();
    }
    let elapsed = start.elapsed();
    // Asked before the step: a queue that is empty after the last producer left stays empty.
    while {
        let over = signals.done.load(Ordering::Acquire) == producers;
        step() > 0 || !over
    } {}
    (timed, elapsed, drain)
}

/// Stops the run when it is time; returns whether it had to be stopped before.
fn watch(signals: &Signals, ending: Ending, producers: usize, broken: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    let due = || match ending {
        Ending::After(_) => signals.warm.load(Ordering::Relaxed),
        Ending::Messages(_) => signals.done.load(Ordering::Acquire) == producers,
    };
    while !due() && !broken() && start.elapsed() < LIMIT {
        thread::sleep(GLANCE);
    }
    let overdue = !due();
    if let Ending::After(span) = ending
        && !overdue
    {
        thread::sleep(span);
    }
    signals.stop.store(true, Ordering::Relaxed);
    overdue
}
