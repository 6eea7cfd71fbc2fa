//! Runs everything.

use std::time::Duration;

use anyhow::{Context, Result};
use transload::proactor::{Backend, Proactor, ZeroCopy};

use super::receive::{self, Layout, Until, Way};
use super::report::{Document, Receive, Row, Send, SendRow};
use super::send;
use crate::machine::Machine;
use crate::settings::Settings;

/// Bytes of a buffer to send.
const SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

/// Verifies, then measures.
///
/// # Errors
///
/// When a byte is lost or changed, or the kernel refuses what both back ends need.
pub fn compare(settings: &Settings, mut say: impl FnMut(&str)) -> Result<Document> {
    let machine = Machine::detect();
    let backends = backends();
    let mut ways = vec![Way::Copy];
    ways.extend(backends.iter().copied().map(Way::Straight));
    let mut document =
        Document { schema: 1, machine, settings: *settings, receive: Vec::new(), send: Vec::new() };
    for layout in [Layout::Fixed, Layout::Stream] {
        say(&format!("received, {layout:?}"));
        document.receive.push(receive(settings, layout, &ways)?);
    }
    for &backend in &backends {
        for buffer_bytes in SIZES {
            say(&format!("sent, {backend}, {} KiB", buffer_bytes >> 10));
            document.send.push(send(settings, backend, buffer_bytes)?);
        }
    }
    Ok(document)
}

/// Those that work here.
fn backends() -> Vec<Backend> {
    let works = |&backend: &Backend| Proactor::builder().backend(backend).build().is_ok();
    [Backend::Readiness, Backend::Uring].into_iter().filter(works).collect()
}

fn receive(settings: &Settings, layout: Layout, ways: &[Way]) -> Result<Receive> {
    let mut rows: Vec<Row> = ways.iter().map(|way| Row { name: way.name(), ..Row::default() }).collect();
    for &way in ways {
        let checked = Until::Checked(settings.verified_bytes);
        receive::run(settings.cores, way, layout, checked).with_context(|| way.name())?;
    }
    let span = Until::Time(Duration::from_millis(settings.run_ms));
    for round in 0..settings.rounds {
        // Each round begins with another.
        for index in (0..ways.len()).map(|index| (index + round) % ways.len()) {
            let spent = receive::run(settings.cores, ways[index], layout, span)?;
            rows[index].nanos_per_kib.push(spent.nanos_per_kib());
            rows[index].megabytes_per_second.push(spent.megabytes_per_second());
        }
    }
    Ok(Receive { layout, rows })
}

fn send(settings: &Settings, backend: Backend, buffer_bytes: usize) -> Result<Send> {
    let span = Duration::from_millis(settings.run_ms);
    let run = |zero_copy, check| send::run(settings.cores, backend, zero_copy, buffer_bytes, span, check);
    let row =
        |name: &str| SendRow { row: Row { name: name.to_owned(), ..Row::default() }, ..SendRow::default() };
    let mut rows = [row("off"), row("on")];
    let ways = [ZeroCopy::Off, ZeroCopy::On];
    for way in ways {
        run(way, true)?;
    }
    for round in 0..settings.rounds {
        for index in (0..ways.len()).map(|index| (index + round) % ways.len()) {
            let sent = run(ways[index], false)?;
            let SendRow { row, zero_copied, copied } = &mut rows[index];
            row.nanos_per_kib.push(sent.spent.nanos_per_kib());
            row.megabytes_per_second.push(sent.spent.megabytes_per_second());
            *zero_copied += sent.zero_copied;
            *copied += sent.copied;
        }
    }
    let [off, on] = rows;
    Ok(Send { backend: backend.name(), buffer_bytes, off, on })
}
