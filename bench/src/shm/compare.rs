//! The comparison, from start to end.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::alone::Alone;
use super::drive::{Outcome, Until};
use super::end::{LARGE, Run, SMALL, Task};
use super::report::{Row, ShmDocument, Table};
use super::way::Way;
use crate::machine::Machine;
use crate::pin::pin_to;
use crate::settings::Settings;

/// Verifies, then measures; tells `say` what comes next.
///
/// # Errors
///
/// When a message is lost, changed or out of order: no figure of that run is worth anything.
pub fn compare(settings: &Settings, say: impl Fn(&str)) -> Result<ShmDocument> {
    let machine = Machine::detect();
    let trips = measure(settings, &say, Task::Trips, SMALL, &Way::TRIPS)?;
    let flows = [SMALL, LARGE]
        .into_iter()
        .map(|words| measure(settings, &say, Task::Flow, words, &Way::FLOWS))
        .collect::<Result<Vec<_>>>()?;
    say("in one process");
    let alone = alone(settings)?;
    Ok(ShmDocument::new(machine, *settings, trips, flows, alone))
}

/// All ways, in interleaved rounds.
fn measure(
    settings: &Settings,
    say: &impl Fn(&str),
    task: Task,
    words: usize,
    ways: &[Way],
) -> Result<Table> {
    let message_bytes = words * 8;
    let what = if task == Task::Trips { "round trips" } else { "one way" };
    let run = |index: usize, is_hashed, until| {
        let way = ways[index];
        pinned(settings, Run { way, task, words, is_hashed }, until)
            .with_context(|| format!("{}, {what} of {message_bytes} B", way.name()))
    };
    say(&format!("{what}, {message_bytes} B, each bit checked"));
    let checked = Until::Messages(settings.verified_bytes / 8 / message_bytes as u64);
    for index in 0..ways.len() {
        run(index, true, checked)?;
    }
    say(&format!("{what}, {message_bytes} B"));
    let mut rows: Vec<_> = ways.iter().map(|&way| Row::new(way.name().to_owned(), way.role())).collect();
    let span = Until::Time(Duration::from_millis(settings.run_ms));
    for round in 0..settings.rounds {
        for index in Settings::order(ways.len(), round) {
            rows[index].nanoseconds.push(run(index, false, span)?.nanoseconds());
        }
    }
    Ok(Table { message_bytes, rows })
}

fn alone(settings: &Settings) -> Result<Table> {
    let mut rows: Vec<_> = Alone::ALL.iter().map(|operation| operation.row()).collect();
    let span = Duration::from_millis(settings.run_ms);
    for round in 0..settings.rounds {
        for index in Settings::order(rows.len(), round) {
            let outcome = on_core(settings.cores.producer(0), || Alone::ALL[index].run(span))?;
            rows[index].nanoseconds.push(outcome.nanoseconds());
        }
    }
    Ok(Table { message_bytes: SMALL * 8, rows })
}

/// Runs on the first core, with the peer on the second.
fn pinned(settings: &Settings, run: Run, until: Until) -> Result<Outcome> {
    on_core(settings.cores.producer(0), || run.near(settings.cores.consumer(), until))
}

fn on_core(core: usize, run: impl FnOnce() -> Result<Outcome> + Send) -> Result<Outcome> {
    thread::scope(|scope| {
        let run = scope.spawn(|| {
            pin_to(core);
            run()
        });
        run.join().expect("no panic")
    })
}
