//! What is put into command buffers, and the places in a stream that have one each.

use std::ops::Range;
use std::sync::Arc;

use ash::vk;

use super::codes;
use super::context::Context;
use crate::device::DeviceError;

/// The command buffer, and what a kernel's buffers are named in, of one transfer at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) commands: vk::CommandBuffer,
    pub(super) buffers: vk::DescriptorSet,
}

/// The places of one stream.
#[derive(Debug)]
pub(super) struct Places {
    free: Vec<Place>,
    commands: vk::CommandPool,
    buffers: vk::DescriptorPool,
    is_left: bool,
    context: Arc<Context>,
}

impl Places {
    /// So many, all free.
    pub(super) fn new(context: &Arc<Context>, count: usize) -> Result<Self, DeviceError> {
        let (commands, buffers) = (vk::CommandPool::null(), vk::DescriptorPool::null());
        let free = Vec::with_capacity(count);
        let mut places = Self { free, commands, buffers, is_left: false, context: context.clone() };
        // From here on the drop ends what was made.
        places.make(u32::try_from(count).unwrap_or(u32::MAX))?;
        Ok(places)
    }

    fn make(&mut self, count: u32) -> Result<(), DeviceError> {
        let (context, device) = (&self.context, &self.context.device);
        let wanted = vk::CommandPoolCreateInfo::default()
            .queue_family_index(context.physical.family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: the device is there and has queues of that family.
        let commands = unsafe { device.create_command_pool(&wanted, None) };
        self.commands = commands.map_err(|code| codes::failed("vkCreateCommandPool", code))?;
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(count.saturating_mul(2))];
        let wanted = vk::DescriptorPoolCreateInfo::default().max_sets(count).pool_sizes(&sizes);
        // SAFETY: as above.
        let buffers = unsafe { device.create_descriptor_pool(&wanted, None) };
        self.buffers = buffers.map_err(|code| codes::failed("vkCreateDescriptorPool", code))?;
        let wanted =
            vk::CommandBufferAllocateInfo::default().command_pool(self.commands).command_buffer_count(count);
        // SAFETY: the pool is there, and no other thread uses it.
        let commands = unsafe { device.allocate_command_buffers(&wanted) };
        let commands = commands.map_err(|code| codes::failed("vkAllocateCommandBuffers", code))?;
        let layouts = vec![context.buffers; commands.len()];
        let wanted =
            vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.buffers).set_layouts(&layouts);
        // SAFETY: as above; the pool was made for so many.
        let buffers = unsafe { device.allocate_descriptor_sets(&wanted) };
        let buffers = buffers.map_err(|code| codes::failed("vkAllocateDescriptorSets", code))?;
        self.free
            .extend(commands.into_iter().zip(buffers).map(|(commands, buffers)| Place { commands, buffers }));
        Ok(())
    }

    /// A free one, which there is as long as no more are in use than were made.
    pub(super) fn take(&mut self) -> Option<Place> {
        self.free.pop()
    }

    /// Takes a place back: nothing that was recorded in it is still to run.
    pub(super) fn give_back(&mut self, place: Option<Place>) {
        self.free.extend(place);
    }

    /// Takes a place back in which nothing was submitted, whatever was recorded.
    pub(super) fn give_up(&mut self, place: Place) {
        let keep = vk::CommandBufferResetFlags::empty();
        // SAFETY: the command buffer is there, and does not run.
        match unsafe { self.context.device.reset_command_buffer(place.commands, keep) } {
            Ok(()) => self.free.push(place),
            // There is one less for the stream then: it says that it is busy a transfer earlier.
            Err(code) => tracing::debug!("vkResetCommandBuffer answered {}", codes::name(code)),
        }
    }

    /// Leaves them to the driver for ever.
    pub(super) fn leak(&mut self) {
        self.is_left = true;
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        if self.is_left || !self.context.is_here() {
            return;
        }
        // SAFETY: ours, with all that is of it, and nothing of it is to run any more (I2).
        unsafe { self.context.device.destroy_descriptor_pool(self.buffers, None) };
        // SAFETY: as above.
        unsafe { self.context.device.destroy_command_pool(self.commands, None) };
    }
}

const ANYTHING: vk::PipelineStageFlags = vk::PipelineStageFlags::ALL_COMMANDS;
const COPIES: vk::PipelineStageFlags = vk::PipelineStageFlags::TRANSFER;
const KERNELS: vk::PipelineStageFlags = vk::PipelineStageFlags::COMPUTE_SHADER;
const HOST: vk::PipelineStageFlags = vk::PipelineStageFlags::HOST;

