//! The stream of a pump, and what has come of using it.

use std::fmt::Display;
use std::sync::Arc;

use super::PumpError;
use super::control::Control;
use crate::device::{CopyError, DeviceError, Stream};

/// The stream of a pump, and what has come of using it: all that whoever starts transfers needs beside them.
pub(super) struct Link {
    pub(super) stream: Box<dyn Stream>,
    pub(super) control: Arc<Control>,
    /// How often what has failed is tried again.
    pub(super) retries: u32,
    /// Why the pump ends. Nothing is started after that.
    pub(super) error: Option<PumpError>,
}

impl Link {
    /// Whether a transfer can be started now.
    pub(super) fn is_free(&self) -> bool {
        self.error.is_none() && self.stream.in_flight() < self.stream.in_flight_limit()
    }

    /// Ends the pump, unless it ends already.
    pub(super) fn end(&mut self, error: impl Into<PumpError>) {
        self.error.get_or_insert_with(|| error.into());
    }

    /// Ends the pump if the device is lost.
    pub(super) fn look_at(&mut self, result: &Result<(), CopyError>) {
        if let Err(CopyError::Lost { reason }) = result {
            self.end(DeviceError::Lost { reason: reason.clone() });
        }
    }

    /// Counts a transfer that has failed for the so many-th time, and says whether it is tried again.
    pub(super) fn tries_again(&mut self, failures: &mut u32) -> bool {
        self.control.failed_copies.add_as_only_writer(1);
        *failures += 1;
        *failures <= self.retries
    }

    /// Ends the pump since something that it cannot do without has failed too often.
    pub(super) fn end_without(&mut self, what: &'static str, reason: impl Display) {
        self.end(PumpError::QueueFailed { what, reason: reason.to_string() });
    }
}
