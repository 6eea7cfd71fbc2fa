//! Up to which size a kernel reads a batch faster where it is, in mapped host memory, than after a copy to the device.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::codes::Failure;
use super::context::Context;
use super::context::Current;
use super::in_flight::Enqueue;
use super::kernel::{self, CudaKernel};
use super::launch::BatchParameters;
use super::memory::{Event, Handle, Memory, Queue};
use super::pinned::Allocation;
use crate::device::mapped_limit::{LARGEST, LONGEST, SLOT, mapped_limit};
use crate::device::{DeviceError, Route};

const PTX: &str = include_str!("measure.ptx");
const ENTRY: &str = "transload_measure";

/// The largest size up to which the mapped way is never slower, by the medians; 0 if it is for the smallest, or cannot be
/// measured. And what it was measured with, to be kept as long as the device: to free memory, the driver may wait for
/// everything that runs on the device, and that may be something which does not end.
pub(super) fn mapped_up_to_bytes(context: &Arc<Context>) -> (usize, Option<Bench>) {
    let mut bench = Bench::new(context);
    match bench
        .as_mut()
        .map_err(|error| error.to_string())
        .and_then(|bench| bench.run().map_err(|error| error.to_string()))
    {
        Ok(most) => (most, bench.ok()),
        Err(error) => {
            tracing::debug!("kernels will not read host memory where it is: {error}");
            (0, bench.ok())
        }
    }
}

/// What is needed to measure.
#[derive(Debug)]
pub(super) struct Bench {
    context: Arc<Context>,
    /// Both are left to the device for ever if it may still use them.
    kernel: ManuallyDrop<CudaKernel>,
    host: ManuallyDrop<Allocation>,
    is_given_up: bool,
    memory: Handle<Memory>,
    output: Handle<Memory>,
    event: Handle<Event>,
    queue: Handle<Queue>,
    deadline: Instant,
}

impl Bench {
    fn new(context: &Arc<Context>) -> Result<Self, DeviceError> {
        let kernel = kernel::load(context, PTX, ENTRY)?;
        let host = Allocation::new(context, LARGEST)?;
        let cuda = context.enter()?;
        let memory = Handle::<Memory>::allocate(&cuda, context, LARGEST)?;
        let output = Handle::<Memory>::allocate(&cuda, context, LARGEST / SLOT * 8)?;
        let event = Handle::<Event>::create(&cuda, context)?;
        let queue = Handle::<Queue>::create(&cuda, context)?;
        Ok(Self {
            context: context.clone(),
            kernel: ManuallyDrop::new(kernel),
            host: ManuallyDrop::new(host),
            is_given_up: false,
            memory,
            output,
            event,
            queue,
            deadline: Instant::now() + LONGEST,
        })
    }

    fn run(&mut self) -> Result<usize, DeviceError> {
        let context = self.context.clone();
        let cuda = context.enter()?;
        let mut mapped = 0;
        // SAFETY: the place of an address; the memory was allocated to be mapped.
        unsafe { cuda.host_device_pointer(&raw mut mapped, self.host.base().as_ptr().cast(), 0) }?;
        mapped_limit(|size, route| self.turn(&cuda, size, (route == Route::Mapped).then_some(mapped)))
    }

    fn turn(
        &mut self,
        cuda: &Current<'_>,
        size: usize,
        mapped: Option<u64>,
    ) -> Result<Duration, DeviceError> {
        let count = size / SLOT;
        let narrow = |number: usize| u32::try_from(number).unwrap_or(0);
        let mut parameters = BatchParameters {
            slots: mapped.unwrap_or(self.memory.pointer()),
            slots_at: 0,
            count: narrow(count),
            slot_bytes: narrow(SLOT),
            prefix_bytes: 0,
            output: self.output.pointer(),
            outputs_at: narrow(count * 4),
            output_bytes: 4,
        };
        let started = Instant::now();
        let mut work = Enqueue::new(cuda, self.queue.raw());
        if mapped.is_none() {
            // SAFETY: pinned memory, written by nobody, and device memory as long; both stay until this has ended.
            unsafe { work.upload(self.host.base().as_ptr(), size, self.memory.pointer()) };
        }
        // SAFETY: the function is our own, and all memory that its parameters name stays until it has ended.
        unsafe { parameters.launch(&mut work, self.kernel.function()) };
        let ended = match work.end()? {
            Some(failure) => Err(failure),
            None => self.event_passes(cuda),
        };
        let elapsed = started.elapsed();
        if ended.is_err() {
            self.settle(cuda);
        }
        ended?;
        Ok(elapsed)
    }

    /// Waits until an event has passed that is put behind what is in the stream.
    fn event_passes(&self, cuda: &Current<'_>) -> Result<(), Failure> {
        // SAFETY: both are there.
        unsafe { cuda.event_record(self.event.raw(), self.queue.raw()) }?;
        self.poll(|| {
            // SAFETY: the event is there.
            unsafe { cuda.event_query(self.event.raw()) }
        })
    }

    /// Waits until the stream is idle; if that cannot be known, what the device may still use is left to it.
    fn settle(&mut self, cuda: &Current<'_>) {
        let idle = self.poll(|| {
            // SAFETY: the stream is there.
            unsafe { cuda.stream_query(self.queue.raw()) }
        });
        if idle.is_err() {
            self.give_up();
        }
    }

    /// Asks until the answer is another than "not ready", or it takes too long.
    fn poll(&self, ask: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        loop {
            match ask() {
                Err(failure) if failure.is_not_ready() && Instant::now() < self.deadline => {
                    std::hint::spin_loop();
                }
                answer => return answer,
            }
        }
    }

    /// Ends nothing that the device may still use.
    fn give_up(&mut self) {
        self.is_given_up = true;
        self.memory.leak();
        self.output.leak();
        self.event.leak();
        self.queue.leak();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !self.is_given_up {
            // SAFETY: dropped once, here, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.kernel) };
            // SAFETY: as above.
            unsafe { ManuallyDrop::drop(&mut self.host) };
        }
    }
}
