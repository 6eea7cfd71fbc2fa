//! Kernels in a stream.

use std::ffi::c_void;

use cudarc::driver::sys::{CUdeviceptr, CUfunction};

use super::codes::Failure;
use super::context::Current;
use super::device::Registered;
use super::in_flight::{Enqueue, InFlight};
use super::kernel;
use super::memory::{Handle, Memory};
use super::pinned::Allocation;
use super::stream::{CudaStream, in_flight};
use crate::device::launch_numbers::LaunchNumbers;
use crate::device::{
    DeviceError, Dispatch, Kernel, Launch, Refused, Route, Stream, Ticket, Transfer, Upload,
};

/// Threads in a block.
pub(super) const BLOCK: u32 = 64;

/// The parameters of a kernel over a batch, in their order.
#[derive(Debug)]
pub(super) struct BatchParameters {
    pub(super) slots: CUdeviceptr,
    pub(super) slots_at: u64,
    pub(super) count: u32,
    pub(super) slot_bytes: u32,
    pub(super) prefix_bytes: u32,
    pub(super) output: CUdeviceptr,
    pub(super) outputs_at: u32,
    pub(super) output_bytes: u32,
}

impl BatchParameters {
    /// Puts a launch into a stream.
    ///
    /// # Safety
    ///
    /// The function is there, and is a kernel over batches; what the parameters say is where they say it is, until the launch
    /// has ended.
    pub(super) unsafe fn launch(&mut self, work: &mut Enqueue<'_>, function: CUfunction) {
        let mut parameters: [*mut c_void; 8] = [
            (&raw mut self.slots).cast(),
            (&raw mut self.slots_at).cast(),
            (&raw mut self.count).cast(),
            (&raw mut self.slot_bytes).cast(),
            (&raw mut self.prefix_bytes).cast(),
            (&raw mut self.output).cast(),
            (&raw mut self.outputs_at).cast(),
            (&raw mut self.output_bytes).cast(),
        ];
        let threads = self.count;
        // SAFETY: by this function's contract.
        unsafe { run(work, function, threads, &mut parameters) };
    }
}

