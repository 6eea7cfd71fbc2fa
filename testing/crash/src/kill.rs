//! Killed after each single instruction.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use crate::operation::Operation;
use crate::path::Path;
use crate::scene::{Fault, Outcome, Scene};

/// What came out of all deaths of one operation.
#[derive(Debug)]
pub struct Deaths {
    operation: Operation,
    points: usize,
    outcomes: BTreeMap<Outcome, usize>,
    /// Each with the number of steps after which the victim was killed.
    pub faults: Vec<(usize, Fault)>,
    time: Duration,
}

/// Kills a victim after each instruction of an operation, the last time when it has returned.
///
/// # Panics
///
/// If the victim does not go as it should.
pub fn kill_everywhere(operation: Operation, victim: &str) -> Deaths {
    let started = Instant::now();
    let path = Path::record(operation, victim).unwrap();
    let (mut points, mut outcomes, mut faults) = (0, BTreeMap::new(), Vec::new());
    for point in path.points() {
        let mut scene = Scene::new(operation);
        let mut tracee = scene.start(victim);
        path.walk(&mut scene, &mut tracee, point).unwrap();
        tracee.kill().unwrap();
        points += 1;
        match scene.judge(point > 0, path.has_ended(point)) {
            Ok(outcome) => *outcomes.entry(outcome).or_default() += 1,
            Err(fault) => faults.push((point, fault)),
        }
    }
    Deaths { operation, points, outcomes, faults, time: started.elapsed() }
}

impl fmt::Display for Deaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, points, outcomes, faults, time } = self;
        write!(f, "{}: killed at {points} points in {time:.1?}: ", operation.name())?;
        for (outcome, count) in outcomes {
            write!(f, "{count} x ({outcome}); ")?;
        }
        write!(f, "{} faults", faults.len())?;
        if let Some((point, fault)) = faults.first() {
            write!(f, ", the first after {point} steps: {fault}")?;
        }
        Ok(())
    }
}
