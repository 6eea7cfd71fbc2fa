//! Kernels in a stream.

use ash::vk;

use super::in_flight::Through;
use super::kernel::{self, Use};
use super::memory::Memory;
use super::spirv::GROUP;
use super::stream::{Submitted, VulkanStream};
use crate::device::launch_numbers::LaunchNumbers;
use crate::device::{
    DeviceError, Dispatch, Kernel, Launch, Refused, Route, Stream, Ticket, Transfer, Upload,
};

/// Bytes of the numbers that kernels are told: as many as those for batches have.
pub(super) const PARAMETER_BYTES: u32 = 6 * 4;

/// What of a buffer a kernel reaches.
#[derive(Clone, Copy, Debug)]
struct Window {
    buffer: vk::Buffer,
    offset: u64,
    len_bytes: u64,
}

impl Window {
    /// So much from the beginning.
    fn first(memory: &Memory, len_bytes: u64) -> Self {
        Self { buffer: memory.raw(), offset: 0, len_bytes }
    }

    fn info(self) -> [vk::DescriptorBufferInfo; 1] {
        [vk::DescriptorBufferInfo { buffer: self.buffer, offset: self.offset, range: self.len_bytes }]
    }
}

/// What is to be known of a launch before it is recorded.
#[derive(Debug)]
struct Plan {
    pipeline: vk::Pipeline,
    numbers: LaunchNumbers,
    groups: u32,
    /// What the kernel reads: the part of a buffer that the batch is in, and where it begins there.
    slots: Window,
    slots_at: u32,
}

impl Plan {
    /// What a kernel reads of a buffer to reach so many bytes from there, and where these begin in it.
    fn slots(buffer: vk::Buffer, from: u64, len_bytes: u64, alignment: u64) -> (Window, u32) {
        let slots_at = from % alignment;
        // Whole words, which all buffers have.
        let len_bytes = (slots_at + len_bytes).next_multiple_of(4);
        // Less than an alignment.
        (Window { buffer, offset: from - slots_at, len_bytes }, u32::try_from(slots_at).unwrap_or(0))
    }
}

impl VulkanStream {
    /// [`Stream::launch`].
    pub(super) fn launch_batch(
        &mut self,
        kernel: &Kernel,
        mut launch: Launch,
    ) -> Result<Ticket, Refused<Launch>> {
        let allowed = self.check_alive().and_then(|()| launch.check(self, |region| self.holds(region)));
        let submitted = allowed.and_then(|()| {
            let plan = self.plan(kernel, &mut launch)?;
            self.make_output(plan.numbers.all_bytes)?;
            let mut through = Through { kernel: Some(kernel.clone()), ..Through::default() };
            let submitted = self.record_and_submit(&plan, &mut launch, &mut through);
            if submitted.is_err() {
                self.staging.give_back(through.source.take());
                self.staging.give_back(through.landing.take());
            }
            Ok((submitted?, through))
        });
        match submitted {
            Ok((submitted, through)) => Ok(self.take_over(Transfer::Launch(launch), submitted, through)),
            Err(error) => Err(Refused { transfer: launch, error }),
        }
    }

    /// Chooses how the kernel reads the batch, and compares what it needs with what there is.
    fn plan(&self, kernel: &Kernel, launch: &mut Launch) -> Result<Plan, DeviceError> {
        let pipeline = kernel::pipeline(kernel, &self.context, Use::Batches)?;
        let limits = self.context.physical.limits;
        let too_large = DeviceError::OtherKernel {
            entry: kernel.entry().to_owned(),
            reason: "the device does not let it reach so much at once: use smaller messages, or fewer in a batch",
        };
        let Some(numbers) = LaunchNumbers::of(launch) else { return Err(too_large) };
        let mapped = self.mapped(launch.upload());
        launch.set_route(if mapped.is_some() { Route::Mapped } else { Route::Copied });
        let range = launch.upload().device_range();
        let (buffer, from) = mapped.unwrap_or((self.memory.raw(), range.start as u64));
        let (slots, slots_at) = Plan::slots(buffer, from, range.len() as u64, limits.storage_alignment);
        let groups = numbers.count.div_ceil(GROUP);
        let most = limits.storage_range;
        if slots.len_bytes > most || numbers.all_bytes as u64 > most || groups > limits.groups {
            return Err(too_large);
        }
        Ok(Plan { pipeline, numbers, groups, slots, slots_at })
    }

