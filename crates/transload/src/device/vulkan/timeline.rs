//! The numbers by which a stream's work is followed: a timeline semaphore.

use std::sync::Arc;
use std::time::Duration;

use ash::vk;

use super::codes;
use super::context::Context;
use crate::device::DeviceError;

/// A semaphore that the device raises to the number of each piece of work when that, and all before it, has ended.
#[derive(Debug)]
pub(super) struct Timeline {
    semaphore: vk::Semaphore,
    /// The number of the last work that was submitted.
    last: u64,
    /// The highest that was seen.
    seen: u64,
    is_left: bool,
    context: Arc<Context>,
}

impl Timeline {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, DeviceError> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let wanted = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is there and has the feature; the structures are there during the call.
        let semaphore = unsafe { context.device.create_semaphore(&wanted, None) };
        let semaphore = semaphore.map_err(|code| codes::failed("vkCreateSemaphore", code))?;
        Ok(Self { semaphore, last: 0, seen: 0, is_left: false, context: context.clone() })
    }

    /// The semaphore, which is there while `self` is.
    pub(super) fn raw(&self) -> vk::Semaphore {
        self.semaphore
    }

    /// The number of the last work that was submitted.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Notes that work with the next number was submitted.
    pub(super) fn advance(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Whether the work of this number has ended.
    pub(super) fn has_reached(&mut self, number: u64) -> Result<bool, vk::Result> {
        if self.seen < number {
            // SAFETY: the semaphore is there, and a timeline.
            let seen = unsafe { self.context.device.get_semaphore_counter_value(self.semaphore) }?;
            // Some drivers raise all semaphores to the end when the device is lost.
            self.seen = if seen <= self.last { Ok(seen) } else { Err(vk::Result::ERROR_DEVICE_LOST) }?;
        }
        Ok(self.seen >= number)
    }

    /// Waits until the work of this number has ended, for at most so long; what comes of it is asked afterwards.
    pub(super) fn wait(&self, number: u64, timeout: Duration) {
        let (semaphores, numbers) = ([self.semaphore], [number]);
        let wanted = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&numbers);
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: as above; the structures are there during the call.
        if let Err(code) = unsafe { self.context.device.wait_semaphores(&wanted, timeout) } {
            tracing::trace!("vkWaitSemaphores answered {}", codes::name(code));
        }
    }

    /// Leaves it to the driver for ever.
    pub(super) fn leak(&mut self) {
        self.is_left = true;
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        if !self.is_left && self.context.is_here() {
            // SAFETY: ours, and no work that raises it is left (I2).
            unsafe { self.context.device.destroy_semaphore(self.semaphore, None) };
        }
    }
}
