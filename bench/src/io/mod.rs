//! Bytes of sockets: received into slots, and sent out of registered buffers, beside ordinary calls.
//!
//! Over the loop-back device, with one connection. Who is measured has the second core to itself; the other end, the pump
//! and what it copies with share the first. The figure that counts is the time that the measured thread spends on a
//! processor for each byte: the rate says more about the other end.

mod compare;
pub(crate) mod cpu;
mod receive;
mod report;
mod send;

pub use compare::compare;
pub use receive::{Layout, Way};
pub use report::{Document, Receive, Row, Send, SendRow};
