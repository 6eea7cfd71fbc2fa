//! The stream: a queue of the device's, and what of it is in flight.

use std::any::Any;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ash::vk;

use super::codes;
use super::commands::{Places, Recording};
use super::context::{Context, Queue};
use super::copies::Parts;
use super::in_flight::{InFlight, Through};
use super::memory::Memory;
use super::staging::Staging;
use super::timeline::Timeline;
use crate::device::pause::{DRAIN, poll_until};
use crate::device::{
    Completion, CopyError, DeviceError, Dispatch, Download, Fill, Kernel, Launch, Refused, Route, Stream,
    StreamOptions, Ticket, Transfer, Upload,
};

/// A stream of a Vulkan device.
///
/// Native handles that it gives are there while it is.
///
/// When it is dropped it waits, two seconds at most, for what is in flight; what then has not provably ended is
/// quarantined.
#[derive(Debug)]
pub struct VulkanStream {
    in_flight: VecDeque<InFlight>,
    limit: usize,
    next: Ticket,
    queue_bytes: usize,
    /// What the driver said when it could not say how a transfer ended.
    lost: Option<String>,
    places: Places,
    timeline: Timeline,
    pub(super) staging: Staging,
    /// Where kernels leave their outputs: made at first use. One is enough: the outputs of a launch are fetched before the
    /// next one begins.
    pub(super) output: Option<Memory>,
    /// Shorter ones, which a launch in flight may still use.
    pub(super) outgrown: Vec<Memory>,
    pub(super) parts: Parts,
    pub(super) memory: Memory,
    /// How kernels are to read batches while that is measured.
    pub(super) forced: Option<Route>,
    queue: Queue,
    pub(super) context: Arc<Context>,
}

impl VulkanStream {
    /// With memory of the device's for the device queue.
    pub(super) fn open(context: &Arc<Context>, options: &StreamOptions) -> Result<Self, DeviceError> {
        Self::new(context, Memory::of_device(context, options.queue_bytes)?, options)
    }

    /// Over memory for the device queue.
    pub(super) fn new(
        context: &Arc<Context>,
        memory: Memory,
        options: &StreamOptions,
    ) -> Result<Self, DeviceError> {
        let limit = options.in_flight;
        Ok(Self {
            // Never longer than this, so that no transfer allocates.
            in_flight: VecDeque::with_capacity(limit),
            limit,
            next: 0,
            queue_bytes: options.queue_bytes,
            lost: None,
            places: Places::new(context, limit)?,
            timeline: Timeline::new(context)?,
            staging: Staging::default(),
            output: None,
            outgrown: Vec::new(),
            parts: Parts::default(),
            memory,
            forced: None,
            queue: context.queue(),
            context: context.clone(),
        })
    }

    /// The queue that transfers are in. Other streams may have the same.
    pub fn queue(&self) -> vk::Queue {
        self.queue.raw
    }

    /// To be held while work is put into [`queue`](VulkanStream::queue).
    pub fn queue_lock(&self) -> &Arc<Mutex<()>> {
        &self.queue.lock
    }

    /// The buffer that is the device queue. Batches are where their [`device_range`](Upload::device_range) says.
    ///
    /// Kernels of yours may read a range from the end of its upload until a later upload to the same range is submitted:
    /// that order is the caller's to keep, by not submitting before the kernel has ended, or by running kernels in
    /// [`queue`](VulkanStream::queue): there, each transfer waits for what was submitted before it.
    pub fn queue_buffer(&self) -> vk::Buffer {
        self.memory.raw()
    }

    /// A timeline semaphore, and its [numbers](VulkanStream::number), for work of yours that is to begin after a transfer.
    pub fn timeline(&self) -> vk::Semaphore {
        self.timeline.raw()
    }

    /// The number that the [`timeline`](VulkanStream::timeline) has when a transfer that is in flight has ended. `None` if it
    /// was handed back by `poll` already.
    pub fn number(&self, ticket: Ticket) -> Option<u64> {
        self.in_flight.iter().find(|transfer| transfer.ticket == ticket).map(|transfer| transfer.number)
    }

    /// How many transfers went through memory of the stream, because the device does not reach their own.
    pub fn staged_transfers(&self) -> u64 {
        self.staging.used()
    }

    pub(super) fn check_alive(&self) -> Result<(), DeviceError> {
        self.context.check_here()?;
        match &self.lost {
            None => Ok(()),
            Some(reason) => Err(DeviceError::Lost { reason: reason.clone() }),
        }
    }

