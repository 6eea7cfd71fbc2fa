//! The stream: one stream of CUDA, and the events of what is in it.

use std::any::Any;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUevent, CUstream};

use super::codes::Failure;
use super::context::Current;
use super::copies::land;
use super::device::Shared;
use super::gather::Gatherer;
use super::in_flight::{Ended, Enqueue, InFlight};
use super::memory::{Event, Handle, Memory, Queue};
use crate::device::pause::{DRAIN, poll_until};
use crate::device::{
    Completion, CopyError, DeviceError, Dispatch, Download, Fill, Kernel, Launch, Refused, Stream,
    StreamOptions, Ticket, Transfer, Upload,
};

/// A stream of a CUDA device.
///
/// Native handles that it gives are there while it is.
///
/// When it is dropped it waits, two seconds at most, for what is in flight; what then has not provably ended is
/// quarantined.
#[derive(Debug)]
pub struct CudaStream {
    in_flight: VecDeque<InFlight>,
    limit: usize,
    next: Ticket,
    queue_bytes: usize,
    /// What the driver said when it could not say how a transfer ended.
    lost: Option<String>,
    /// Events that no transfer has.
    spare: Vec<Handle<Event>>,
    pub(super) gatherer: Gatherer,
    /// Where kernels leave their outputs, and how long it is: made at first use. One is enough: the outputs of a launch are
    /// fetched before the next one begins.
    pub(super) output: Option<(Handle<Memory>, usize)>,
    /// Shorter ones, which a launch in flight may still use.
    pub(super) outgrown: Vec<Handle<Memory>>,
    pub(super) memory: Handle<Memory>,
    pub(super) queue: Handle<Queue>,
    pub(super) device: Arc<Shared>,
    mapped_up_to_bytes: usize,
}

impl CudaStream {
    pub(super) fn new(
        device: Arc<Shared>,
        queue: Handle<Queue>,
        memory: Handle<Memory>,
        options: &StreamOptions,
    ) -> Self {
        let limit = options.in_flight;
        let mapped_up_to_bytes = device.mapped_up_to_bytes();
        Self {
            // Never longer than this, so that no transfer allocates.
            in_flight: VecDeque::with_capacity(limit),
            limit,
            next: 0,
            queue_bytes: options.queue_bytes,
            lost: None,
            spare: Vec::new(),
            gatherer: Gatherer::default(),
            output: None,
            outgrown: Vec::new(),
            memory,
            queue,
            device,
            mapped_up_to_bytes,
        }
    }

    /// The context.
    pub fn context(&self) -> CUcontext {
        self.device.context().raw()
    }

    /// The stream of CUDA that transfers are in.
    pub fn stream(&self) -> CUstream {
        self.queue.raw()
    }

    /// The device memory that is the device queue. Batches are where their [`device_range`](Upload::device_range) says.
    ///
    /// Kernels may read a range from the end of its upload until a later upload to the same range is submitted: that order
    /// is the caller's to keep, by not submitting before the kernel has ended, or by running kernels in
    /// [`stream`](CudaStream::stream).
    pub fn queue_memory(&self) -> CUdeviceptr {
        self.memory.pointer()
    }

    /// The event behind a transfer that is in flight, for `cuStreamWaitEvent`: what is put into that other stream then begins
    /// after the transfer has ended. It is recorded anew for a later transfer once this one was handed back: do not keep it.
    ///
    /// `None` if the transfer is not in flight (it was handed back by `poll` already), or the driver has not yet recorded it.
    pub fn event(&self, ticket: Ticket) -> Option<CUevent> {
        let transfer = self.in_flight.iter().find(|transfer| transfer.ticket == ticket)?;
        transfer.event.as_ref().map(Handle::<Event>::raw)
    }

    /// How many transfers went through pinned memory of the stream, because their own was not pinned.
    pub fn staged_transfers(&self) -> u64 {
        self.gatherer.staged()
    }

    pub(super) fn check_alive(&self) -> Result<(), DeviceError> {
        if !self.device.context().process().is_here() {
            return Err(Failure::forked().into());
        }
        match &self.lost {
            None => Ok(()),
            Some(reason) => Err(DeviceError::Lost { reason: reason.clone() }),
        }
    }

