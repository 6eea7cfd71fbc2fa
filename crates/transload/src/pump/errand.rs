//! What a pump does on the device for a queue's sake, again and again.

use std::ops::Range;

use super::link::Link;
use crate::device::{
    CopyError, DeviceError, Dispatch, Download, Fill, Kernel, Landing, Refused, Ticket, Transfer,
};

/// One thing that is done over and over, once at a time. When it has failed it can be started anew, with what is right
/// then; when it has failed too often in a row, the pump ends.
#[derive(Debug)]
pub(super) struct Errand {
    what: &'static str,
    underway: Option<Ticket>,
    failures: u32,
}

impl Errand {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, underway: None, failures: 0 }
    }

    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.underway == Some(ticket)
    }

    pub(super) fn is_underway(&self) -> bool {
        self.underway.is_some()
    }

    /// Whether it can be started.
    pub(super) fn is_free(&self, link: &Link) -> bool {
        self.underway.is_none() && link.is_free()
    }

    pub(super) fn fill(&mut self, link: &mut Link, fill: Fill) {
        let started = link.stream.fill(fill).map_err(|refused| refused.error);
        self.started(link, started);
    }

    pub(super) fn dispatch(&mut self, link: &mut Link, kernel: &Kernel, dispatch: Dispatch) {
        let started = link.stream.dispatch(kernel, dispatch).map_err(|refused| refused.error);
        self.started(link, started);
    }

    fn started(&mut self, link: &mut Link, started: Result<Ticket, DeviceError>) {
        match started {
            Ok(ticket) => self.underway = Some(ticket),
            // What a driver refuses once may pass later; anything else does not.
            Err(error @ DeviceError::Driver { .. }) => self.failed(link, &error),
            Err(error) => link.end(error),
        }
    }

    /// It has ended: says whether with success.
    pub(super) fn ended(&mut self, link: &mut Link, result: &Result<(), CopyError>) -> bool {
        self.underway = None;
        match result {
            Ok(()) => self.failures = 0,
            Err(error) => self.failed(link, error),
        }
        result.is_ok()
    }

    fn failed(&mut self, link: &mut Link, reason: &dyn std::fmt::Display) {
        if !link.tries_again(&mut self.failures) {
            link.end_without(self.what, reason);
        }
    }
}

/// Reads a few words of the device's memory when it is wanted.
#[derive(Debug)]
pub(super) struct Look {
    errand: Errand,
    range: Range<usize>,
    /// Here unless it is under way, or lost with the device.
    landing: Option<Landing>,
    wanted: bool,
}

impl Look {
    pub(super) fn new(what: &'static str, landing: Landing, range: Range<usize>) -> Self {
        Self { errand: Errand::new(what), range, landing: Some(landing), wanted: false }
    }

    /// Wants what stands there from now on: one that is under way may be too early.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// As [`want`](Look::want), of another range.
    pub(super) fn want_range(&mut self, range: Range<usize>) {
        self.range = range;
        self.wanted = true;
    }

    /// Whether it is wanted and not yet there.
    pub(super) fn is_pending(&self) -> bool {
        self.wanted || self.errand.is_underway()
    }

    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.errand.has(ticket)
    }

    /// Starts it if it is wanted.
    pub(super) fn start(&mut self, link: &mut Link) {
        if !self.wanted || !self.errand.is_free(link) {
            return;
        }
        let Some(landing) = self.landing.take() else { return };
        self.wanted = false;
        let started = link.stream.fetch(Download::new(self.range.clone(), landing));
        let started = started.map_err(|Refused { transfer, error }| {
            self.landing = Some(transfer.into_landing());
            self.wanted = true;
            error
        });
        self.errand.started(link, started);
    }

    /// It has come back: says whether the words are there.
    pub(super) fn ended(
        &mut self,
        link: &mut Link,
        transfer: Transfer,
        result: &Result<(), CopyError>,
    ) -> bool {
        if let Transfer::Download(download) = transfer {
            self.landing = Some(download.into_landing());
        }
        let is_there = self.errand.ended(link, result);
        self.wanted |= !is_there;
        is_there
    }

    /// The word that stood at an offset of the device's memory, which must be in the range.
    pub(super) fn word(&self, at: usize) -> u32 {
        let bytes = self.landing.as_ref().map_or(&[][..], Landing::as_slice);
        let word = bytes.get(at - self.range.start..).and_then(<[u8]>::first_chunk);
        word.map_or(0, |word| u32::from_le_bytes(*word))
    }
}
