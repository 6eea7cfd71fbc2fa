//! The stream: one in-order command queue, and the events of what is in it.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opencl3::command_queue::flush;
use opencl3::types::{cl_command_queue, cl_event, cl_int, cl_mem};

use super::codes;
use super::commands;
use super::copies::{Copies, Ended};
use super::device::Shared;
use super::gather::{self, Gatherer};
use super::handle::{Buffer, Handle, Queue};
use super::kernel::Functions;
use super::launch::{OutputBuffer, Outputs};
use super::pinned::Allocation;
use crate::device::pause::{DRAIN, poll_until};
use crate::device::{
    Completion, CopyError, DeviceError, Dispatch, Download, Fill, Kernel, Launch, Refused, Stream,
    StreamOptions, Ticket, Transfer, Upload,
};

const WRITE: &str = "clEnqueueWriteBuffer";
const READ: &str = "clEnqueueReadBuffer";
const FILL: &str = "clEnqueueFillBuffer";

/// A stream of an OpenCL device.
///
/// Native handles that it gives are there while it is. To keep one longer, retain it by the rules of OpenCL
/// (`clRetainCommandQueue`, `clRetainMemObject`).
///
/// When it is dropped it waits, two seconds at most, for what is in flight; what then has not provably ended is
/// quarantined.
#[derive(Debug)]
pub struct OpenClStream {
    in_flight: VecDeque<InFlight>,
    limit: usize,
    next: Ticket,
    queue_bytes: usize,
    /// Whether commands were queued that the driver may not have begun.
    unflushed: bool,
    /// What the driver said when it could not say how a transfer ended.
    lost: Option<String>,
    gatherer: Gatherer,
    pub(super) outputs: Outputs,
    pub(super) functions: Functions,
    pub(super) buffer: Handle<Buffer>,
    pub(super) queue: Handle<Queue>,
    pub(super) device: Arc<Shared>,
}

/// A transfer that the driver has. Its memory is the driver's until all events have ended (I1, I2).
#[derive(Debug)]
struct InFlight {
    ticket: Ticket,
    transfer: Transfer,
    copies: Copies,
    /// What the driver reads instead of an upload's own pieces.
    gathered: Option<Allocation>,
    /// What the outputs of a launch are in.
    output: Option<OutputBuffer>,
}

impl InFlight {
    /// Never frees what the driver may still use.
    fn leak(&mut self) {
        self.copies.leak();
        gather::leak(self.gathered.take());
        self.output.iter_mut().for_each(OutputBuffer::leak);
    }
}

impl OpenClStream {
    pub(super) fn new(
        device: Arc<Shared>,
        queue: Handle<Queue>,
        buffer: Handle<Buffer>,
        options: &StreamOptions,
    ) -> Self {
        let limit = options.in_flight;
        Self {
            // Never longer than this, so that no transfer allocates.
            in_flight: VecDeque::with_capacity(limit),
            limit,
            next: 0,
            queue_bytes: options.queue_bytes,
            unflushed: false,
            lost: None,
            gatherer: Gatherer::default(),
            outputs: Outputs::default(),
            functions: Functions::default(),
            buffer,
            queue,
            device,
        }
    }

    /// The command queue: in order.
    pub fn command_queue(&self) -> cl_command_queue {
        self.queue.raw()
    }

    /// The buffer that is the device queue. Batches are where their [`device_range`](Upload::device_range) says.
    ///
    /// Kernels may read a range from the end of its upload until a later upload to the same range is submitted: that
    /// order is the caller's to keep, by not submitting before the kernel has ended, or by running kernels on
    /// [`command_queue`](OpenClStream::command_queue).
    pub fn queue_buffer(&self) -> cl_mem {
        self.buffer.raw()
    }

    /// The event of the last copy of a transfer that is in flight, for the wait lists of commands in the same context:
    /// these then begin after the transfer has ended. The caller gets a reference of its own, to be released by
    /// `clReleaseEvent`.
    ///
    /// `None` if the transfer is not in flight (it was handed back by `poll` already), or is known to have failed in
    /// part.
    ///
    /// If the copy fails, commands that wait for it fail too in most drivers, and run in some. Whether a batch has
    /// landed is said by its [`Completion`] alone.
    pub fn event(&self, ticket: Ticket) -> Option<cl_event> {
        let transfer = self.in_flight.iter().find(|transfer| transfer.ticket == ticket)?;
        transfer.copies.last_event()?.retain_for_caller().ok()
    }