    /// Records commands, and submits them. If that is refused, nothing of it runs. They are given the set that names a
    /// kernel's buffers.
    pub(super) fn submit_commands(
        &mut self,
        record: impl FnOnce(&mut Self, &Recording<'_>, vk::DescriptorSet) -> Result<(), DeviceError>,
    ) -> Result<Submitted, DeviceError> {
        let context = self.context.clone();
        let place = self.places.take().ok_or(DeviceError::Busy { limit: self.limit })?;
        let recorded = Recording::begin(&context, place).and_then(|recording| {
            record(self, &recording, place.buffers)?;
            recording.end()
        });
        let submitted = recorded.and_then(|()| {
            let (commands, semaphores) = ([place.commands], [self.timeline.raw()]);
            let numbers = [self.timeline.last() + 1];
            let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&numbers);
            let work = vk::SubmitInfo::default()
                .command_buffers(&commands)
                .signal_semaphores(&semaphores)
                .push_next(&mut timeline);
            // SAFETY: the commands were recorded, what they name stays with the transfer until they have ended (I2), and the
            // number is higher than all before.
            match unsafe { self.queue.submit(&context.device, &work) } {
                // Nobody knows whether the device has it: the next poll says so, and quarantines the transfer.
                Err(code @ vk::Result::ERROR_DEVICE_LOST) => {
                    self.lost.get_or_insert_with(|| format!("vkQueueSubmit answered {}", codes::name(code)));
                    Ok(())
                }
                answer => answer.map_err(|code| codes::failed("vkQueueSubmit", code)),
            }
        });
        match submitted {
            Ok(()) => Ok(Submitted { number: self.timeline.advance(), place: Some(place) }),
            Err(error) => {
                self.places.give_up(place);
                Err(error)
            }
        }
    }

    /// What a transfer is given that has nothing to do but to take its turn.
    pub(super) fn nothing_submitted(&self) -> Submitted {
        Submitted { number: self.timeline.last(), place: None }
    }

    /// Takes a transfer over that the driver has.
    pub(super) fn take_over(
        &mut self,
        transfer: impl Into<Transfer>,
        Submitted { number, place }: Submitted,
        through: Through,
    ) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        self.in_flight.push_back(InFlight { ticket, transfer: transfer.into(), number, place, through });
        ticket
    }

    /// Hands back a transfer that has ended.
    fn complete(&mut self, mut transfer: InFlight) -> Completion {
        transfer.land();
        self.places.give_back(transfer.place);
        self.staging.give_back(transfer.through.source);
        self.staging.give_back(transfer.through.landing);
        Completion { ticket: transfer.ticket, transfer: transfer.transfer, result: Ok(()) }
    }

    /// Hands back a transfer whose end nobody knows.
    fn lose(&mut self, mut transfer: InFlight, reason: String) -> Completion {
        transfer.through.leak();
        self.lost.get_or_insert_with(|| reason.clone());
        Completion {
            ticket: transfer.ticket,
            transfer: transfer.transfer.quarantine(),
            result: Err(CopyError::Lost { reason }),
        }
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Option<Completion> {
        let completion = self.poll();
        if completion.is_some() {
            return completion;
        }
        if !self.context.is_here() {
            return None;
        }
        let left =
            deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        self.timeline.wait(self.in_flight.front()?.number, left);
        // The wait may have been refused.
        poll_until(self, deadline, |_| true)
    }
}

/// Commands that the driver has.
#[derive(Debug)]
pub(super) struct Submitted {
    number: u64,
    place: Option<super::commands::Place>,
}

impl Stream for VulkanStream {
    fn queue_bytes(&self) -> usize {
        self.queue_bytes
    }