    fn record_and_submit(
        &mut self,
        plan: &Plan,
        launch: &mut Launch,
        through: &mut Through,
    ) -> Result<Submitted, DeviceError> {
        let is_copied = launch.route() == Route::Copied;
        if is_copied {
            through.source = self.source_of(launch.upload())?;
        }
        let numbers = plan.numbers;
        through.landing = self.landing_for(launch.landing_mut(), numbers.all_bytes)?;
        self.submit_commands(|stream, recording, buffers| {
            let (upload, landing) = launch.parts_mut();
            if is_copied {
                stream.record_upload(recording, upload, through.source.as_ref());
            }
            let Some(output) = &stream.output else { return Ok(()) };
            let (output, window) = (output.raw(), Window::first(output, numbers.all_bytes as u64));
            stream.name(buffers, plan.slots, window);
            // SAFETY: the output is longer than the lengths, a word for each message, and stays with the stream until the
            // commands have ended (I2).
            unsafe { recording.fill(output, 0..numbers.count as usize * 4, numbers.output_bytes) };
            let words = [
                plan.slots_at,
                numbers.count,
                numbers.slot_bytes,
                numbers.prefix_bytes,
                numbers.outputs_at,
                numbers.output_bytes,
            ];
            // SAFETY: the kernel is one over batches of this context's and stays with the transfer; the set names the batch, in
            // the device queue, which the stream keeps, or where its region does, and the output, which the stream keeps (I2).
            unsafe { recording.run(plan.pipeline, buffers, bytes(&words).as_flattened(), plan.groups) };
            stream.record_download(
                recording,
                (output, 0),
                landing,
                numbers.all_bytes,
                through.landing.as_ref(),
            );
            Ok(())
        })
    }

    /// Where the device finds a batch that the kernel is to read where it is: in one buffer, from there.
    fn mapped(&self, upload: &Upload) -> Option<(vk::Buffer, u64)> {
        let mut pieces = upload.pieces();
        let (start, len_bytes) = pieces.next()?;
        let is_small = match self.forced {
            Some(route) => route == Route::Mapped,
            None => len_bytes <= self.context.known_mapped_up_to_bytes(),
        };
        if !is_small || pieces.next().is_some() {
            return None;
        }
        let mut parts = self.direct(upload.region())?.cut(start.addr(), len_bytes);
        let (buffer, from, _) = parts.next()?;
        parts.next().is_none().then_some((buffer, from))
    }

    /// Sees to it that there is memory for the outputs of a launch.
    fn make_output(&mut self, len_bytes: usize) -> Result<(), DeviceError> {
        if self.output.as_ref().is_some_and(|there| there.len_bytes() >= len_bytes) {
            return Ok(());
        }
        // Of a power of two: what is outgrown is never more than what is there.
        let wanted = len_bytes.checked_next_power_of_two().unwrap_or(len_bytes);
        let memory = Memory::of_device(&self.context, wanted)?;
        self.outgrown.extend(self.output.replace(memory));
        Ok(())
    }

    /// Names the buffers of a kernel in the set of a place, which nothing uses now.
    fn name(&self, set: vk::DescriptorSet, first: Window, second: Window) {
        let (first, second) = (first.info(), second.info());
        let binding = |number| {
            vk::WriteDescriptorSet::default()
                .dst_set(set)
                .dst_binding(number)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
        };
        let writes = [binding(0).buffer_info(&first), binding(1).buffer_info(&second)];
        // SAFETY: the set is the stream's own and not in use; the buffers are there, and the windows lie within them.
        unsafe { self.context.device.update_descriptor_sets(&writes, &[]) };
    }

    /// [`Stream::dispatch`].
    pub(super) fn run_over_queues(
        &mut self,
        kernel: &Kernel,
        dispatch: Dispatch,
    ) -> Result<Ticket, Refused<Dispatch>> {
        let allowed = self.check_alive().and_then(|()| dispatch.check(self));
        let submitted = allowed.and_then(|()| {
            let pipeline = kernel::pipeline(kernel, &self.context, Use::Queues)?;
            let limits = self.context.physical.limits;
            let (wanted, available) = ((self.queue_bytes() as u64).next_multiple_of(4), limits.storage_range);
            if wanted > available {
                return Err(DeviceError::QueueTooLarge { wanted, available });
            }
            let groups = dispatch.work_items.div_ceil(GROUP);
            if groups > limits.groups {
                return Err(DeviceError::OtherKernel {
                    entry: kernel.entry().to_owned(),
                    reason: "the device does not run it so often side by side: use fewer work items",
                });
            }
            self.submit_commands(|stream, recording, buffers| {
                let all = Window::first(&stream.memory, wanted);
                stream.name(buffers, all, all);
                let words =
                    [dispatch.inbound, dispatch.outbound].map(|at| u32::try_from(at).unwrap_or(u32::MAX));
                // SAFETY: the kernel is one over queues of this context's and stays with the transfer; the set names the device
                // queue, which the stream keeps (I2).
                unsafe { recording.run(pipeline, buffers, bytes(&words).as_flattened(), groups) };
                Ok(())
            })
        });
        match submitted {
            Ok(submitted) => {
                let through = Through { kernel: Some(kernel.clone()), ..Through::default() };
                Ok(self.take_over(Transfer::Dispatch(dispatch), submitted, through))
            }
            Err(error) => Err(Refused { transfer: dispatch, error }),
        }
    }
}

/// Numbers as they lie in the memory of devices.
fn bytes<const N: usize>(words: &[u32; N]) -> [[u8; 4]; N] {
    words.map(u32::to_le_bytes)
}