    pub(super) fn check_alive(&self) -> Result<(), DeviceError> {
        match &self.lost {
            None => Ok(()),
            Some(reason) => Err(DeviceError::Lost { reason: reason.clone() }),
        }
    }

    fn write(&self, piece: (*const u8, usize), to: usize) -> Result<cl_event, cl_int> {
        // SAFETY: the range lies within the buffer's bytes that are the device queue (checked by `Upload::check`). The source
        // is a piece of a batch, or what its pieces were gathered in: initialised, written by nobody (I1, I3) but processes
        // that lie (I7), and with the transfer, in `in_flight` or in quarantine, until the copy has ended (I2).
        unsafe { commands::write(&self.queue, &self.buffer, piece, to) }
    }

    /// Enqueues the copies of an upload. None is, if the first is refused.
    pub(super) fn write_all(&mut self, upload: &Upload) -> Result<(Copies, Option<Allocation>), DeviceError> {
        let range = upload.device_range();
        let gathered = self.gatherer.gather(&self.device, upload);
        let whole = gathered.as_ref().map(|memory| (memory.base().as_ptr().cast_const(), range.len()));
        let pieces = upload.pieces().take(if whole.is_some() { 0 } else { usize::MAX });
        let (mut copies, mut to) = (Copies::default(), range.start);
        for piece in whole.into_iter().chain(pieces) {
            if let Err(code) = copies.note(self.write(piece, to)) {
                self.gatherer.give_back(gathered);
                return Err(codes::failed(WRITE, code));
            }
            if !copies.is_whole() {
                break;
            }
            to += piece.1;
        }
        Ok((copies, gathered))
    }

    fn read(&self, from: usize, target: *mut u8, len_bytes: usize) -> Result<cl_event, cl_int> {
        // SAFETY: the range lies within the device queue. The target is a landing at least as long (checked by
        // `Download::check`), which has one owner (I1): the transfer, which keeps it, out of reach of everybody, until the copy
        // has ended (I2, I3).
        unsafe { commands::read(&self.queue, &self.buffer, from, (target, len_bytes)) }
    }

    /// Takes a transfer over whose copies the driver has.
    pub(super) fn take_over(
        &mut self,
        transfer: Transfer,
        copies: Copies,
        gathered: Option<Allocation>,
        output: Option<OutputBuffer>,
    ) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        self.in_flight.push_back(InFlight { ticket, transfer, copies, gathered, output });
        self.unflushed = true;
        self.flush();
        ticket
    }

    /// Sees to it that the driver begins. A failure is no loss: it is tried again by each poll.
    fn flush(&mut self) {
        if self.unflushed {
            match flush(self.queue.raw()) {
                Ok(()) => self.unflushed = false,
                Err(code) => tracing::debug!("clFlush failed: {}", codes::name(code)),
            }
        }
    }

    /// Hands back a transfer that has ended.
    fn complete(&mut self, mut transfer: InFlight, ended: Ended) -> Completion {
        let ticket = transfer.ticket;
        let result = match ended {
            Ended::Landed => Ok(()),
            Ended::Failed(code) => {
                let call = match transfer.transfer {
                    Transfer::Download(_) => READ,
                    Transfer::Fill(_) => FILL,
                    Transfer::Launch(_) => "the launch of a kernel",
                    Transfer::Dispatch(_) => "the dispatch of a kernel",
                    _ => WRITE,
                };
                Err(CopyError::Failed { reason: format!("{call} ended with {}", codes::name(code)) })
            }
            Ended::Unknown(call, code) => {
                let reason = format!("{call} answered {}", codes::name(code));
                self.lost.get_or_insert_with(|| reason.clone());
                transfer.leak();
                transfer.transfer = transfer.transfer.quarantine();
                Err(CopyError::Lost { reason })
            }
        };
        self.gatherer.give_back(transfer.gathered);
        self.outputs.give_back(transfer.output);
        Completion { ticket, transfer: transfer.transfer, result }
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Option<Completion> {
        poll_until(self, deadline, |_| true)
    }
}

