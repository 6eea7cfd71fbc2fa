//! A gate in a queue: work that waits for a number of a timeline semaphore, which the test gives.

use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;
use transload::device::Stream;
use transload::device::vulkan::{VulkanDevice, VulkanStream};

use crate::device::Hold;

/// A gate that holds what is put into the queue of a stream behind it.
#[derive(Debug)]
pub struct TimelineGate {
    device: VulkanDevice,
    queue: vk::Queue,
    lock: Arc<Mutex<()>>,
    semaphore: vk::Semaphore,
    /// The number that the last gate in the queue waits for.
    closed: u64,
    opened: u64,
}

impl TimelineGate {
    /// An open gate before what a stream submits from now on.
    ///
    /// # Panics
    ///
    /// If the stream is none of Vulkan's, or the driver refuses.
    pub fn new(device: &VulkanDevice, stream: &dyn Stream) -> Self {
        let stream: &VulkanStream = stream.as_any().downcast_ref().unwrap();
        let (queue, lock) = (stream.queue(), stream.queue_lock().clone());
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let wanted = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is there and has the feature.
        let semaphore = unsafe { device.device().create_semaphore(&wanted, None) }.unwrap();
        Self { device: device.clone(), queue, lock, semaphore, closed: 0, opened: 0 }
    }
}

impl Hold for TimelineGate {
    fn close(&mut self) {
        self.open();
        self.closed += 1;
        let (semaphores, numbers) = ([self.semaphore], [self.closed]);
        let stages = [vk::PipelineStageFlags::ALL_COMMANDS];
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&numbers);
        let work = vk::SubmitInfo::default()
            .wait_semaphores(&semaphores)
            .wait_dst_stage_mask(&stages)
            .push_next(&mut timeline);
        let _alone = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the queue is there, and the lock held.
        unsafe { self.device.device().queue_submit(self.queue, &[work], vk::Fence::null()) }.unwrap();
    }

    fn open(&mut self) {
        if self.opened < self.closed {
            self.opened = self.closed;
            let wanted = vk::SemaphoreSignalInfo::default().semaphore(self.semaphore).value(self.closed);
            // SAFETY: the semaphore is there, and has a lower number.
            unsafe { self.device.device().signal_semaphore(&wanted) }.unwrap();
        }
    }
}

impl Drop for TimelineGate {
    fn drop(&mut self) {
        self.open();
        let _alone = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the queue is there, and the lock held. All that was behind the gate can end.
        unsafe { self.device.device().queue_wait_idle(self.queue) }.unwrap();
        // SAFETY: ours, and nothing waits for it any more.
        unsafe { self.device.device().destroy_semaphore(self.semaphore, None) };
    }
}
