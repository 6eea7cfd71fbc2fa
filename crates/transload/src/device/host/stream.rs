//! The stream: transfers go to the copy thread, which owns them, and come back when they are done.

use std::any::Any;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use super::device::Registered;
use super::gate::Gate;
use super::kernel::HostKernel;
use crate::device::{
    Completion, CopyError, DeviceError, Dispatch, Download, Fill, Kernel, Launch, Refused, Route, Stream,
    StreamOptions, Ticket, Transfer, Upload,
};
use crate::memory::{Policy, Slab, Tenancy};

const THREAD_GONE: &str = "the copy thread has ended";

/// A stream of the host device.
///
/// When it is dropped, the copy thread finishes what it has; the batches are given back as it does.
#[derive(Debug)]
pub struct HostStream {
    queue: Slab,
    device: Registered,
    limit: usize,
    in_flight: usize,
    next: Ticket,
    jobs: SyncSender<Job>,
    done: Receiver<Completion>,
}

impl HostStream {
    pub(super) fn open(options: &StreamOptions, device: Registered, gate: Gate) -> Result<Self, DeviceError> {
        let queue = Slab::builder(1, options.queue_bytes).lock(Policy::Never).build()?;
        let limit = options.in_flight;
        // Bounded by the transfers in flight, so that no send blocks and none allocates.
        let (jobs, to_do) = sync_channel::<Job>(limit);
        let (finished, done) = sync_channel(limit);
        // The copy thread outlives the stream, and so must its right to the memory.
        let copier = Copier { queue: queue.occupy()?, gate };
        thread::Builder::new()
            .name("transload-copy".to_owned())
            .spawn(move || {
                for job in to_do {
                    let completion = copier.work(job);
                    // Nobody to tell: the stream was dropped. Dropping the completion gives the batch back.
                    let _ = finished.send(completion);
                }
            })
            .map_err(DeviceError::Thread)?;
        Ok(Self { queue, device, limit, in_flight: 0, next: 0, jobs, done })
    }

    /// The memory of the device queue. Reading it races with transfers in flight: that is the caller's own risk.
    pub fn queue(&self) -> &Slab {
        &self.queue
    }

    fn start(&mut self, transfer: Transfer, kernel: Option<HostKernel>) -> Result<Ticket, Transfer> {
        let ticket = self.next;
        self.jobs.try_send(Job { ticket, transfer, kernel }).map_err(|error| match error {
            std::sync::mpsc::TrySendError::Full(job) | std::sync::mpsc::TrySendError::Disconnected(job) => {
                job.transfer
            }
        })?;
        self.next += 1;
        self.in_flight += 1;
        Ok(ticket)
    }

    fn finished(&mut self, completion: Completion) -> Completion {
        self.in_flight -= 1;
        completion
    }

    fn thread_gone() -> DeviceError {
        DeviceError::Lost { reason: THREAD_GONE.to_owned() }
    }

    /// The copy thread panicked: what it had is gone with it, the oldest first.
    fn lost(&mut self) -> Option<Completion> {
        let ticket = self.next - u64::try_from(self.in_flight).ok().filter(|&count| count > 0)?;
        let transfer = Transfer::Quarantined { messages: 0 };
        let result = Err(CopyError::Lost { reason: THREAD_GONE.to_owned() });
        Some(self.finished(Completion { ticket, transfer, result }))
    }
}

impl Stream for HostStream {
    fn queue_bytes(&self) -> usize {
        self.queue.len_bytes()
    }