/// # Safety
///
/// The function is there, and takes such parameters.
unsafe fn run(work: &mut Enqueue<'_>, function: CUfunction, threads: u32, parameters: &mut [*mut c_void]) {
    work.call(|cuda, stream| {
        let blocks = threads.div_ceil(BLOCK);
        let (parameters, extra) = (parameters.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: by this function's contract; the driver copies the parameters before it returns.
        unsafe { cuda.launch(function, blocks, 1, 1, BLOCK, 1, 1, 0, stream, parameters, extra) }
    });
}

/// What a launch needs before it is put into the stream.
#[derive(Debug)]
struct Prepared {
    numbers: LaunchNumbers,
    landing: Option<Allocation>,
    gathered: Option<Allocation>,
    parameters: BatchParameters,
}

impl CudaStream {
    /// [`Stream::launch`].
    pub(super) fn launch_batch(
        &mut self,
        kernel: &Kernel,
        mut launch: Launch,
    ) -> Result<Ticket, Refused<Launch>> {
        let device = self.device.clone();
        let allowed = self
            .check_alive()
            .and_then(|()| kernel::of_device(kernel, &device))
            .and_then(|built| launch.check(self, |region| device.holds(region)).map(|()| built))
            .and_then(|built| Ok((built, device.context().enter()?)));
        let (built, cuda) = match allowed {
            Ok(allowed) => allowed,
            Err(error) => return Err(Refused { transfer: launch, error }),
        };
        let Prepared { numbers, landing, gathered, mut parameters } =
            match self.prepare(&cuda, kernel, &mut launch) {
                Ok(prepared) => prepared,
                Err(error) => return Err(Refused { transfer: launch, error }),
            };
        let output = parameters.output;
        let mut work = Enqueue::new(&cuda, self.queue.raw());
        if launch.route() == Route::Copied {
            self.enqueue_upload(&mut work, launch.upload(), gathered.as_ref());
        }
        work.call(|cuda, stream| {
            // SAFETY: the memory for outputs begins with a word for each message.
            unsafe { cuda.fill(output, numbers.output_bytes, numbers.count as usize, stream) }
        });
        // SAFETY: the function is there, with its module, as long as the kernel, which the transfer has. The batch is in the
        // device queue, or where the device reaches it, and stays with the transfer (I1, I2); outputs have their memory. That
        // the function takes such parameters, and keeps to them, is the promise of whoever gave the code.
        unsafe { parameters.launch(&mut work, built.function()) };
        let target = launch.landing_mut();
        Self::enqueue_download(&mut work, output, target, numbers.all_bytes, landing.as_ref());
        match work.end() {
            Ok(refused) => {
                let transfer = in_flight(Transfer::Launch(launch), refused);
                let transfer = InFlight { gathered, landing, kernel: Some(kernel.clone()), ..transfer };
                Ok(self.take_over(&cuda, transfer))
            }
            Err(failure) => {
                self.gatherer.give_back(gathered);
                self.gatherer.give_back(landing);
                Err(Refused { transfer: launch, error: failure.into() })
            }
        }
    }

    /// Chooses how the kernel reads the batch, and finds memory for what it needs.
    fn prepare(
        &mut self,
        cuda: &Current<'_>,
        kernel: &Kernel,
        launch: &mut Launch,
    ) -> Result<Prepared, DeviceError> {
        let too_long = || DeviceError::OtherKernel {
            entry: kernel.entry().to_owned(),
            reason: "a kernel is told sizes as words of 32 bits: use smaller messages, or fewer in a batch",
        };
        let numbers = LaunchNumbers::of(launch).ok_or_else(too_long)?;
        let mapped = self.mapped(launch.upload());
        launch.set_route(if mapped.is_some() { Route::Mapped } else { Route::Copied });
        let (slots, slots_at) =
            mapped.unwrap_or_else(|| (self.memory.pointer(), launch.upload().device_range().start));
        let output = self.output(cuda, numbers.all_bytes)?;
        let parameters = BatchParameters {
            slots,
            slots_at: slots_at as u64,
            count: numbers.count,
            slot_bytes: numbers.slot_bytes,
            prefix_bytes: numbers.prefix_bytes,
            output,
            outputs_at: numbers.outputs_at,
            output_bytes: numbers.output_bytes,
        };
        let gathered = if mapped.is_none() { self.gather(launch.upload())? } else { None };
        match self.through(launch.landing_mut(), numbers.all_bytes) {
            Ok(landing) => Ok(Prepared { numbers, landing, gathered, parameters }),
            Err(error) => {
                self.gatherer.give_back(gathered);
                Err(error)
            }
        }
    }

    /// Where the device finds a batch that it is to read where it is.
    fn mapped(&self, upload: &Upload) -> Option<(CUdeviceptr, usize)> {
        let mut pieces = upload.pieces();
        let (start, len_bytes) = pieces.next()?;
        if pieces.next().is_some() || len_bytes > self.mapped_up_to_bytes() {
            return None;
        }
        Registered::of(upload.region())?.mapped(&(start.addr()..start.addr() + len_bytes))
    }

    /// Memory for the outputs of a launch.
    fn output(&mut self, cuda: &Current<'_>, len_bytes: usize) -> Result<CUdeviceptr, Failure> {
        if let Some((memory, _)) = self.output.as_ref().filter(|(_, there)| *there >= len_bytes) {
            return Ok(memory.pointer());
        }
        // Of a power of two: what is outgrown is never more than what is there.
        let wanted = len_bytes.checked_next_power_of_two().unwrap_or(len_bytes);
        let memory = Handle::<Memory>::allocate(cuda, self.device.context(), wanted)?;
        let pointer = memory.pointer();
        self.outgrown.extend(self.output.replace((memory, wanted)).map(|(memory, _)| memory));
        Ok(pointer)
    }

    /// [`Stream::dispatch`].
    pub(super) fn run_over_queues(
        &mut self,
        kernel: &Kernel,
        dispatch: Dispatch,
    ) -> Result<Ticket, Refused<Dispatch>> {
        let device = self.device.clone();
        let allowed = self
            .check_alive()
            .and_then(|()| kernel::of_device(kernel, &device))
            .and_then(|built| dispatch.check(self).map(|()| built))
            .and_then(|built| Ok((built, device.context().enter()?)));
        let (built, cuda) = match allowed {
            Ok(allowed) => allowed,
            Err(error) => return Err(Refused { transfer: dispatch, error }),
        };
        let mut memory = self.memory.pointer();
        let (mut inbound, mut outbound) = (dispatch.inbound as u64, dispatch.outbound as u64);
        let mut parameters: [*mut c_void; 3] =
            [(&raw mut memory).cast(), (&raw mut inbound).cast(), (&raw mut outbound).cast()];
        let mut work = Enqueue::new(&cuda, self.queue.raw());
        // SAFETY: as for `launch_batch`; the queues are in the device queue's memory (checked by `Dispatch::check`), in the
        // form that whoever has put them there vouches for.
        unsafe { run(&mut work, built.function(), dispatch.work_items, &mut parameters) };
        match work.end() {
            Ok(refused) => {
                let transfer = in_flight(Transfer::Dispatch(dispatch), refused);
                let transfer = InFlight { kernel: Some(kernel.clone()), ..transfer };
                Ok(self.take_over(&cuda, transfer))
            }
            Err(failure) => Err(Refused { transfer: dispatch, error: failure.into() }),
        }
    }
}
