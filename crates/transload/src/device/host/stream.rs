//! The stream: transfers go to the copy thread, which owns them, and come back when they are done.

use std::any::Any;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use super::device::Registered;
use super::gate::Gate;
use super::kernel::HostKernel;
use crate::device::{
    Completion, CopyError, DeviceError, Download, Fill, Kernel, Launch, Refused, Stream, StreamOptions,
    Ticket, Transfer, Upload,
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
        let Some(function) = kernel.built().downcast_ref::<HostKernel>() else {
            let reason = "it was built by a device of another back end";
            let error = DeviceError::OtherKernel { entry: kernel.entry().to_owned(), reason };
            return Err(Refused { transfer: launch, error });
        };
        if let Err(error) = launch.check(self, |region| self.device.holds(region)) {
            return Err(Refused { transfer: launch, error });
        }
        self.start(Transfer::Launch(launch), Some(function.clone())).map_err(|transfer| match transfer {
            Transfer::Launch(transfer) => Refused { transfer, error: Self::thread_gone() },
            _ => unreachable!("what went in comes out"),
        })
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
        match (&mut transfer, kernel) {
            (Transfer::Upload(upload), _) => self.write(upload),
            (Transfer::Download(download), _) => self.read(download),
            (Transfer::Fill(fill), _) => self.fill(fill),
            (Transfer::Launch(launch), Some(kernel)) => self.launch(launch, &kernel),
            (Transfer::Launch(_) | Transfer::Dispatch(_) | Transfer::Quarantined { .. }, _) => {}
        }
        Completion { ticket, transfer, result: Ok(()) }
    }

    fn write(&self, upload: &Upload) {
        let mut to = upload.device_range().start;
        for (source, len_bytes) in upload.pieces() {
            let target = self.queue.slab().as_ptr().wrapping_add(to);
            // SAFETY: the range was checked against the queue, which this thread alone accesses and keeps there (I1,
            // I2); the pieces together are as long. They are the upload's own (I1), initialised, kept there by it (I2),
            // and elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(source, target, len_bytes) };
            to += len_bytes;
        }
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
        self.write(launch.upload());
        let range = launch.upload().device_range();
        let slots = self.queue.slab().as_ptr().wrapping_add(range.start);
        // SAFETY: the range was checked against the queue, and was just written; this thread alone accesses the queue while
        // the reference lives (I1, I2, I3).
        let slots = unsafe { std::slice::from_raw_parts(slots, range.len()) };
        kernel.run(launch, slots);
    }
}
