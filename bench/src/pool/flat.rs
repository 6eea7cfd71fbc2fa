//! Whether the cost depends on how large and how full a pool is.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::ours::{AnyThread, Handle};
use super::subject::{Subject, Worker};
use crate::pin::pin_to;
use crate::settings::Settings;
use crate::statistics::Spread;

/// Sizes of pools; the first is what the others are compared with.
pub(super) const SIZES: [usize; 4] = [16, 1024, 65_536, 1_000_000];
/// Buffers that a burst holds at once, if the pool has them.
const BURST: usize = 256;
const CHUNK: u64 = 512;

/// How full the pool is, and what is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filling {
    /// Everything is free: one buffer is taken and given back.
    Empty,
    /// 99.9 % are out, one at least is free: one buffer is taken and given back.
    NearlyFull,
    /// All are out: the answer is that there is none.
    Full,
    /// Everything is free: 256 buffers, or half of them if there are fewer, are taken and then given back.
    Bursts,
}

/// All of these.
pub(super) const FILLINGS: [Filling; 4] =
    [Filling::Empty, Filling::NearlyFull, Filling::Full, Filling::Bursts];

impl Filling {
    /// In words, for the table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Empty => "0 % leased",
            Self::NearlyFull => "99.9 % leased",
            Self::Full => "100 % leased",
            Self::Bursts => "bursts of 256",
        }
    }
}

/// One way to the pool, one filling, all sizes.
#[derive(Clone, Debug, Serialize)]
pub struct Flat {
    /// The way.
    pub name: &'static str,
    /// The filling.
    pub filling: Filling,
    /// Buffers, and the nanoseconds of a pair (or of an answer that there is none), over the rounds.
    pub cells: Vec<(usize, Spread)>,
}

impl Flat {
    /// The highest median over that of the smallest pool.
    pub fn ratio(&self) -> f64 {
        let smallest = self.cells[0].1.median;
        self.cells.iter().map(|(_, spread)| spread.median / smallest).fold(0.0, f64::max)
    }
}

/// Measures all, in interleaved rounds.
pub(super) fn measure(settings: &Settings) -> Vec<Flat> {
    type Sample = fn(&Settings, usize, Filling) -> f64;
    let ways: [(&'static str, Sample); 2] =
        [(Handle::NAME, sample::<Handle>), (AnyThread::NAME, sample::<AnyThread>)];
    let mut flats = Vec::new();
    for (name, sample) in ways {
        for filling in FILLINGS {
            let mut rounds = vec![Vec::new(); SIZES.len()];
            for round in 0..settings.rounds {
                for index in Settings::order(SIZES.len(), round) {
                    rounds[index].push(sample(settings, SIZES[index], filling));
                }
            }
            let spread = |values: &Vec<f64>| Spread::of(values).expect("at least one round");
            let cells = SIZES.iter().copied().zip(rounds.iter().map(spread)).collect();
            flats.push(Flat { name, filling, cells });
        }
    }
    flats
}

/// Nanoseconds of one operation in one run, on a thread of its own.
fn sample<S: Subject>(settings: &Settings, buffers: usize, filling: Filling) -> f64 {
    let (core, time) = (settings.cores.producer(0), Duration::from_millis(settings.run_ms));
    let run = thread::spawn(move || {
        pin_to(core);
        let pool = S::open(buffers);
        let mut worker = pool.worker();
        let out = match filling {
            Filling::Empty | Filling::Bursts => 0,
            Filling::NearlyFull => (buffers - buffers / 1000).min(buffers - 1),
            Filling::Full => buffers,
        };
        let kept: Vec<_> = (0..out).map(|_| worker.acquire().expect("there are as many")).collect();
        let mut burst = Vec::with_capacity(BURST);
        let mut operations = || match filling {
            Filling::Full => {
                for _ in 0..CHUNK {
                    black_box(worker.acquire().is_none());
                }
                CHUNK
            }
            Filling::Bursts => {
                let count = BURST.min(buffers / 2);
                burst.extend((0..count).map(|_| worker.acquire().expect("one is free")));
                burst.drain(..).for_each(|lease| worker.release(lease));
                count as u64
            }
            _ => {
                for _ in 0..CHUNK {
                    let lease = worker.acquire().expect("one is free");
                    black_box(S::Worker::index(&lease));
                    worker.release(lease);
                }
                CHUNK
            }
        };
        operations();
        let nanoseconds = timed(time, &mut operations);
        for lease in kept {
            worker.release(lease);
        }
        nanoseconds
    });
    run.join().expect("no panic")
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn timed(time: Duration, operations: &mut impl FnMut() -> u64) -> f64 {
    let (begun, mut done) = (Instant::now(), 0);
    while begun.elapsed() < time {
        done += operations();
    }
    begun.elapsed().as_secs_f64() * 1e9 / done as f64
}