    /// Takes a transfer over that the driver has.
    pub(super) fn take_over(&mut self, cuda: &Current<'_>, mut transfer: InFlight) -> Ticket {
        transfer.ticket = self.next;
        self.next += 1;
        transfer.event = self.record(cuda);
        let ticket = transfer.ticket;
        self.in_flight.push_back(transfer);
        ticket
    }

    /// An event behind all that is in the stream. Nothing if the driver refuses: whoever needs one tries again, and what it
    /// then stands behind is at least as much.
    fn record(&mut self, cuda: &Current<'_>) -> Option<Handle<Event>> {
        let context = self.device.context();
        let event = self.spare.pop().map_or_else(|| Handle::<Event>::create(cuda, context), Ok);
        let recorded = event.and_then(|event| {
            // SAFETY: both are there, and of one context.
            match unsafe { cuda.event_record(event.raw(), self.queue.raw()) } {
                Ok(()) => Ok(event),
                Err(failure) => {
                    self.spare.push(event);
                    Err(failure)
                }
            }
        });
        if let Err(failure) = recorded {
            if failure.is_loss() {
                self.lost.get_or_insert_with(|| failure.to_string());
            }
            tracing::debug!("no event behind a transfer yet: {failure}");
        }
        recorded.ok()
    }

    /// How the oldest transfer ended.
    fn ended(&mut self) -> Option<Ended> {
        let device = self.device.clone();
        let cuda = match device.context().enter() {
            Ok(cuda) => cuda,
            Err(failure) if failure.is_loss() => return Some(Ended::Unknown(failure)),
            Err(_) => return None,
        };
        if self.in_flight.front()?.event.is_none() {
            let event = self.record(&cuda);
            self.in_flight.front_mut()?.event = event;
        }
        self.in_flight.front_mut()?.ended(&cuda, self.queue.raw())
    }

    /// Hands back a transfer that has ended.
    fn complete(&mut self, mut transfer: InFlight, ended: Result<Ended, String>) -> Completion {
        let ticket = transfer.ticket;
        let result = match ended {
            Ok(Ended::Landed) => {
                land(&mut transfer);
                Ok(())
            }
            Ok(Ended::Failed(failure)) => Err(CopyError::Failed { reason: failure.to_string() }),
            Ok(Ended::Unknown(failure)) => Err(CopyError::Lost { reason: failure.to_string() }),
            Err(reason) => Err(CopyError::Lost { reason }),
        };
        if let Err(CopyError::Lost { reason }) = &result {
            self.lost.get_or_insert_with(|| reason.clone());
            transfer.leak();
            transfer.transfer = transfer.transfer.quarantine();
        }
        self.spare.extend(transfer.event);
        self.gatherer.give_back(transfer.gathered);
        self.gatherer.give_back(transfer.landing);
        Completion { ticket, transfer: transfer.transfer, result }
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Option<Completion> {
        poll_until(self, deadline, |stream| stream.device.context().process().is_here())
    }
}

/// What a transfer of this memory is before it has a number and an event.
pub(super) fn in_flight(transfer: Transfer, failure: Option<Failure>) -> InFlight {
    InFlight { ticket: 0, transfer, event: None, failure, gathered: None, landing: None, kernel: None }
}

impl Stream for CudaStream {
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
        let device = self.device.clone();
        let allowed = self.check_alive().and_then(|()| upload.check(self, device.holds(upload.region())));
        let cuda = match allowed.and_then(|()| Ok(device.context().enter()?)) {
            Ok(cuda) => cuda,
            Err(error) => return Err(Refused { transfer: upload, error }),
        };
        let gathered = match self.gather(&upload) {
            Ok(gathered) => gathered,
            Err(error) => return Err(Refused { transfer: upload, error }),
        };
        let mut work = Enqueue::new(&cuda, self.queue.raw());
        self.enqueue_upload(&mut work, &upload, gathered.as_ref());
        match work.end() {
            Ok(refused) => {
                let transfer = InFlight { gathered, ..in_flight(Transfer::Upload(upload), refused) };
                Ok(self.take_over(&cuda, transfer))
            }
            Err(failure) => {
                self.gatherer.give_back(gathered);
                Err(Refused { transfer: upload, error: failure.into() })
            }
        }
    }

