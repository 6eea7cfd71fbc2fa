//! Before anything is timed: does each buffer have one owner at a time, and are all of them handed out?

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use anyhow::{Result, ensure};

use super::subject::{Subject, Worker};
use crate::pin::pin_to;
use crate::settings::Settings;

/// Fewer buffers than threads want, so that they meet.
const BUFFERS: usize = 3;
const THREADS: u32 = 4;

/// Drains a pool, then lets four threads stamp three buffers so many times each.
///
/// # Errors
///
/// When a buffer is handed out twice, or one is missing.
///
/// # Panics
///
/// When a stamping thread does.
pub fn verify<S: Subject>(settings: &Settings, rounds: u64) -> Result<()> {
    let pool = S::open(1000);
    let mut worker = pool.worker();
    let leases: Vec<_> = std::iter::from_fn(|| worker.acquire()).collect();
    let indices: BTreeSet<u32> = leases.iter().map(S::Worker::index).collect();
    ensure!(
        (leases.len(), indices.len(), indices.last()) == (1000, 1000, Some(&999)),
        "{} handed out {} leases of {} buffers of 1000",
        S::NAME,
        leases.len(),
        indices.len()
    );
    for lease in leases {
        worker.release(lease);
    }

    let pool = S::open(BUFFERS);
    let stamps: Arc<[AtomicU32]> = (0..BUFFERS).map(|_| AtomicU32::new(0)).collect();
    let cores = settings.cores;
    let threads: Vec<_> = (1..=THREADS)
        .map(|id| {
            let (pool, stamps) = (pool.clone(), stamps.clone());
            thread::spawn(move || {
                pin_to(cores.producer(id as usize));
                let mut worker = pool.worker();
                let (mut twice, mut done) = (0u64, 0);
                while done < rounds {
                    let Some(lease) = worker.acquire() else {
                        thread::yield_now();
                        continue;
                    };
                    let stamp = &stamps[S::Worker::index(&lease) as usize];
                    twice += u64::from(stamp.swap(id, Ordering::Relaxed) != 0);
                    if done % 64 == 0 {
                        thread::yield_now();
                    }
                    twice += u64::from(stamp.swap(0, Ordering::Relaxed) != id);
                    worker.release(lease);
                    done += 1;
                }
                twice
            })
        })
        .collect();
    let twice: u64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
    ensure!(twice == 0, "{} handed buffers out twice: {twice} times", S::NAME);
    Ok(())
}
