//! A stream as it must not be: it drops a batch when it is submitted, and copies later.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transload::device::{
    Completion, DeviceError, Download, Fill, Refused, Stream, Ticket, Transfer, Upload, host::HostDevice,
};
use transload_conformance::device::{Gate, Gated, Hold};

/// The stream, with a gate.
pub(crate) fn gated() -> Gated {
    gated_of(8 * 64)
}

/// The stream, with a gate and a queue of so many bytes.
pub(crate) fn gated_of(queue_bytes: usize) -> Gated {
    let closed = Arc::new(Mutex::default());
    let stream = Careless {
        queue: vec![0; queue_bytes],
        closed: closed.clone(),
        in_flight: VecDeque::new(),
        next: 0,
        done: VecDeque::new(),
    };
    Gated {
        stream: Box::new(stream),
        device: Box::new(HostDevice::new()),
        gate: Box::new(CarelessGate(closed)),
    }
}

fn lock(closed: &Mutex<bool>) -> MutexGuard<'_, bool> {
    closed.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct CarelessGate(Arc<Mutex<bool>>);

impl Hold for CarelessGate {
    fn close(&mut self) {
        *lock(&self.0) = true;
    }

    fn open(&mut self) {
        *lock(&self.0) = false;
    }
}

impl Gate for CarelessGate {
    fn fail(&mut self) {
        self.open();
    }
}

#[derive(Debug)]
struct Careless {
    queue: Vec<u8>,
    closed: Arc<Mutex<bool>>,
    in_flight: VecDeque<Job>,
    next: Ticket,
    done: VecDeque<Completion>,
}

#[derive(Debug)]
struct Job {
    ticket: Ticket,
    messages: usize,
    pieces: Vec<(*const u8, usize)>,
    to: usize,
}

// SAFETY: used on one thread only.
unsafe impl Send for Job {}

impl Careless {
    fn work(&mut self) {
        if *lock(&self.closed) {
            return;
        }
        while let Some(Job { ticket, messages, pieces, mut to }) = self.in_flight.pop_front() {
            for (source, len_bytes) in pieces {
                let target = self.queue[to..to + len_bytes].as_mut_ptr();
                // SAFETY: the test keeps the ring there, and writes its slots on this very thread only.
                unsafe { std::ptr::copy_nonoverlapping(source, target, len_bytes) };
                to += len_bytes;
            }
            let transfer = Transfer::Quarantined { messages };
            self.done.push_back(Completion { ticket, transfer, result: Ok(()) });
        }
    }
}

impl Stream for Careless {
    fn queue_bytes(&self) -> usize {
        self.queue.len()
    }

    fn in_flight_limit(&self) -> usize {
        8
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len() + self.done.len()
    }

    fn submit(&mut self, upload: Upload) -> Result<Ticket, Refused<Upload>> {
        let ticket = self.next;
        self.next += 1;
        let (messages, pieces, to) =
            (upload.messages(), upload.pieces().collect(), upload.device_range().start);
        self.in_flight.push_back(Job { ticket, messages, pieces, to });
        drop(upload); // The fault.
        Ok(ticket)
    }

    fn fetch(&mut self, mut download: Download) -> Result<Ticket, Refused<Download>> {
        let ticket = self.next;
        self.next += 1;
        self.work();
        let bytes = &self.queue[download.device_range()];
        let target = download.landing_mut().as_mut_ptr();
        // SAFETY: the landing is as long as the range, and ours.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        self.done.push_back(Completion { ticket, transfer: Transfer::Download(download), result: Ok(()) });
        Ok(ticket)
    }

    fn fill(&mut self, fill: Fill) -> Result<Ticket, Refused<Fill>> {
        Err(Refused { transfer: fill, error: DeviceError::Unsupported { what: "fills" } })
    }

    fn poll(&mut self) -> Option<Completion> {
        self.work();
        self.done.pop_front()
    }

    fn wait(&mut self, _: Duration) -> Option<Completion> {
        self.poll()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