    fn in_flight_limit(&self) -> usize {
        self.limit
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn submit(&mut self, upload: Upload) -> Result<Ticket, Refused<Upload>> {
        let allowed = self.check_alive().and_then(|()| upload.check(self, self.holds(upload.region())));
        let submitted = allowed.and_then(|()| {
            let through = Through { source: self.source_of(&upload)?, ..Through::default() };
            match self.submit_commands(|stream, recording, _| {
                stream.record_upload(recording, &upload, through.source.as_ref());
                Ok(())
            }) {
                Ok(submitted) => Ok((submitted, through)),
                Err(error) => {
                    self.staging.give_back(through.source);
                    Err(error)
                }
            }
        });
        match submitted {
            Ok((submitted, through)) => Ok(self.take_over(Transfer::Upload(upload), submitted, through)),
            Err(error) => Err(Refused { transfer: upload, error }),
        }
    }

    fn fetch(&mut self, mut download: Download) -> Result<Ticket, Refused<Download>> {
        let range = download.device_range();
        let holds = self.holds(download.landing().region());
        let allowed = self.check_alive().and_then(|()| download.check(self, holds));
        let submitted = allowed.and_then(|()| {
            if range.is_empty() {
                return Ok((self.nothing_submitted(), Through::default()));
            }
            let landing = self.landing_for(download.landing(), range.len())?;
            let through = Through { landing, ..Through::default() };
            match self.submit_commands(|stream, recording, _| {
                let from = (stream.memory.raw(), range.start as u64);
                stream.record_download(
                    recording,
                    from,
                    download.landing_mut(),
                    range.len(),
                    through.landing.as_ref(),
                );
                Ok(())
            }) {
                Ok(submitted) => Ok((submitted, through)),
                Err(error) => {
                    self.staging.give_back(through.landing);
                    Err(error)
                }
            }
        });
        match submitted {
            Ok((submitted, through)) => Ok(self.take_over(Transfer::Download(download), submitted, through)),
            Err(error) => Err(Refused { transfer: download, error }),
        }
    }

    fn fill(&mut self, fill: Fill) -> Result<Ticket, Refused<Fill>> {
        let allowed = self.check_alive().and_then(|()| fill.check(self));
        let submitted = allowed.and_then(|()| {
            if fill.range.is_empty() {
                return Ok(self.nothing_submitted());
            }
            self.submit_commands(|stream, recording, _| {
                // SAFETY: the range was checked, is of whole words (by `Fill::check`) and not empty; the stream keeps the
                // buffer until the commands have ended.
                unsafe { recording.fill(stream.memory.raw(), fill.range.clone(), fill.word) };
                Ok(())
            })
        });
        match submitted {
            Ok(submitted) => Ok(self.take_over(Transfer::Fill(fill), submitted, Through::default())),
            Err(error) => Err(Refused { transfer: fill, error }),
        }
    }

    fn launch(&mut self, kernel: &Kernel, launch: Launch) -> Result<Ticket, Refused<Launch>> {
        self.launch_batch(kernel, launch)
    }

    fn dispatch(&mut self, kernel: &Kernel, dispatch: Dispatch) -> Result<Ticket, Refused<Dispatch>> {
        self.run_over_queues(kernel, dispatch)
    }

    fn mapped_up_to_bytes(&self) -> usize {
        self.context.mapped_up_to_bytes()
    }

    fn poll(&mut self) -> Option<Completion> {
        let number = self.in_flight.front()?.number;
        if !self.context.is_here() {
            return None;
        }
        let ended = match &self.lost {
            None => self.timeline.has_reached(number),
            Some(reason) => {
                let reason = reason.clone();
                let transfer = self.in_flight.pop_front()?;
                return Some(self.lose(transfer, reason));
            }
        };
        match ended {
            Ok(false) => None,
            Ok(true) => {
                let transfer = self.in_flight.pop_front()?;
                Some(self.complete(transfer))
            }
            Err(vk::Result::ERROR_DEVICE_LOST) => {
                let code = codes::name(vk::Result::ERROR_DEVICE_LOST);
                let transfer = self.in_flight.pop_front()?;
                Some(self.lose(transfer, format!("vkGetSemaphoreCounterValue answered {code}")))
            }
            Err(code) => {
                // It can be asked again.
                tracing::debug!("vkGetSemaphoreCounterValue answered {}", codes::name(code));
                None
            }
        }
    }

    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    /// A device that is this processor works on threads of this process.
    fn dies_with_process(&self) -> bool {
        self.context.physical.is_this_processor()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for VulkanStream {
    fn drop(&mut self) {
        if !self.context.is_here() {
            // The parent's driver has them. Giving slots back here could free those of the parent.
            let _never_dropped = ManuallyDrop::new(std::mem::take(&mut self.in_flight));
            return;
        }
        let deadline = Instant::now() + DRAIN;
        // Dropping a completion gives its memory back.
        while self.wait_until(Some(deadline)).is_some() {}
        let (mut transfers, mut messages) = (0, 0);
        while let Some(mut transfer) = self.in_flight.pop_front() {
            transfer.through.leak();
            transfers += 1;
            if let Transfer::Quarantined { messages: of_this } = transfer.transfer.quarantine() {
                messages += of_this;
            }
        }
        if transfers > 0 || self.lost.is_some() {
            tracing::warn!(
                transfers,
                messages,
                "a Vulkan stream was dropped before its device was done: what was in flight is quarantined"
            );
            // The driver may still use them.
            self.places.leak();
            self.timeline.leak();
            self.memory.leak();
            self.outgrown.extend(self.output.take());
            self.outgrown.iter_mut().for_each(Memory::leak);
        }
    }
}