    fn in_flight_limit(&self) -> usize {
        self.limit
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn submit(&mut self, upload: Upload) -> Result<Ticket, Refused<Upload>> {
        if let Err(error) = upload.check(self, self.device.holds(upload.region())) {
            return Err(Refused { transfer: upload, error });
        }
        self.start(Transfer::Upload(upload), None).map_err(|transfer| match transfer {
            Transfer::Upload(transfer) => Refused { transfer, error: Self::thread_gone() },
            _ => unreachable!("what went in comes out"),
        })
    }

    fn fetch(&mut self, download: Download) -> Result<Ticket, Refused<Download>> {
        if let Err(error) = download.check(self, self.device.holds(download.landing().region())) {
            return Err(Refused { transfer: download, error });
        }
        self.start(Transfer::Download(download), None).map_err(|transfer| match transfer {
            Transfer::Download(transfer) => Refused { transfer, error: Self::thread_gone() },
            _ => unreachable!("what went in comes out"),
        })
    }

    fn fill(&mut self, fill: Fill) -> Result<Ticket, Refused<Fill>> {
        if let Err(error) = fill.check(self) {
            return Err(Refused { transfer: fill, error });
        }
        self.start(Transfer::Fill(fill), None).map_err(|transfer| match transfer {
            Transfer::Fill(transfer) => Refused { transfer, error: Self::thread_gone() },
            _ => unreachable!("what went in comes out"),
        })
    }

    fn launch(&mut self, kernel: &Kernel, launch: Launch) -> Result<Ticket, Refused<Launch>> {
        let function = match function(kernel, true) {
            Ok(function) => function,
            Err(error) => return Err(Refused { transfer: launch, error }),
        };
        if let Err(error) = launch.check(self, |region| self.device.holds(region)) {
            return Err(Refused { transfer: launch, error });
        }
        self.start(Transfer::Launch(launch), Some(function)).map_err(|transfer| match transfer {
            Transfer::Launch(transfer) => Refused { transfer, error: Self::thread_gone() },
            _ => unreachable!("what went in comes out"),
        })
    }

    fn dispatch(&mut self, kernel: &Kernel, dispatch: Dispatch) -> Result<Ticket, Refused<Dispatch>> {
        match function(kernel, false).and_then(|function| dispatch.check(self).map(|()| function)) {
            Ok(function) => self
                .start(Transfer::Dispatch(dispatch), Some(function))
                .map_err(|_| Refused { transfer: dispatch, error: Self::thread_gone() }),
            Err(error) => Err(Refused { transfer: dispatch, error }),
        }
    }

    /// The kernel reaches everything that is in one piece.
    fn mapped_up_to_bytes(&self) -> usize {
        usize::MAX
    }

    fn poll(&mut self) -> Option<Completion> {
        match self.done.try_recv() {
            Ok(completion) => Some(self.finished(completion)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => self.lost(),
        }
    }

    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        if self.in_flight == 0 {
            return None;
        }
        match self.done.recv_timeout(timeout) {
            Ok(completion) => Some(self.finished(completion)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => self.lost(),
        }
    }

    /// The copy thread is one of this process.
    fn dies_with_process(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The function of a kernel, if it was built here, and for this use.
fn function(kernel: &Kernel, per_message: bool) -> Result<HostKernel, DeviceError> {
    let reason = match kernel.built().downcast_ref::<HostKernel>() {
        None => "it was built by a device of another back end",
        Some(function) if function.is_per_message() == per_message => return Ok(function.clone()),
        Some(_) if per_message => "it is one over queues: dispatch it",
        Some(_) => "it is one for batches: launch it",
    };
    Err(DeviceError::OtherKernel { entry: kernel.entry().to_owned(), reason })
}

/// What the copy thread is given.
struct Job {
    ticket: Ticket,
    transfer: Transfer,
    kernel: Option<HostKernel>,
}

/// What the copy thread owns.
struct Copier {
    queue: Tenancy,
    gate: Gate,
}

impl Copier {
    fn work(&self, Job { ticket, mut transfer, kernel }: Job) -> Completion {
        self.gate.pass();
        let mut result = Ok(());
        match (&mut transfer, kernel) {
            (Transfer::Upload(upload), _) => self.write(upload),
            (Transfer::Download(download), _) => self.read(download),
            (Transfer::Fill(fill), _) => self.fill(fill),
            (Transfer::Launch(launch), Some(kernel)) => self.launch(launch, &kernel),
            (Transfer::Dispatch(dispatch), Some(kernel)) => result = self.dispatch(*dispatch, &kernel),
            (Transfer::Launch(_) | Transfer::Dispatch(_) | Transfer::Quarantined { .. }, _) => {}
        }
        Completion { ticket, transfer, result }
    }

    fn write(&self, upload: &Upload) {
        let target = self.queue.slab().as_ptr().wrapping_add(upload.device_range().start);
        // SAFETY: the range was checked against the queue, which this thread alone accesses and keeps there (I1, I2); the
        // upload's memory is elsewhere.
        unsafe { upload.copy_to(target) };
    }

    fn read(&self, download: &mut Download) {
        let range = download.device_range();
        let source = self.queue.slab().as_ptr().wrapping_add(range.start);
        let target = download.landing_mut().as_mut_ptr();
        // SAFETY: the range was checked against queue and landing; both are this thread's alone while the download is
        // in flight (I1, I2), and are different slabs.
        unsafe { std::ptr::copy_nonoverlapping(source, target, range.len()) };
    }

    fn fill(&self, fill: &Fill) {
        for offset in fill.range.clone().step_by(4) {
            let target = self.queue.slab().as_ptr().wrapping_add(offset).cast::<[u8; 4]>();
            // SAFETY: the range was checked against the queue and is of whole words; this thread alone accesses the queue
            // (I1, I2).
            unsafe { target.write(fill.word.to_le_bytes()) };
        }
    }

    fn launch(&self, launch: &mut Launch, kernel: &HostKernel) {
        let slots_like = (launch.upload().payload().message_size(), launch.prefix_bytes());
        let layout = launch.layout();
        let (upload, landing) = launch.parts_mut();
        if let Some(slots) = upload.payload().private_piece() {
            kernel.run(slots, slots_like, layout, landing);
            launch.set_route(Route::Mapped);
            return;
        }
        self.write(upload);
        let range = upload.device_range();
        let slots = self.queue.slab().as_ptr().wrapping_add(range.start);
        // SAFETY: the range was checked against the queue, and was just written; this thread alone accesses the queue while
        // the reference lives (I1, I2, I3).
        let slots = unsafe { std::slice::from_raw_parts(slots, range.len()) };
        kernel.run(slots, slots_like, layout, landing);
        launch.set_route(Route::Copied);
    }

    fn dispatch(&self, dispatch: Dispatch, kernel: &HostKernel) -> Result<(), CopyError> {
        let slab = self.queue.slab();
        // SAFETY: the queue is initialised and stays there while `self` does (I2); this thread alone accesses it while the
        // reference lives (I1, I3).
        let memory = unsafe { std::slice::from_raw_parts_mut(slab.as_ptr(), slab.len_bytes()) };
        kernel.run_over_queues(memory, dispatch).map_err(|reason| CopyError::Failed { reason })
    }
}
