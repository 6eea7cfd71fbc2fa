//! The rival of the pump to OpenCL: a loop of non-blocking writes, written by hand.

use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use opencl3::command_queue::{CommandQueue, create_command_queue};
use opencl3::error_codes::ClError;
use opencl3::event::Event;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, create_buffer};
use opencl3::types::{CL_BLOCKING, CL_NON_BLOCKING, cl_context, cl_device_id};
use transload::device::opencl::OpenClStream;
use transload::device::{Device, StreamOptions};

use super::shape::Shape;
use super::side::{BLANK, Budget, Last, Run, Side, Until};
use super::source::Source;
use crate::adapter::Role;

/// How many writes are in flight at most, each a rival of its own.
pub const DEPTHS: [usize; 5] = [1, 2, 3, 4, 8];

/// Ready batches, `clEnqueueWriteBuffer` for each, so many in flight, their events waited for in order. Nothing is taken
/// from anybody, nothing given back, nothing counted.
#[derive(Debug)]
pub struct WriteBuffer {
    /// Keeps context and driver memory there.
    _device: Arc<dyn Device>,
    context: cl_context,
    device_id: cl_device_id,
    source: Source,
    shape: Shape,
    depth: usize,
    name: String,
}

impl WriteBuffer {
    /// Out of this memory to this device, in the context that the library has.
    ///
    /// # Errors
    ///
    /// When the device is not one of OpenCL.
    pub fn new(device: Arc<dyn Device>, source: Source, shape: Shape, depth: usize) -> Result<Self> {
        let stream = device.open_stream(&StreamOptions { queue_bytes: 4, in_flight: 1 })?;
        let stream = stream.as_any().downcast_ref::<OpenClStream>().context("not a device of OpenCL")?;
        // Not to be dropped: the queue is the stream's.
        let queue = std::mem::ManuallyDrop::new(CommandQueue::new(stream.command_queue(), 1));
        let (context, device_id) = (
            queue.context().map_err(|error| failed(&error))?,
            queue.device().map_err(|error| failed(&error))?,
        );
        let name = format!("clEnqueueWriteBuffer, {}, {depth} in flight", source.kind());
        Ok(Self { _device: device, context, device_id, source, shape, depth, name })
    }

    /// A queue and a buffer of its own.
    fn open(&self) -> Result<(CommandQueue, Buffer<u8>)> {
        // SAFETY: the device keeps its context there; both belong together.
        let queue = unsafe { create_command_queue(self.context, self.device_id, 0) };
        let queue = CommandQueue::new(queue.map_err(ClError).map_err(|error| failed(&error))?, 1);
        let len_bytes = self.shape.queue_bytes();
        // SAFETY: as above, and no memory of the host's is given.
        let buffer = unsafe { create_buffer(self.context, CL_MEM_READ_WRITE, len_bytes, ptr::null_mut()) };
        Ok((queue, Buffer::new(buffer.map_err(ClError).map_err(|error| failed(&error))?)))
    }

    /// The loop. The caller waits for what is in flight when it fails.
    fn send(
        &self,
        queue: &CommandQueue,
        buffer: &mut Buffer<u8>,
        until: Until,
    ) -> Result<(u64, Duration, Last)> {
        let (shape, source) = (self.shape, self.source.bytes());
        let mut in_flight: VecDeque<Event> = VecDeque::with_capacity(self.depth);
        let (mut budget, mut batches, mut last) = (Budget::new(until), 0, Last::default());
        let begun = Instant::now();
        while let Some(batch) = budget.next() {
            if in_flight.len() == self.depth {
                wait(&mut in_flight)?;
            }
            let bytes = &source[shape.origin(batch)..][..shape.batch_bytes];
            let to = shape.place(batch);
            // SAFETY: the range lies within the buffer. The source is written by nobody, and stays there until the driver
            // is done with it: this function or its caller waits for that.
            let write = unsafe { queue.enqueue_write_buffer(buffer, CL_NON_BLOCKING, to, bytes, &[]) };
            in_flight.push_back(write.map_err(|error| failed(&error))?);
            queue.flush().map_err(|error| failed(&error))?;
            last.note_batch(&shape, batch);
            batches += 1;
        }
        while !in_flight.is_empty() {
            wait(&mut in_flight)?;
        }
        Ok((batches, begun.elapsed(), last))
    }
}

impl Side for WriteBuffer {
    fn name(&self) -> &str {
        &self.name
    }

    fn role(&self) -> Role {
        Role::Rival
    }

    fn run(&mut self, until: Until) -> Result<Run> {
        let shape = self.shape;
        let (queue, mut buffer) = self.open()?;
        let mut there = vec![BLANK; shape.queue_bytes()];
        // SAFETY: the buffer is as long, and the call returns when the bytes are there.
        let blank = unsafe { queue.enqueue_write_buffer(&mut buffer, CL_BLOCKING, 0, &there, &[]) };
        blank.map_err(|error| failed(&error))?;

        let sent = self.send(&queue, &mut buffer, until);
        // Whatever has gone wrong: the driver is done with the memory.
        queue.finish().map_err(|error| failed(&error))?;
        let (batches, elapsed, mut last) = sent?;

        there.fill(0);
        // SAFETY: as above.
        let read = unsafe { queue.enqueue_read_buffer(&buffer, CL_BLOCKING, 0, &mut there, &[]) };
        read.map_err(|error| failed(&error))?;
        Ok(Run {
            messages: batches * shape.batch_messages() as u64,
            elapsed,
            last: last.take(),
            queue: there,
        })
    }
}

/// Waits for the oldest.
fn wait(in_flight: &mut VecDeque<Event>) -> Result<()> {
    let oldest = in_flight.pop_front().context("nothing is in flight")?;
    oldest.wait().map_err(|error| failed(&error))
}

fn failed(error: &ClError) -> anyhow::Error {
    anyhow!("OpenCL answered {error}")
}
