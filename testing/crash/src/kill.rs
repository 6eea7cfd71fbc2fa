//! Killed after each single instruction.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use crate::operation::Operation;
use crate::scene::{Fault, Outcome, Scene};
use crate::trace::{Stop, Tracee};

/// No operation has more instructions than that.
const MOST: u64 = 100_000;

/// What came out of all deaths of one operation.
#[derive(Debug)]
pub struct Deaths {
    operation: Operation,
    /// After how many instructions each.
    points: u64,
    outcomes: BTreeMap<Outcome, u64>,
    /// The first ones, with the number of instructions.
    pub faults: Vec<(u64, Fault)>,
    time: Duration,
}

/// Kills a victim after each instruction of an operation, the last time when it has returned.
///
/// # Panics
///
/// If the operation does not end.
pub fn kill_everywhere(operation: Operation, victim: &str) -> Deaths {
    let started = Instant::now();
    let (mut outcomes, mut faults) = (BTreeMap::new(), Vec::new());
    for count in 0..MOST {
        let mut scene = Scene::new(operation);
        let mut tracee = scene.start(victim);
        let has_ended = walk(&mut scene, &mut tracee, count);
        tracee.kill().unwrap();
        match scene.judge(count > 0, has_ended) {
            Ok(outcome) => *outcomes.entry(outcome).or_default() += 1,
            Err(fault) => faults.push((count, fault)),
        }
        if has_ended {
            return Deaths { operation, points: count + 1, outcomes, faults, time: started.elapsed() };
        }
    }
    panic!("{} has not ended after {MOST} instructions", operation.name());
}

/// Lets the victim execute so many instructions, and says whether its operation has ended by then.
fn walk(scene: &mut Scene, tracee: &mut Tracee, count: u64) -> bool {
    let mut is_to_disturb = scene.is_to_disturb();
    for done in 0..count {
        match tracee.step().unwrap() {
            Stop::Step => {}
            Stop::Mark => return true,
            other => panic!("the victim ended after {done} instructions: {other:?}"),
        }
        is_to_disturb = is_to_disturb && !scene.disturb();
    }
    false
}

impl fmt::Display for Deaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, points, outcomes, faults, time } = self;
        write!(f, "{}: killed at {points} points in {time:.1?}: ", operation.name())?;
        for (outcome, count) in outcomes {
            write!(f, "{count} x ({outcome}); ")?;
        }
        write!(f, "{} faults", faults.len())?;
        if let Some((count, fault)) = faults.first() {
            write!(f, ", the first after {count} instructions: {fault}")?;
        }
        Ok(())
    }
}
