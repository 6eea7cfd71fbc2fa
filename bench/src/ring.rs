//! The comparison of the ring, from start to end.

use anyhow::Result;

use crate::cell::{self, Cell, CellReport};
use crate::drive::Call;
use crate::machine::Machine;
use crate::report::{Document, Section, targets};
use crate::settings::Settings;
use crate::{baseline, in_place, latency};

const PRODUCERS: [usize; 3] = [1, 2, 4];

/// Measures everything; tells `progress` what comes next.
///
/// # Errors
///
/// When a queue fails its verification: no figure of that run is worth anything.
pub fn compare(settings: Settings, progress: impl Fn(&str)) -> Result<Document> {
    let machine = Machine::detect();
    let mut cells = Vec::new();
    for producers in PRODUCERS {
        progress(&format!("one message a call, {producers} producers: 64 B, 256 B, 4 KiB"));
        cells.push(measure::<64>(&settings, producers, Call::Single)?);
        cells.push(measure::<256>(&settings, producers, Call::Single)?);
        cells.push(measure::<4096>(&settings, producers, Call::Single)?);
    }
    cells.sort_by_key(|report| report.cell.message_bytes);
    let single = Section::of(cells);

    let mut cells = Vec::new();
    for producers in PRODUCERS {
        progress(&format!("batches, {producers} producers: 64 B"));
        cells.push(measure::<64>(&settings, producers, Call::Batch)?);
    }
    let batch = Section::of(cells);

    progress("in place: 4 KiB");
    let in_place = in_place::measure(&settings)?;
    progress("in and out in one thread");
    let latency = latency::measure(&settings);
    progress("what early-claim delivers");
    let early_claim = baseline::measure(&settings);

    let targets = targets(&single, &batch, &in_place, &latency);
    Ok(Document { schema: 1, machine, settings, single, batch, in_place, latency, early_claim, targets })
}

fn measure<const N: usize>(settings: &Settings, producers: usize, call: Call) -> Result<CellReport> {
    cell::measure::<N>(settings, Cell::of::<N>(producers, call))
}
