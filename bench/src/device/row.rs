//! The rows of the comparison: a back end, and who it is set beside.

use std::sync::Arc;

use anyhow::Result;
use transload::device::{self, Device, Kind, Selector};

use super::bare_copy::{Memcpy, TakeAndCopy};
use super::ours::{Publishing, Pumped};
use super::shape::Shape;
use super::side::Side;
use super::source::Source;
use super::write_buffer::{DEPTHS, WriteBuffer};

/// The rivals of a row in one shape.
type Rivals = fn(&Arena) -> Result<Vec<Box<dyn Side>>>;

/// A back end of the pump, and what is to be reached there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The device, as `--to` names it.
    pub(super) to: &'static str,
    /// The part of the best rival's bytes a second that the pump is to reach.
    pub(super) goal: f64,
    /// For the table of thresholds.
    pub(super) target: &'static str,
    rivals: Rivals,
}

/// What all sides of one shape share.
#[derive(Debug)]
pub(super) struct Arena {
    device: Arc<dyn Device>,
    shape: Shape,
    plain: Source,
    of_driver: Source,
}

/// All rows, in the order of the report.
pub(super) const ROWS: [Row; 2] = [
    Row {
        to: "opencl",
        goal: 0.95,
        target: "pump to opencl, to the best loop of writes, lowest shape",
        rivals: write_buffers,
    },
    Row {
        to: "host",
        goal: 0.9,
        target: "pump to host, to take and memcpy, lowest shape",
        rivals: take_and_copy,
    },
];

impl Row {
    /// The device, or the reason why there is none here.
    pub(super) fn open(&self) -> Result<Arc<dyn Device>> {
        let device = device::open(&self.to.parse::<Selector>()?)?;
        Ok(device.into())
    }

    /// The pump, twice, the ceiling, and the rivals.
    pub(super) fn sides(&self, device: &Arc<dyn Device>, shape: Shape) -> Result<Vec<Box<dyn Side>>> {
        let arena = Arena {
            device: device.clone(),
            shape,
            plain: Source::plain(&shape)?,
            of_driver: Source::of_driver(&**device, &shape)?,
        };
        // As the command chooses it.
        let is_near = matches!(device.info().kind, Kind::Host | Kind::Cpu);
        let source = if is_near { &arena.plain } else { &arena.of_driver };
        let pump = |publishing| Pumped::new(device.clone(), source.clone(), shape, publishing);
        let mut sides: Vec<Box<dyn Side>> = vec![
            Box::new(pump(Publishing::Ready)),
            Box::new(pump(Publishing::Thread)),
            Box::new(Memcpy::new(source.clone(), shape)),
        ];
        sides.extend((self.rivals)(&arena)?);
        Ok(sides)
    }
}

fn write_buffers(arena: &Arena) -> Result<Vec<Box<dyn Side>>> {
    let Arena { device, shape, plain, of_driver } = arena;
    let mut rivals: Vec<Box<dyn Side>> = Vec::new();
    for source in [plain, of_driver] {
        for depth in DEPTHS {
            rivals.push(Box::new(WriteBuffer::new(device.clone(), source.clone(), *shape, depth)?));
        }
    }
    Ok(rivals)
}

#[expect(clippy::unnecessary_wraps, reason = "the rivals of other rows can be missing")]
fn take_and_copy(arena: &Arena) -> Result<Vec<Box<dyn Side>>> {
    Ok(vec![Box::new(TakeAndCopy::new(arena.plain.clone(), arena.shape))])
}