/// A command buffer that is being filled. What is put into it takes effect behind all that was submitted to the same queue
/// before.
pub(super) struct Recording<'a> {
    context: &'a Context,
    commands: vk::CommandBuffer,
}

impl<'a> Recording<'a> {
    pub(super) fn begin(context: &'a Context, place: Place) -> Result<Self, DeviceError> {
        let recording = Self { context, commands: place.commands };
        let once = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the command buffer is there; what it had before has ended, and its pool lets it be begun anew.
        let begun = unsafe { context.device.begin_command_buffer(place.commands, &once) };
        begun.map_err(|code| codes::failed("vkBeginCommandBuffer", code))?;
        // What was submitted to the queue before was for any use, and by anybody.
        let before = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let ours = vk::AccessFlags::TRANSFER_READ
            | vk::AccessFlags::TRANSFER_WRITE
            | vk::AccessFlags::SHADER_READ
            | vk::AccessFlags::SHADER_WRITE;
        recording.barrier((ANYTHING, before), (COPIES | KERNELS, ours));
        Ok(recording)
    }

    fn barrier(
        &self,
        (before, written): (vk::PipelineStageFlags, vk::AccessFlags),
        (behind, used): (vk::PipelineStageFlags, vk::AccessFlags),
    ) {
        let barrier = [vk::MemoryBarrier::default().src_access_mask(written).dst_access_mask(used)];
        let none = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is being recorded; the stages are those of its queue.
        unsafe {
            self.context.device.cmd_pipeline_barrier(self.commands, before, behind, none, &barrier, &[], &[]);
        }
    }

    /// Copies parts of one buffer to another.
    ///
    /// # Safety
    ///
    /// Both buffers stay until the commands have ended; the parts lie within them, none is empty, and those that are written
    /// do not overlap.
    pub(super) unsafe fn copy(&self, from: vk::Buffer, to: vk::Buffer, parts: &[vk::BufferCopy]) {
        // SAFETY: the command buffer is being recorded; the rest by this function's contract.
        unsafe { self.context.device.cmd_copy_buffer(self.commands, from, to, parts) };
    }

    /// Fills a part of a buffer with a word.
    ///
    /// # Safety
    ///
    /// The buffer stays until the commands have ended. The range lies within it, is of whole words, and not empty.
    pub(super) unsafe fn fill(&self, buffer: vk::Buffer, range: Range<usize>, word: u32) {
        let (offset, len_bytes) = (range.start as u64, range.len() as u64);
        // SAFETY: as above.
        unsafe { self.context.device.cmd_fill_buffer(self.commands, buffer, offset, len_bytes, word) };
    }

    /// Runs a kernel behind the copies so far, and lets the copies behind wait for it.
    ///
    /// # Safety
    ///
    /// The pipeline is a kernel of the context's, and stays until the commands have ended. The set names buffers for what it
    /// reaches, and they stay as long. What it does with them, or beyond them, is its author's.
    pub(super) unsafe fn run(
        &self,
        pipeline: vk::Pipeline,
        buffers: vk::DescriptorSet,
        parameters: &[u8],
        groups: u32,
    ) {
        let (context, commands) = (self.context, self.commands);
        let (device, point) = (&context.device, vk::PipelineBindPoint::COMPUTE);
        let uses = vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE;
        self.barrier((COPIES, vk::AccessFlags::TRANSFER_WRITE), (KERNELS, uses));
        // SAFETY: the command buffer is being recorded; the rest by this function's contract.
        unsafe { device.cmd_bind_pipeline(commands, point, pipeline) };
        // SAFETY: as above; the set is of the layout's kind.
        unsafe { device.cmd_bind_descriptor_sets(commands, point, context.layout, 0, &[buffers], &[]) };
        let stage = vk::ShaderStageFlags::COMPUTE;
        // SAFETY: as above; the layout has room for so many bytes.
        unsafe { device.cmd_push_constants(commands, context.layout, stage, 0, parameters) };
        // SAFETY: as above; the number was compared with the device's limit.
        unsafe { device.cmd_dispatch(commands, groups, 1, 1) };
        let copies = vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE;
        self.barrier((KERNELS, vk::AccessFlags::SHADER_WRITE), (COPIES, copies));
    }

    /// Ends it. When it has run, the host sees what was written.
    pub(super) fn end(self) -> Result<(), DeviceError> {
        let written = vk::AccessFlags::TRANSFER_WRITE | vk::AccessFlags::SHADER_WRITE;
        self.barrier((COPIES | KERNELS, written), (HOST, vk::AccessFlags::HOST_READ));
        // SAFETY: the command buffer is being recorded.
        let ended = unsafe { self.context.device.end_command_buffer(self.commands) };
        ended.map_err(|code| codes::failed("vkEndCommandBuffer", code))
    }
}
