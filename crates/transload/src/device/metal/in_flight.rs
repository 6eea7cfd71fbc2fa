//! A transfer that the device has.

use super::commands::Commands;
use super::rules;
use super::staging::Staging;
use crate::device::{Ticket, Transfer};

/// A transfer that the device has. Its memory is the device's until its commands have ended (I1, I2).
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) ticket: Ticket,
    pub(super) transfer: Transfer,
    pub(super) commands: Commands,
    /// What the device reads or writes instead of the transfer's own memory.
    pub(super) staging: Option<Staging>,
}

impl InFlight {
    /// Brings what has come into memory of the driver to where it belongs. To be called when the commands have succeeded.
    pub(super) fn bring(&mut self) {
        let (Transfer::Download(download), Some(staging)) = (&mut self.transfer, &self.staging) else {
            return;
        };
        let range = download.device_range();
        let before = range.start - rules::words_around(&range).start;
        let (source, target) = (staging.base().wrapping_add(before), download.landing_mut().as_mut_ptr());
        // SAFETY: the device has written the words around the range to the beginning of the staging memory, and is done. The
        // landing is as long as the range (checked by `Download::check`), has one owner (I1), which hands it to nobody before
        // this has been done (I3), and is elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(source, target, range.len()) };
    }
}
