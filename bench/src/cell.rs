//! One cell of the comparison: a size of message, a number of producers, a way to call; every contender in it.

use std::fmt;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::adapter::Role;
use crate::comparison::{Comparison, Entry};
use crate::contender::{Contender, contenders};
use crate::drive::Call;
use crate::latency;
use crate::settings::Settings;
use crate::verify::Findings;

/// What is measured in a cell.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cell {
    /// Size of a message.
    pub message_bytes: usize,
    /// Messages that a queue has room for.
    pub capacity: usize,
    /// Threads that send.
    pub producers: usize,
    /// How they send.
    pub call: Call,
}

impl Cell {
    /// A cell for messages of `N` bytes, with the same room in every queue: 4 MiB of large messages, and as much as
    /// makes sense of small ones.
    pub const fn of<const N: usize>(producers: usize, call: Call) -> Self {
        let capacity = if N > 1024 { 1024 } else { 4096 };
        Self { message_bytes: N, capacity, producers, call }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = match self.call {
            Call::Single => "one message a call",
            Call::Batch => "batches",
        };
        write!(f, "{} B, {} producers, {call}", self.message_bytes, self.producers)
    }
}

/// One contender in one cell.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// The contender.
    pub name: &'static str,
    /// Whether it counts, and for whom.
    pub role: Role,
    /// Messages a second, round by round.
    pub rates: Vec<f64>,
    /// Messages of the timed runs that arrived with two different ends.
    pub torn: u64,
    /// Timed runs in which other messages arrived than were sent.
    pub unbalanced: u64,
    /// What the verifying mode found before.
    pub verified: Findings,
}

/// All contenders in one cell.
#[derive(Clone, Debug, Serialize)]
pub struct CellReport {
    /// What was measured.
    pub cell: Cell,
    /// Nanoseconds for a cache line from core to core and back, round by round. A virtual machine's cores may be moved
    /// nearer together or farther apart at any time, and all figures change with that.
    pub distance_ns: Vec<f64>,
    /// The contenders, in a fixed order.
    pub columns: Vec<Column>,
    /// Ours against the best rival.
    pub comparison: Option<Comparison>,
}

/// Verifies every contender in the cell, then times all of them in interleaved rounds.
///
/// # Errors
///
/// When a contender other than a baseline damages, doubles or loses a message.
pub fn measure<const N: usize>(settings: &Settings, cell: Cell) -> Result<CellReport> {
    let contenders = contenders::<N>();
    let mut columns = Vec::new();
    for contender in &contenders {
        let verified = contender.prove(settings.verified(N, cell.producers), &cell)?;
        let Contender { name, role, .. } = *contender;
        columns.push(Column { name, role, rates: Vec::new(), torn: 0, unbalanced: 0, verified });
    }
    let mut distance_ns = Vec::new();
    for round in 0..settings.rounds {
        distance_ns.push(latency::distance(settings.cores));
        for index in Settings::order(contenders.len(), round) {
            let timing = (contenders[index].time)(settings.timed(cell.capacity), &cell);
            let column = &mut columns[index];
            ensure!(
                timing.balanced || column.role == Role::Baseline,
                "{} lost or doubled a message in a timed run at {cell}",
                column.name
            );
            column.rates.push(timing.rate);
            column.torn += timing.torn;
            column.unbalanced += u64::from(!timing.balanced);
        }
    }
    let entries: Vec<_> =
        columns.iter().map(|Column { name, role, rates, .. }| Entry { name, role: *role, rates }).collect();
    let comparison = Comparison::of(&entries);
    Ok(CellReport { cell, distance_ns, columns, comparison })
}
