//! How a pump is to run.

use std::time::Duration;

use super::PumpError;
use crate::device::{Device, DeviceError};
use crate::memory::Slab;
use crate::region::{Access, Region};

/// How a pump is to run.
///
/// ```
/// use transload::pump::PumpOptions;
///
/// let options = PumpOptions { in_flight: 2, ..PumpOptions::default() };
/// assert_eq!(options.batch_bytes, 256 << 10);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PumpOptions {
    /// Bytes of a full batch; at least one message goes whatever this says.
    pub batch_bytes: usize,
    /// How long a batch waits for more messages, from when the pump first saw its oldest.
    pub batch_delay: Duration,
    /// Transfers to the device at once, at least 1.
    pub in_flight: usize,
    /// How often a failed copy is tried again before its batch is given up.
    pub retries: u32,
    /// Whether the device must reach the ring's memory directly ([`Pinned`](crate::region::Registration::Pinned) or
    /// [`Mapped`](crate::region::Registration::Mapped)): if it cannot, there is no pump.
    pub require_pinned: bool,
}

impl Default for PumpOptions {
    /// 256 KiB, 50 microseconds, 4 in flight, 3 retries.
    ///
    /// At 3.5 microseconds a driver call, 256 KiB is where a bus of 25 GB/s is some three quarters busy; 4 in flight
    /// hide the rest.
    fn default() -> Self {
        Self {
            batch_bytes: 256 << 10,
            batch_delay: Duration::from_micros(50),
            in_flight: 4,
            retries: 3,
            require_pinned: false,
        }
    }
}

impl PumpOptions {
    /// Refuses what no pump can have.
    pub(super) fn check(&self) -> Result<(), PumpError> {
        for (what, number) in [("in_flight", self.in_flight), ("batch_bytes", self.batch_bytes)] {
            if number == 0 {
                return Err(PumpError::ZeroOption { what });
            }
        }
        Ok(())
    }

    /// Registers memory with a device as is asked for.
    pub(super) fn register(
        &self,
        device: &dyn Device,
        slab: &Slab,
        access: Access,
    ) -> Result<Region, DeviceError> {
        let region = if self.require_pinned {
            device.register_pinned(slab, access)
        } else {
            device.register(slab, access)
        };
        Ok(region?)
    }

    /// How many messages a full batch has, in a ring of so many.
    pub(super) fn batch_messages(&self, message_size: usize, slots: usize) -> usize {
        (self.batch_bytes / message_size).clamp(1, slots)
    }
}
