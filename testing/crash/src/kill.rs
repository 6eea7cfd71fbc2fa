//! Killed after each single instruction.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use crate::half_made;
use crate::operation::Operation;
use crate::path::Path;
use crate::scene::{Fault, Outcome};
use crate::victim::Victim;

/// What came out of all deaths of one operation.
#[derive(Debug)]
pub struct Deaths {
    operation: Operation,
    /// How many there were.
    pub points: usize,
    /// At how many of them a region that the victim made could be opened by others, and worked.
    pub whole: usize,
    outcomes: BTreeMap<Outcome, usize>,
    /// Each with the number of steps after which the victim was killed.
    pub faults: Vec<(usize, Fault)>,
    time: Duration,
}

/// Where a victim is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// After each instruction of its operation.
    All,
    /// Just before and just after each store to shared memory, and each system call.
    Events,
}

/// Kills a victim at each point of an operation, the last time when it has returned.
///
/// # Panics
///
/// If the victim does not go as it should.
pub fn kill_at(operation: Operation, victim: &Victim, at: Points) -> Deaths {
    let path = Path::record(operation, victim).unwrap();
    match at {
        Points::All => kill(operation, victim, &path, path.points()),
        Points::Events => kill(operation, victim, &path, path.events()),
    }
}

fn kill(operation: Operation, victim: &Victim, path: &Path, at: impl Iterator<Item = usize>) -> Deaths {
    let started = Instant::now();
    let (mut points, mut whole, mut outcomes, mut faults) = (0, 0, BTreeMap::new(), Vec::new());
    for point in at {
        let (scene, tracee) = path.bring(operation, victim, point);
        let makes = operation == Operation::Create;
        let seen = if makes { half_made::is_whole(tracee.pid(), &scene) } else { Ok(false) };
        tracee.kill().unwrap();
        points += 1;
        let judged = seen.and_then(|seen| {
            whole += usize::from(seen);
            scene.judge(point > 0, path.has_ended(point))
        });
        match judged {
            Ok(outcome) => *outcomes.entry(outcome).or_default() += 1,
            Err(fault) => faults.push((point, fault)),
        }
    }
    Deaths { operation, points, whole, outcomes, faults, time: started.elapsed() }
}

impl fmt::Display for Deaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, points, whole, outcomes, faults, time } = self;
        write!(f, "{}: killed at {points} points in {time:.1?}: ", operation.name())?;
        for (outcome, count) in outcomes {
            write!(f, "{count} x ({outcome}); ")?;
        }
        if *whole > 0 {
            write!(f, "its region was whole at {whole}; ")?;
        }
        write!(f, "{} faults", faults.len())?;
        if let Some((point, fault)) = faults.first() {
            write!(f, ", the first after {point} steps: {fault}")?;
        }
        Ok(())
    }
}
