//! The comparison, from start to end.

use anyhow::Result;

use super::flat::{self, Filling, Flat};
use super::ours::{AnyThread, Handle};
use super::rates::{self, Rate};
use super::report::{PoolDocument, Threads};
use super::subject::Subject;
use super::tagged::Tagged;
use super::verify::verify;
use crate::latency;
use crate::machine::Machine;
use crate::report::Target;
use crate::settings::Settings;
use crate::statistics::{Spread, median};

const THREADS: [usize; 3] = [1, 2, 4];

/// Measures everything; tells `progress` what comes next.
///
/// # Errors
///
/// When a pool fails its verification: no figure of that run is worth anything.
pub fn compare(settings: Settings, progress: impl Fn(&str)) -> Result<PoolDocument> {
    let machine = Machine::detect();
    progress("does each buffer have one owner");
    let stamped = settings.verified_bytes / 64;
    verify::<Tagged>(&settings, stamped)?;
    verify::<Handle>(&settings, stamped)?;
    verify::<AnyThread>(&settings, stamped)?;
    let mut threads = Vec::new();
    for count in THREADS {
        progress(&format!("{count} threads"));
        threads.push(together(&settings, count));
    }
    progress("16 to 1,000,000 buffers");
    let flat = flat::measure(&settings);
    let targets = targets(&threads, &flat);
    Ok(PoolDocument { schema: 1, machine, settings, threads, flat, targets })
}

/// All subjects with so many threads, in interleaved rounds.
fn together(settings: &Settings, threads: usize) -> Threads {
    type Run = fn(&Settings, usize) -> f64;
    let subjects: [(&'static str, Run); 3] = [
        (Tagged::NAME, rates::run::<Tagged>),
        (Handle::NAME, rates::run::<Handle>),
        (AnyThread::NAME, rates::run::<AnyThread>),
    ];
    let mut subject_rates = subjects.map(|(name, _)| Rate { name, rates: Vec::new() });
    let mut distance_ns = Vec::new();
    for round in 0..settings.rounds {
        distance_ns.push(latency::distance(settings.cores));
        for index in Settings::order(subjects.len(), round) {
            let rate = (subjects[index].1)(settings, threads);
            subject_rates[index].rates.push(rate);
        }
    }
    let [tagged, ours @ ..] = &subject_rates;
    let ratios = ours.each_ref().map(|ours| ratio(ours, tagged));
    Threads { threads, distance_ns, subjects: subject_rates.to_vec(), ratios }
}

/// Of medians, and over the rounds.
fn ratio(ours: &Rate, tagged: &Rate) -> (f64, Spread) {
    let by_round: Vec<f64> =
        ours.rates.iter().zip(&tagged.rates).map(|(ours, tagged)| ours / tagged).collect();
    let medians = |rate: &Rate| median(&rate.rates).expect("at least one round");
    (medians(ours) / medians(tagged), Spread::of(&by_round).expect("at least one round"))
}

/// Every row of the design's table that is about the pool.
fn targets(threads: &[Threads], flat: &[Flat]) -> Vec<Target> {
    let ratio = |count: usize, way: usize| {
        threads.iter().find(|row| row.threads == count).map(|row| row.ratios[way].0)
    };
    let flattest = |name: &str| {
        let rows = flat.iter().filter(|flat| flat.name == name && flat.filling != Filling::Bursts);
        rows.map(Flat::ratio).max_by(f64::total_cmp)
    };
    vec![
        Target::at_least("one thread, handle, to the tagged-head stack", ratio(1, 0), 1.8, 3.0),
        Target::at_least("one thread, any-thread form, to the tagged-head stack", ratio(1, 1), 1.1, 1.5),
        Target::at_least("two threads, handles, total rate", ratio(2, 0), 8.0, 20.0),
        Target::at_least("four threads, handles, total rate", ratio(4, 0), 8.0, 20.0),
        Target::within("handle, 16 to 1,000,000 buffers, any filling", flattest(Handle::NAME), 3.0, 1.5),
        Target::within("any-thread form, the same", flattest(AnyThread::NAME), 3.0, 1.5),
    ]
}
