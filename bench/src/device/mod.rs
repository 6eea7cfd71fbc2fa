//! From host memory to a device: the pump beside the best loop that can be written by hand for the same device.
//!
//! All sides send the same bytes out of the same memory, in batches of the same size, into a queue of the same size. A row
//! is a back end and its rivals; a device that is not here is said to be so, and not judged.

mod bare_copy;
mod check;
mod compare;
mod ours;
mod publisher;
mod report;
mod row;
mod shape;
mod side;
mod source;
mod witness;
mod write_buffer;

pub use bare_copy::{Memcpy, TakeAndCopy};
pub use check::{check, verify};
pub use compare::compare;
pub use ours::{Publishing, Pumped};
pub use report::{Column, DeviceDocument, RowReport, ShapeReport};
pub use shape::{IN_FLIGHT, QUEUE_BATCHES, SOURCE_BYTES, Shape};
pub use side::{BLANK, Place, Run, Side, Until};
pub use source::Source;
pub use write_buffer::{DEPTHS, WriteBuffer};
