//! OpenCL as a subject of the suite, and what its own tests need of the driver.

use opencl3::command_queue::{
    create_command_queue, enqueue_barrier_with_wait_list, flush, release_command_queue, retain_command_queue,
};
use opencl3::event::{CL_COMPLETE, create_user_event, release_event, set_user_event_status};
use opencl3::types::{cl_command_queue, cl_context, cl_event, cl_int};
use transload::device::opencl::OpenClDevice;
use transload::device::{Device, StreamOptions};

use crate::device::{Gate, Gated, Hold, Subject};

/// The first OpenCL device.
pub fn subject() -> Subject {
    Subject { name: "opencl", open, gated, kernel: |example| example.source("cl") }
}

fn open() -> Result<Box<dyn Device>, String> {
    let device = OpenClDevice::open(0).map_err(|error| error.to_string())?;
    Ok(Box::new(device))
}

fn gated(options: &StreamOptions) -> Result<Gated, String> {
    gated_on(0, options)
}

/// A stream of a device, over a queue of our own, in which the gate is.
///
/// # Errors
///
/// What the driver says.
pub fn gated_on(index: usize, options: &StreamOptions) -> Result<Gated, String> {
    let device = OpenClDevice::open(index).map_err(|error| error.to_string())?;
    let queue = OwnQueue::new(&device);
    // SAFETY: the queue is there.
    let stream = unsafe { device.open_stream_on(queue.raw(), None, options) };
    let stream = stream.map_err(|error| error.to_string())?;
    let gate = QueueGate { context: device.context(), queue, closed: None };
    Ok(Gated { device: Box::new(device), stream: Box::new(stream), gate: Box::new(gate) })
}

/// A command queue that belongs to a test.
#[derive(Debug)]
pub struct OwnQueue(cl_command_queue);

// SAFETY: queues may be used and released on any thread.
unsafe impl Send for OwnQueue {}

impl OwnQueue {
    /// An in-order queue.
    pub fn new(device: &OpenClDevice) -> Self {
        Self::with_properties(device, 0)
    }

    /// A queue with these properties.
    pub fn with_properties(device: &OpenClDevice, properties: u64) -> Self {
        // SAFETY: context and device are there, and belong together.
        Self(unsafe { create_command_queue(device.context(), device.device_id(), properties) }.unwrap())
    }

    /// The queue.
    pub fn raw(&self) -> cl_command_queue {
        self.0
    }
}

impl Clone for OwnQueue {
    fn clone(&self) -> Self {
        // SAFETY: `self` has a reference.
        unsafe { retain_command_queue(self.0) }.unwrap();
        Self(self.0)
    }
}

impl Drop for OwnQueue {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and given up here.
        unsafe { release_command_queue(self.0) }.unwrap();
    }
}

/// A gate in a queue: a barrier that waits for an event which the test sets.
#[derive(Debug)]
pub struct QueueGate {
    context: cl_context,
    queue: OwnQueue,
    /// The event that the test sets, and that of the barrier: PoCL 3.1 aborts the process if the latter is released
    /// before it has failed.
    closed: Option<[cl_event; 2]>,
}

// SAFETY: the driver's objects may be used on any thread.
unsafe impl Send for QueueGate {}

impl QueueGate {
    /// An open gate in a queue of the device.
    pub fn new(device: &OpenClDevice, queue: &OwnQueue) -> Self {
        Self { context: device.context(), queue: queue.clone(), closed: None }
    }

    fn end(&mut self, status: cl_int) {
        if let Some([event, barrier]) = self.closed.take() {
            set_user_event_status(event, status).unwrap();
            for event in [event, barrier] {
                // SAFETY: the reference is ours and given up here.
                unsafe { release_event(event) }.unwrap();
            }
        }
    }
}

impl Hold for QueueGate {
    fn close(&mut self) {
        self.end(CL_COMPLETE);
        let event = create_user_event(self.context).unwrap();
        // SAFETY: queue and event are there; the list has one event.
        let barrier = unsafe { enqueue_barrier_with_wait_list(self.queue.raw(), 1, &raw const event) };
        self.closed = Some([event, barrier.unwrap()]);
        flush(self.queue.raw()).unwrap();
    }

    fn open(&mut self) {
        self.end(CL_COMPLETE);
    }
}

impl Gate for QueueGate {
    fn fail(&mut self) {
        const CL_OUT_OF_RESOURCES: cl_int = -5;
        self.end(CL_OUT_OF_RESOURCES);
    }
}

impl Drop for QueueGate {
    fn drop(&mut self) {
        self.end(CL_COMPLETE);
    }
}

/// Whether the first device's driver is PoCL, whose devices can be multiplied.
pub fn is_pocl() -> bool {
    open().is_ok_and(|device| device.info().name.starts_with("pthread"))
}
