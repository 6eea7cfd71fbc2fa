//! The comparison, from start to end.

use std::time::Duration;

use anyhow::{Context, Result};

use super::check::{check, verify};
use super::report::{Column, DeviceDocument, RowReport, ShapeReport};
use super::row::{ROWS, Row};
use super::shape::Shape;
use super::side::{Side, Until};
use crate::machine::Machine;
use crate::settings::Settings;

/// Verifies all sides, then measures them; tells `say` what comes next.
///
/// A row whose device is not here says so, and is not judged.
///
/// # Errors
///
/// When a batch is missing on a device, or a device that is here fails: no figure of that run is worth anything.
pub fn compare(settings: &Settings, say: impl Fn(&str)) -> Result<DeviceDocument> {
    let machine = Machine::detect();
    let rows = ROWS.iter().map(|row| measure_row(settings, &say, row)).collect::<Result<_>>()?;
    Ok(DeviceDocument::new(machine, *settings, rows))
}

fn measure_row(settings: &Settings, say: &impl Fn(&str), row: &Row) -> Result<RowReport> {
    let mut report = RowReport::new(row);
    let device = match row.open() {
        Ok(device) => device,
        Err(reason) => {
            say(&format!("{}: not here", row.to));
            report.not_here = Some(format!("{reason:#}"));
            return Ok(report);
        }
    };
    report.device = Some(device.info().name.clone());
    for shape in Shape::ALL {
        say(&format!("{}, {shape}", row.to));
        let mut sides = row.sides(&device, shape).with_context(|| format!("{}, {shape}", row.to))?;
        report.shapes.push(measure(settings, shape, &mut sides)?);
    }
    Ok(report)
}

/// All sides of a shape, in interleaved rounds.
fn measure(settings: &Settings, shape: Shape, sides: &mut [Box<dyn Side>]) -> Result<ShapeReport> {
    let mut columns = Vec::new();
    for side in &mut *sides {
        verify(&mut **side, &shape, settings.verified_bytes)?;
        columns.push(Column { name: side.name().to_owned(), role: side.role(), rates: Vec::new() });
    }
    let span = Until::Time(Duration::from_millis(settings.run_ms));
    for round in 0..settings.rounds {
        for index in Settings::order(sides.len(), round) {
            let run = sides[index].run(span)?;
            check(&run, &shape).with_context(|| format!("{}, timed, {shape}", columns[index].name))?;
            columns[index].rates.push(run.rate(&shape));
        }
    }
    Ok(ShapeReport::new(shape, columns))
}