impl Stream for OpenClStream {
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
        let allowed =
            upload.check(self, self.device.holds(upload.region())).and_then(|()| self.check_alive());
        if let Err(error) = allowed {
            return Err(Refused { transfer: upload, error });
        }
        match self.write_all(&upload) {
            Ok((copies, gathered)) => Ok(self.take_over(Transfer::Upload(upload), copies, gathered, None)),
            Err(error) => Err(Refused { transfer: upload, error }),
        }
    }

    fn fetch(&mut self, mut download: Download) -> Result<Ticket, Refused<Download>> {
        let holds = self.device.holds(download.landing().region());
        if let Err(error) = download.check(self, holds).and_then(|()| self.check_alive()) {
            return Err(Refused { transfer: download, error });
        }
        let range = download.device_range();
        let needed = range.len();
        let mut copies = Copies::default();
        if needed > 0 {
            let target = download.landing_mut().as_mut_ptr();
            if let Err(code) = copies.note(self.read(range.start, target, needed)) {
                return Err(Refused { transfer: download, error: codes::failed(READ, code) });
            }
        }
        Ok(self.take_over(Transfer::Download(download), copies, None, None))
    }

    fn fill(&mut self, fill: Fill) -> Result<Ticket, Refused<Fill>> {
        if let Err(error) = fill.check(self).and_then(|()| self.check_alive()) {
            return Err(Refused { transfer: fill, error });
        }
        let mut copies = Copies::default();
        if !fill.range.is_empty() {
            // SAFETY: the range was checked, and is of whole words (by `Fill::check`).
            let event = unsafe { commands::fill(&self.queue, &self.buffer, fill.range.clone(), fill.word) };
            if let Err(code) = copies.note(event) {
                return Err(Refused { transfer: fill, error: codes::failed(FILL, code) });
            }
        }
        Ok(self.take_over(Transfer::Fill(fill), copies, None, None))
    }

    fn launch(&mut self, kernel: &Kernel, launch: Launch) -> Result<Ticket, Refused<Launch>> {
        self.start_launch(kernel, launch)
    }

    fn dispatch(&mut self, kernel: &Kernel, dispatch: Dispatch) -> Result<Ticket, Refused<Dispatch>> {
        self.start_dispatch(kernel, dispatch)
    }

    fn poll(&mut self) -> Option<Completion> {
        self.flush();
        let ended = self.in_flight.front()?.copies.ended()?;
        let transfer = self.in_flight.pop_front()?;
        Some(self.complete(transfer, ended))
    }

    /// Polls until then: OpenCL has no wait that ends. Spins at first, then yields, then sleeps for 20 to 200
    /// microseconds at a time.
    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    /// A device that is this processor works on threads of this process.
    fn dies_with_process(&self) -> bool {
        self.device.device().is_this_processor()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for OpenClStream {
    fn drop(&mut self) {
        let deadline = Instant::now() + DRAIN;
        // Dropping a completion gives its memory back.
        while self.wait_until(Some(deadline)).is_some() {}
        let (mut transfers, mut messages) = (0, 0);
        while let Some(mut transfer) = self.in_flight.pop_front() {
            if matches!(transfer.copies.ended(), Some(Ended::Landed | Ended::Failed(_))) {
                continue;
            }
            transfer.leak();
            transfers += 1;
            if let Transfer::Quarantined { messages: of_this } = transfer.transfer.quarantine() {
                messages += of_this;
            }
        }
        if transfers > 0 || self.lost.is_some() {
            tracing::warn!(
                transfers,
                messages,
                "an OpenCL stream was dropped before its device was done: what was in flight is quarantined"
            );
            // The driver may still use them.
            self.queue.leak();
            self.buffer.leak();
            let _never_dropped = std::mem::ManuallyDrop::new(self.device.clone());
        }
    }
}
