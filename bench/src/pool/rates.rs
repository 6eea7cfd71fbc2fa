//! How many buffers a second so many threads take and give back.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::subject::{Subject, Worker};
use crate::pin::pin_to;
use crate::settings::Settings;

/// Pairs between two looks at the clock.
const CHUNK: u64 = 512;
/// Enough for all, and small enough for every cache.
pub(super) const BUFFERS: usize = 1024;

/// One subject with so many threads.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// The subject.
    pub name: &'static str,
    /// Pairs of acquire and release a second, of all threads, round by round.
    pub rates: Vec<f64>,
}

/// Pairs a second of all threads in one timed run.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(super) fn run<S: Subject>(settings: &Settings, threads: usize) -> f64 {
    let pool = S::open(BUFFERS);
    let (start, stop) = (Arc::new(Barrier::new(threads + 1)), Arc::new(AtomicBool::new(false)));
    let workers: Vec<_> = (0..threads)
        .map(|index| {
            let (pool, start, stop, cores) = (pool.clone(), start.clone(), stop.clone(), settings.cores);
            thread::spawn(move || {
                pin_to(cores.producer(index));
                let mut worker = pool.worker();
                pairs(&mut worker, 16 * CHUNK);
                start.wait();
                let (begun, mut done) = (Instant::now(), 0);
                while !stop.load(Ordering::Relaxed) {
                    pairs(&mut worker, CHUNK);
                    done += CHUNK;
                }
                done as f64 / begun.elapsed().as_secs_f64()
            })
        })
        .collect();
    start.wait();
    thread::sleep(Duration::from_millis(settings.run_ms));
    stop.store(true, Ordering::Relaxed);
    workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
}

#[inline]
fn pairs<W: Worker>(worker: &mut W, count: u64) {
    for _ in 0..count {
        let lease = worker.acquire().expect("a buffer for each thread");
        black_box(W::index(&lease));
        worker.release(lease);
    }
}
