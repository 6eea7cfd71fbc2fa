//! The list of queues, each behind two functions: one that verifies it and one that times it.

use anyhow::{Result, ensure};

use crate::adapter::{Adapter, Role};
use crate::adapters::{
    Crossbeam, EarlyClaim, FlumeDrain, FlumeEach, KanalDrain, KanalEach, Staging, SyncChannel, Thingbuf,
};
use crate::cell::Cell;
use crate::check::Ends;
use crate::drive::copying;
use crate::trial::{Outcome, Plan};
use crate::verify::{Findings, Verifier};

/// One timed run.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Messages a second.
    pub rate: f64,
    /// Messages whose two ends differ.
    pub torn: u64,
    /// Whether the messages that arrived are those that were sent.
    pub balanced: bool,
}

/// A queue, for messages of one size.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    /// Its heading in the tables.
    pub name: &'static str,
    /// Whether it counts, and for whom.
    pub role: Role,
    /// Runs it in the verifying mode.
    pub verify: fn(Plan, &Cell) -> Findings,
    /// Runs it on the clock.
    pub time: fn(Plan, &Cell) -> Timing,
}

impl Contender {
    /// The contender that an adapter stands for.
    pub fn of<A: Adapter<N>, const N: usize>() -> Self {
        Self { name: A::NAME, role: A::ROLE, verify: verify::<A, N>, time: time::<A, N> }
    }

    /// Runs it in the verifying mode and demands that nothing is wrong, save with a baseline.
    ///
    /// # Errors
    ///
    /// When a message arrived damaged, out of order or not at all.
    pub fn prove(&self, plan: Plan, cell: &Cell) -> Result<Findings> {
        let findings = (self.verify)(plan, cell);
        ensure!(
            self.role == Role::Baseline || findings.is_clean(),
            "{} fails its verification at {cell}: {findings:?}; nothing of it is timed",
            self.name
        );
        Ok(findings)
    }
}

/// All queues, for messages of `N` bytes.
pub fn contenders<const N: usize>() -> Vec<Contender> {
    vec![
        Contender::of::<Crossbeam, N>(),
        Contender::of::<Thingbuf, N>(),
        Contender::of::<KanalEach, N>(),
        Contender::of::<KanalDrain, N>(),
        Contender::of::<FlumeEach, N>(),
        Contender::of::<FlumeDrain, N>(),
        Contender::of::<SyncChannel, N>(),
        Contender::of::<EarlyClaim, N>(),
        Contender::of::<Staging, N>(),
    ]
}

fn verify<A: Adapter<N>, const N: usize>(plan: Plan, cell: &Cell) -> Findings {
    let check = Verifier::new(cell.producers);
    let (outcome, verifier) = copying::<A, _, N>(plan, cell.capacity, cell.producers, cell.call, check);
    found(&outcome, &verifier)
}

/// What a verifier found in a run.
pub(crate) fn found(outcome: &Outcome<()>, verifier: &Verifier) -> Findings {
    Findings { overdue: u64::from(outcome.overdue), ..verifier.findings(&outcome.sent) }
}

fn time<A: Adapter<N>, const N: usize>(plan: Plan, cell: &Cell) -> Timing {
    let check = Ends::default();
    let (outcome, ends) = copying::<A, _, N>(plan, cell.capacity, cell.producers, cell.call, check);
    Timing {
        rate: outcome.rate(),
        torn: ends.torn,
        balanced: !outcome.overdue && ends.balances(&outcome.sent),
    }
}
