//! A transfer that the driver has.

use std::mem::ManuallyDrop;

use super::commands::Place;
use super::memory::Memory;
use super::staging;
use crate::device::{Kernel, Ticket, Transfer};

/// A transfer that the driver has. Its memory is the driver's until it has ended (I1, I2).
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) ticket: Ticket,
    pub(super) transfer: Transfer,
    /// It has ended when the stream's timeline has this number.
    pub(super) number: u64,
    /// Where its commands are. Nothing if it has none: it only takes its turn.
    pub(super) place: Option<Place>,
    pub(super) through: Through,
}

/// What a transfer uses besides its own memory.
#[derive(Debug, Default)]
pub(super) struct Through {
    /// What the driver reads instead of an upload's own memory.
    pub(super) source: Option<Memory>,
    /// What the driver writes instead of the landing.
    pub(super) landing: Option<Memory>,
    /// Its code stays loaded while it may run.
    pub(super) kernel: Option<Kernel>,
}

impl Through {
    /// Never ends what the driver may still use.
    pub(super) fn leak(&mut self) {
        staging::leak(self.source.take());
        staging::leak(self.landing.take());
        let _stays_loaded = ManuallyDrop::new(self.kernel.take());
    }
}

impl InFlight {
    /// Brings what has come back to its landing, if it came to other memory first.
    pub(super) fn land(&mut self) {
        let Some(base) = self.through.landing.as_ref().and_then(Memory::mapped) else { return };
        let Some((landing, len_bytes)) = self.transfer.arrival() else { return };
        // SAFETY: both are as long (checked before the transfer began, and chosen so). The driver has done with them; the
        // landing is the transfer's alone (I1), and the other memory is the stream's.
        unsafe { std::ptr::copy_nonoverlapping(base.as_ptr(), landing.as_mut_ptr(), len_bytes) };
    }
}
