//! Stopped after an instruction, while another process acts; then killed, or let go on.

use std::fmt;
use std::time::{Duration, Instant};

use crate::interplay::Interplay;
use crate::operation::Operation;
use crate::path::Path;
use crate::scene::Fault;
use crate::trace::{Stop, Tracee};
use crate::victim::Victim;

/// What becomes of a victim that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It dies.
    Killed,
    /// It goes on, and must come to a good end.
    GoesOn,
}

/// What came out of all stops in one operation.
#[derive(Debug)]
pub struct Stops {
    operation: Operation,
    /// How many ended by a kill, and how many went on.
    runs: [usize; 2],
    /// Each with the number of steps, what the other did, and what became of the victim.
    pub faults: Vec<(usize, Interplay, Fate, Fault)>,
    time: Duration,
}

/// Stops a victim after each instruction of an operation (or after one of so many), lets the survivor do whole operations
/// meanwhile, and goes on. What the survivor does, and what becomes of the victim, takes turns; `all` takes all of them at
/// each instruction.
///
/// # Panics
///
/// If the victim does not go as it should.
pub fn stop_everywhere(
    operation: Operation,
    victim: &Victim,
    plays: &[Interplay],
    every: usize,
    all: bool,
) -> Stops {
    let started = Instant::now();
    let path = Path::record(operation, victim).unwrap();
    let turns: Vec<(Interplay, Fate)> =
        plays.iter().flat_map(|&play| [(play, Fate::Killed), (play, Fate::GoesOn)]).collect();
    let mut stops = Stops { operation, runs: [0; 2], faults: Vec::new(), time: Duration::ZERO };
    for (nth, point) in path.points().step_by(every).enumerate() {
        let turns = if all { &turns[..] } else { &turns[nth % turns.len()..][..1] };
        for &(play, fate) in turns {
            stops.runs[fate as usize] += 1;
            if let Err(fault) = stop(operation, victim, &path, point, play, fate) {
                stops.faults.push((point, play, fate, fault));
            }
        }
    }
    stops.time = started.elapsed();
    stops
}

fn stop(
    operation: Operation,
    victim: &Victim,
    path: &Path,
    point: usize,
    play: Interplay,
    fate: Fate,
) -> Result<(), Fault> {
    let (mut scene, mut tracee) = path.bring(operation, victim, point);
    play.act(&mut scene)?;
    match fate {
        Fate::Killed => {
            tracee.kill().unwrap();
            scene.judge(point > 0, path.has_ended(point)).map(drop)
        }
        Fate::GoesOn => {
            let code = go_on(&mut tracee, path.has_ended(point))?;
            drop(tracee);
            scene.judge_alive(code, play)
        }
    }
}

/// Lets it come to its end; gives its exit code.
fn go_on(tracee: &mut Tracee, has_ended: bool) -> Result<i32, Fault> {
    let mut stop = tracee.run_on().unwrap();
    if !has_ended && stop == Stop::Mark {
        stop = tracee.run_on().unwrap();
    }
    match stop {
        Stop::Exit(code) => Ok(code),
        other => Err(format!("it does not come to its end: {other:?}")),
    }
}

impl fmt::Display for Stops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, runs: [killed, went_on], faults, time } = self;
        write!(f, "{}: stopped at {} points in {time:.1?}, ", operation.name(), killed + went_on)?;
        write!(f, "{killed} killed then, {went_on} went on; {} faults", faults.len())?;
        if let Some((point, play, fate, fault)) = faults.first() {
            write!(f, ", the first after {point} steps ({play:?}, {fate:?}): {fault}")?;
        }
        Ok(())
    }
}
