//! One batch between the ring and the end of its stay in the device queue.

use std::ops::Range;

use crate::device::{Landing, Launch, Payload, Ticket, Upload};

/// One batch that has been given a place in the device queue. Flights end in the order in which they began.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) device_range: Range<usize>,
    pub(super) messages: usize,
    pub(super) first_position: u64,
    /// How often its copy, in the direction at hand, has failed.
    pub(super) failures: u32,
    pub(super) state: State,
    /// The messages, if they are kept after they have landed until they are delivered.
    pub(super) kept: Option<Payload>,
}

/// Where a flight is.
#[derive(Debug)]
pub(super) enum State {
    /// On its way to the device.
    Uploading(Ticket),
    /// The copy failed and is to be tried again.
    UploadAgain(Box<Upload>),
    /// On the device.
    Landed,
    /// On its way back.
    Fetching(Ticket),
    /// The copy back failed and is to be tried again, into the same memory.
    FetchAgain(Landing),
    /// Back.
    Fetched(Landing),
    /// On its way through a kernel.
    Launching(Ticket),
    /// The launch failed and is to be tried again.
    LaunchAgain(Box<Launch>),
    /// Through the kernel, with the outputs.
    Launched(Launch),
    /// Its messages will not arrive; they are counted.
    GivenUp,
}

impl Flight {
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        matches!(self.state, State::Uploading(own) | State::Fetching(own) | State::Launching(own) if own == ticket)
    }

    /// Whether it is on its way to the device.
    pub(super) fn is_underway(&self) -> bool {
        matches!(self.state, State::Uploading(_) | State::Launching(_))
    }
}
