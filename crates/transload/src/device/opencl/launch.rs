//! Launches: the batch, the kernel and the outputs on one in-order queue, so that each finds what the one before it did.

use std::ffi::c_void;

use opencl3::error_codes::CL_INVALID_KERNEL;
use opencl3::kernel::set_kernel_arg;
use opencl3::memory::CL_MEM_READ_WRITE;
use opencl3::types::{cl_event, cl_int};

use super::codes;
use super::commands;
use super::copies::Copies;
use super::device::Shared;
use super::handle::{Buffer, Function, Handle};
use super::kernel::Use;
use super::stream::OpenClStream;
use crate::device::launch_numbers::LaunchNumbers;
use crate::device::{DeviceError, Dispatch, Kernel, Launch, Refused, Ticket, Transfer};

/// Device memory for the outputs of launches: what no launch has is kept for the next.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    spare: Vec<OutputBuffer>,
}

/// Device memory for the outputs of one launch.
#[derive(Debug)]
pub(super) struct OutputBuffer {
    buffer: Handle<Buffer>,
    len_bytes: usize,
}

impl Outputs {
    fn take(&mut self, device: &Shared, len_bytes: usize) -> Result<OutputBuffer, DeviceError> {
        if let Some(fits) = self.spare.iter().position(|spare| spare.len_bytes >= len_bytes) {
            return Ok(self.spare.swap_remove(fits));
        }
        // One that is too short makes room, so that there are never more than launches.
        drop(self.spare.pop());
        Ok(OutputBuffer { buffer: device.create_buffer(CL_MEM_READ_WRITE, len_bytes)?, len_bytes })
    }

    /// Takes the memory of a launch back that is over.
    pub(super) fn give_back(&mut self, output: Option<OutputBuffer>) {
        self.spare.extend(output);
    }
}

impl OutputBuffer {
    /// Never releases it: the driver may still use it.
    pub(super) fn leak(&mut self) {
        self.buffer.leak();
    }
}

impl OpenClStream {
    pub(super) fn start_launch(
        &mut self,
        kernel: &Kernel,
        mut launch: Launch,
    ) -> Result<Ticket, Refused<Launch>> {
        let prepared = launch
            .check(self, |region| self.device.holds(region))
            .and_then(|()| self.check_alive())
            .and_then(|()| self.prepare(kernel, &launch));
        let (numbers, output) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Err(Refused { transfer: launch, error }),
        };
        let (mut copies, gathered) = match self.write_all(launch.upload()) {
            Ok(written) => written,
            Err(error) => {
                self.outputs.give_back(Some(output));
                return Err(Refused { transfer: launch, error });
            }
        };
        let target = launch.landing_mut().as_mut_ptr();
        let (queue, function, buffer) = (&self.queue, self.functions.last(), &output.buffer);
        let (lengths, all) = (0..numbers.count as usize * 4, numbers.all_bytes);
        let steps: [&dyn Fn() -> Result<cl_event, cl_int>; 3] = [
            // SAFETY: the buffer is longer than the lengths, which are of whole words.
            &|| unsafe { commands::fill(queue, buffer, lengths.clone(), numbers.output_bytes) },
            &|| {
                let function = function.ok_or(CL_INVALID_KERNEL)?;
                // SAFETY: all arguments are set: buffers, which the stream or the transfer keeps until the command has ended
                // (I2).
                unsafe { commands::run(queue, function, numbers.count as usize) }
            },
            // SAFETY: the buffer is as long. The target is a landing at least as long (by `Launch::check`), which has one
            // owner (I1): the transfer, which keeps it, out of reach of everybody, until the copy has ended (I2, I3).
            &|| unsafe { commands::read(queue, buffer, 0, (target, all)) },
        ];
        for step in steps {
            if copies.is_whole() {
                // Something of it was enqueued before, so it cannot be handed back now; it fails when that has ended.
                let noted = copies.note(step());
                debug_assert!(noted.is_ok(), "an upload has at least one copy");
            }
        }
        Ok(self.take_over(Transfer::Launch(launch), copies, gathered, Some(output)))
    }

    /// Memory for the outputs, and the kernel with all of its arguments.
    fn prepare(
        &mut self,
        kernel: &Kernel,
        launch: &Launch,
    ) -> Result<(LaunchNumbers, OutputBuffer), DeviceError> {
        let too_large = DeviceError::Unsupported { what: "kernels for so large messages" };
        let numbers = LaunchNumbers::of(launch).ok_or(too_large)?;
        let function = self.functions.of(kernel, &self.device, Use::Batches)?;
        let output = self.outputs.take(&self.device, numbers.all_bytes)?;
        let set = Arguments { function, next: 0, result: Ok(()) }
            .buffer(&self.buffer)
            .number(launch.upload().device_range().start as u64)
            .number(numbers.count)
            .number(numbers.slot_bytes)
            .number(numbers.prefix_bytes)
            .buffer(&output.buffer)
            .number(numbers.outputs_at)
            .number(numbers.output_bytes)
            .result;
        match set {
            Ok(()) => Ok((numbers, output)),
            Err(code) => {
                self.outputs.give_back(Some(output));
                Err(codes::failed("clSetKernelArg", code))
            }
        }
    }

    pub(super) fn start_dispatch(
        &mut self,
        kernel: &Kernel,
        dispatch: Dispatch,
    ) -> Result<Ticket, Refused<Dispatch>> {
        let enqueued = dispatch.check(self).and_then(|()| self.check_alive()).and_then(|()| {
            let function = self.functions.of(kernel, &self.device, Use::Queues)?;
            Arguments { function, next: 0, result: Ok(()) }
                .buffer(&self.buffer)
                .number(dispatch.inbound as u64)
                .number(dispatch.outbound as u64)
                .result
                .map_err(|code| codes::failed("clSetKernelArg", code))?;
            // SAFETY: all arguments are set: the buffer, which the stream keeps until the command has ended (I2).
            let event = unsafe { commands::run(&self.queue, function, dispatch.work_items as usize) };
            let mut copies = Copies::default();
            copies.note(event).map_err(|code| codes::failed("clEnqueueNDRangeKernel", code))?;
            Ok(copies)
        });
        match enqueued {
            Ok(copies) => Ok(self.take_over(Transfer::Dispatch(dispatch), copies, None, None)),
            Err(error) => Err(Refused { transfer: dispatch, error }),
        }
    }
}

/// Arguments, set one behind the other up to the first that is refused.
struct Arguments<'a> {
    function: &'a Handle<Function>,
    next: u32,
    result: Result<(), cl_int>,
}

impl Arguments<'_> {
    fn buffer(self, buffer: &Handle<Buffer>) -> Self {
        self.set(buffer.raw())
    }

    fn number<T: Into<u64> + Copy>(self, number: T) -> Self {
        self.set(number)
    }

    /// A value as it lies in memory: of the size that the kernel's parameter has, or the driver refuses it.
    fn set<T: Copy>(mut self, value: T) -> Self {
        if self.result.is_ok() {
            let bytes = (&raw const value).cast::<c_void>();
            // SAFETY: the function is there, and its stream alone, on one thread, sets its arguments. The value is as long
            // as is said, and is copied by the call.
            self.result = unsafe { set_kernel_arg(self.function.raw(), self.next, size_of::<T>(), bytes) };
            self.next += 1;
        }
        self
    }
}
