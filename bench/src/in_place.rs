//! Messages of 4 KiB written and read where they lie, against the same work without a ring.

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::adapter::{InPlace, Role};
use crate::adapters::{Staging, Thingbuf};
use crate::bare;
use crate::cell::Cell;
use crate::check::Lines;
use crate::contender::found;
use crate::drive::{Call, in_place};
use crate::message::LARGEST;
use crate::settings::Settings;
use crate::statistics::{Spread, median};
use crate::verify::{Findings, Verifier};

/// Who is measured, in the order of the report's columns.
const CEILING: &str = "no ring, busy";
const LOCKSTEP: &str = "no ring, lockstep";

/// One way to hand messages over.
#[derive(Clone, Debug, Serialize)]
pub struct Way {
    /// A queue's name, or one of the two figures without a ring.
    pub name: &'static str,
    /// Messages a second, round by round.
    pub rates: Vec<f64>,
    /// Whether this is the library that is measured.
    pub ours: bool,
}

/// All ways.
#[derive(Clone, Debug, Serialize)]
pub struct InPlaceReport {
    /// What was measured.
    pub cell: Cell,
    /// Queues first.
    pub ways: Vec<Way>,
    /// Our median over the ceiling's.
    pub ratio_of_medians: Option<f64>,
    /// Our median over that without a ring with the waiting counted.
    pub ratio_to_lockstep: Option<f64>,
    /// Ours over the ceiling of the same round.
    pub ratio_by_round: Option<Spread>,
}

/// A queue that can do it.
struct Queue {
    name: &'static str,
    role: Role,
    verify: fn(&Settings, &Cell) -> Findings,
    time: fn(&Settings, &Cell) -> Option<f64>,
}

impl Queue {
    fn of<A: InPlace<LARGEST>>() -> Self {
        Self { name: A::NAME, role: A::ROLE, verify: verify::<A>, time: time::<A> }
    }
}

/// The queues with slots that can be written and read in place.
fn queues() -> Vec<Queue> {
    vec![Queue::of::<Staging>(), Queue::of::<Thingbuf>()]
}

fn verify<A: InPlace<LARGEST>>(settings: &Settings, cell: &Cell) -> Findings {
    let plan = settings.verified(LARGEST, 1);
    let (outcome, verifier) = in_place::<A, _, LARGEST>(plan, cell.capacity, Verifier::new(1));
    found(&outcome, &verifier)
}

/// `None` when a message was lost or doubled.
fn time<A: InPlace<LARGEST>>(settings: &Settings, cell: &Cell) -> Option<f64> {
    let plan = settings.timed(cell.capacity);
    let (outcome, lines) = in_place::<A, _, LARGEST>(plan, cell.capacity, Lines::default());
    std::hint::black_box(lines.lines());
    (!outcome.overdue && lines.balances(&outcome.sent)).then(|| outcome.rate())
}

/// Verifies the queues, then times them and the loop without a ring in interleaved rounds.
///
/// # Errors
///
/// When a queue damages, doubles or loses a message.
pub fn measure(settings: &Settings) -> Result<InPlaceReport> {
    let cell = Cell::of::<LARGEST>(1, Call::Single);
    let queues = queues();
    let mut ways = Vec::new();
    for queue in &queues {
        let findings = (queue.verify)(settings, &cell);
        ensure!(findings.is_clean(), "{} in place fails its verification: {findings:?}", queue.name);
        ways.push(Way { name: queue.name, rates: Vec::new(), ours: queue.role == Role::Ours });
    }
    ways.extend([CEILING, LOCKSTEP].map(|name| Way { name, rates: Vec::new(), ours: false }));
    for round in 0..settings.rounds {
        for index in Settings::order(queues.len() + 1, round) {
            if let Some(queue) = queues.get(index) {
                let Some(rate) = (queue.time)(settings, &cell) else {
                    anyhow::bail!("{} lost or doubled a message in a timed run in place", queue.name);
                };
                ways[index].rates.push(rate);
            } else {
                let bare = bare::run(settings, cell.capacity);
                ways[index].rates.push(bare.busy);
                ways[index + 1].rates.push(bare.lockstep);
            }
        }
    }
    let ours = ways.iter().find(|way| way.ours);
    let (ceiling, lockstep) = (&ways[queues.len()], &ways[queues.len() + 1]);
    let over = |other: &Way| Some(median(&ours?.rates)? / median(&other.rates)?);
    let (ratio_of_medians, ratio_to_lockstep) = (over(ceiling), over(lockstep));
    let ratio_by_round = ours.and_then(|ours| {
        let ratios: Vec<f64> =
            ours.rates.iter().zip(&ceiling.rates).map(|(ours, bare)| ours / bare).collect();
        Spread::of(&ratios)
    });
    Ok(InPlaceReport { cell, ways, ratio_of_medians, ratio_to_lockstep, ratio_by_round })
}