    fn fetch(&mut self, mut download: Download) -> Result<Ticket, Refused<Download>> {
        let device = self.device.clone();
        let holds = device.holds(download.landing().region());
        let allowed = self.check_alive().and_then(|()| download.check(self, holds));
        let cuda = match allowed.and_then(|()| Ok(device.context().enter()?)) {
            Ok(cuda) => cuda,
            Err(error) => return Err(Refused { transfer: download, error }),
        };
        let range = download.device_range();
        let from = self.memory.pointer() + range.start as u64;
        let landing = match self.through(download.landing(), range.len()) {
            Ok(landing) => landing,
            Err(error) => return Err(Refused { transfer: download, error }),
        };
        let mut work = Enqueue::new(&cuda, self.queue.raw());
        Self::enqueue_download(&mut work, from, download.landing_mut(), range.len(), landing.as_ref());
        match work.end() {
            Ok(refused) => {
                let transfer = InFlight { landing, ..in_flight(Transfer::Download(download), refused) };
                Ok(self.take_over(&cuda, transfer))
            }
            Err(failure) => {
                self.gatherer.give_back(landing);
                Err(Refused { transfer: download, error: failure.into() })
            }
        }
    }

    fn fill(&mut self, fill: Fill) -> Result<Ticket, Refused<Fill>> {
        let device = self.device.clone();
        let allowed = self.check_alive().and_then(|()| fill.check(self));
        let cuda = match allowed.and_then(|()| Ok(device.context().enter()?)) {
            Ok(cuda) => cuda,
            Err(error) => return Err(Refused { transfer: fill, error }),
        };
        let to = self.memory.pointer() + fill.range.start as u64;
        let mut work = Enqueue::new(&cuda, self.queue.raw());
        if !fill.range.is_empty() {
            work.call(|cuda, stream| {
                // SAFETY: the range lies within the device queue and is of whole words (checked by `Fill::check`).
                unsafe { cuda.fill(to, fill.word, fill.range.len() / 4, stream) }
            });
        }
        match work.end() {
            Ok(refused) => Ok(self.take_over(&cuda, in_flight(Transfer::Fill(fill), refused))),
            Err(failure) => Err(Refused { transfer: fill, error: failure.into() }),
        }
    }

    fn launch(&mut self, kernel: &Kernel, launch: Launch) -> Result<Ticket, Refused<Launch>> {
        self.launch_batch(kernel, launch)
    }

    fn dispatch(&mut self, kernel: &Kernel, dispatch: Dispatch) -> Result<Ticket, Refused<Dispatch>> {
        self.run_over_queues(kernel, dispatch)
    }

    fn mapped_up_to_bytes(&self) -> usize {
        self.mapped_up_to_bytes
    }

    fn poll(&mut self) -> Option<Completion> {
        if self.in_flight.is_empty() {
            return None;
        }
        let ended = match &self.lost {
            Some(reason) if self.device.context().process().is_here() => Err(reason.clone()),
            _ => Ok(self.ended()?),
        };
        let transfer = self.in_flight.pop_front()?;
        Some(self.complete(transfer, ended))
    }

    /// Polls until then: CUDA has no wait that ends. Spins at first, then yields, then sleeps for 20 to 200 microseconds at
    /// a time.
    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if !self.device.context().process().is_here() {
            // The parent's driver has them. Giving slots back here could free those of the parent.
            let _never_dropped = ManuallyDrop::new(std::mem::take(&mut self.in_flight));
            return;
        }
        let deadline = Instant::now() + DRAIN;
        // Dropping a completion gives its memory back.
        while self.wait_until(Some(deadline)).is_some() {}
        let (mut transfers, mut messages) = (0, 0);
        while let Some(mut transfer) = self.in_flight.pop_front() {
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
                "a CUDA stream was dropped before its device was done: what was in flight is quarantined"
            );
            // The driver may still use them.
            self.queue.leak();
            self.memory.leak();
            self.outgrown.extend(self.output.take().map(|(memory, _)| memory));
            self.outgrown.iter_mut().for_each(Handle::leak);
            let _never_dropped = ManuallyDrop::new(self.device.clone());
        }
    }
}
