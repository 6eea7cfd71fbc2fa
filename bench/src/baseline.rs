//! How often the early-claim ring goes wrong, in the shape in which it does so most: a small ring, the consumer close
//! behind the producers.

use serde::Serialize;

use crate::adapters::EarlyClaim;
use crate::cell::Cell;
use crate::contender::Contender;
use crate::drive::Call;
use crate::settings::Settings;
use crate::verify::Findings;

const MESSAGE_BYTES: usize = 256;
const CAPACITY: usize = 256;
/// Messages in all for each producer, in a full run.
const MESSAGES: u64 = 3_000_000;

/// What was found with so many producers.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Harm {
    /// What was run.
    pub cell: Cell,
    /// What went wrong.
    pub findings: Findings,
}

/// Runs the early-claim ring in the verifying mode with one and two producers.
pub fn measure(settings: &Settings) -> Vec<Harm> {
    let contender = Contender::of::<EarlyClaim, MESSAGE_BYTES>();
    let scale = if settings.rounds < crate::settings::ROUNDS_TO_JUDGE { 10 } else { 1 };
    [1, 2]
        .map(|producers| {
            let cell =
                Cell { message_bytes: MESSAGE_BYTES, capacity: CAPACITY, producers, call: Call::Single };
            let plan = settings.counted(MESSAGES * producers as u64 / scale, producers);
            Harm { cell, findings: (contender.verify)(plan, &cell) }
        })
        .to_vec()
}
