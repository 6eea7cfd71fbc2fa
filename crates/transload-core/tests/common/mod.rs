//! What every model shares: a ring with one loom cell a slot, so that an ordering error is a data race.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each model uses its part of this, and a test may panic"
)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{Ordering, fence};
use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use transload_core::{Barrier, Claim, ClaimError, Mark, Reader, Ring, TakeError, Taken, Word};

/// Positions start here where nothing else is said: two before the 30-bit lap of a ring of two slots wraps.
pub const NEXT_TO_WRAP: u64 = (1 << 31) - 2;

/// Explores `model` with at most `preemptions` forced switches, and prints how much that was.
pub fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let started = std::time::Instant::now();
    let runs = std::sync::Arc::new(std::sync::Mutex::new(0u64));
    let counted = runs.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        *counted.lock().unwrap() += 1;
        model();
    });
    println!("{} executions, bound {preemptions}, {:.1?}", runs.lock().unwrap(), started.elapsed());
}

/// What a weakened twin must show: two threads at one slot without order between them.
pub const RACE: &str = "Causality violation";
/// What a weakened twin must show: everybody sleeps.
pub const DEADLOCK: &str = "deadlock";

/// Asserts that exploring the twin ends in this very fault, not in just any panic.
pub fn assert_caught(fault: &str, model: impl FnOnce()) {
    thread_local! {
        // Loom runs all threads of a model on this one.
        static FIRST: RefCell<Option<String>> = const { RefCell::new(None) };
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|info| {
        // Without a message: a coroutine of loom's that is dropped at the end of a model.
        if info.payload_as_str().is_some() {
            FIRST.with_borrow_mut(|first| {
                first.get_or_insert_with(|| info.to_string());
            });
        }
    }));
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(model));
    std::panic::set_hook(hook);
    let first = FIRST.take();
    assert!(outcome.is_err(), "the twin was not caught");
    let first = first.expect("a panic has a message");
    assert!(first.contains(fault), "caught by something else: {first}");
}

/// The barrier that loom understands, or none for the twins.
#[derive(Clone, Copy)]
pub struct Fences(pub bool);

impl Barrier for Fences {
    fn light(&self) {
        if self.0 {
            fence(Ordering::SeqCst);
        }
    }

    fn heavy(&self) {
        self.light();
    }
}

pub struct Modelled {
    pub ring: Ring<Box<[Word]>, Fences>,
    slots: Box<[UnsafeCell<u64>]>,
}

impl Modelled {
    /// Without the fences of sleepers, which loom makes stronger than they are: nothing may rest on them.
    pub fn new(slots: usize) -> (Arc<Self>, Reader) {
        Self::starting_at(NEXT_TO_WRAP, slots, Fences(false))
    }

    pub fn starting_at(start: u64, slots: usize, fences: Fences) -> (Arc<Self>, Reader) {
        let words = (0..slots).map(|_| Word::new(0)).collect();
        let (ring, reader) = Ring::starting_at(start, slots, words, fences).unwrap();
        let slots = (0..slots).map(|_| UnsafeCell::new(0)).collect();
        (Arc::new(Self { ring, slots }), reader)
    }

    fn slot(&self, position: u64) -> &UnsafeCell<u64> {
        &self.slots[usize::try_from(position).unwrap() % self.slots.len()]
    }

    pub fn write(&self, position: u64, value: u64) {
        // SAFETY: the ring gave the position to this thread alone; loom reports it if that is false.
        self.slot(position).with_mut(|slot| unsafe { *slot = value });
    }

    pub fn read(&self, position: u64) -> u64 {
        // SAFETY: the ring gave the position to this thread alone; loom reports it if that is false.
        self.slot(position).with(|slot| unsafe { *slot })
    }

    /// Claims one position, writes it and publishes it.
    pub fn send(&self, value: u64) -> Result<bool, ClaimError> {
        let claim = self.ring.claim(1)?;
        self.write(claim.first(), value);
        Ok(self.ring.publish(claim, Mark::Written))
    }

    pub fn write_all(&self, claim: &Claim, value: u64) {
        for step in 0..claim.count() as u64 {
            self.write(claim.first() + step, value + step);
        }
    }

    pub fn read_all(&self, taken: &Taken) -> Vec<u64> {
        (0..taken.count() as u64).map(|step| self.read(taken.first() + step)).collect()
    }

    /// Steps over skipped positions, then copies out at most `max` messages.
    pub fn receive(&self, reader: &mut Reader, max: usize) -> Result<Vec<u64>, TakeError> {
        let _ = self.ring.pass_skipped(reader);
        let run = self.ring.peek(reader, max)?;
        let values = (0..run.count() as u64).map(|step| self.read(run.first() + step)).collect();
        let _ = self.ring.finish(reader, run);
        Ok(values)
    }
}
