//! The stream: one command queue, and the command buffers that are in it.

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLBuffer, MTLCommandQueue, MTLSharedEvent};

use super::buffer::Buffer;
use super::commands::{Blits, Commands, Queue, SharedEvent};
use super::device::Shared;
use super::edges::EdgeTexture;
use super::imported::Imported;
use super::in_flight::InFlight;
use super::rules::{self, Cut, Ended};
use super::staging::{PATTERN, Staging, Stagings};
use crate::device::pause::{DRAIN, poll_until};
use crate::device::{
    Completion, CopyError, DeviceError, Download, Fill, Refused, Stream, StreamOptions, Ticket, Transfer,
    Upload,
};

/// A stream of a Metal device.
///
/// Native handles that it gives are there while it is. To keep one longer, retain it.
///
/// When it is dropped it waits, two seconds at most, for what is in flight; what then has not provably ended is
/// quarantined.
#[derive(Debug)]
pub struct MetalStream {
    in_flight: VecDeque<InFlight>,
    limit: usize,
    next: Ticket,
    queue_bytes: usize,
    /// What was said when nobody could say how a transfer ended.
    lost: Option<String>,
    stagings: Stagings,
    /// Made for the first upload that needs it.
    edges: Option<EdgeTexture>,
    event: SharedEvent,
    buffer: Buffer,
    queue: Queue,
    device: Arc<Shared>,
}

/// A transfer that the device was given: its commands, and the driver's memory that it goes through.
type Started = Result<(Commands, Option<Staging>), DeviceError>;

impl MetalStream {
    pub(super) fn open(
        device: Arc<Shared>,
        queue: Queue,
        options: &StreamOptions,
    ) -> Result<Self, DeviceError> {
        let limit = options.in_flight;
        Ok(Self {
            // Never longer than this, so that it does not grow.
            in_flight: VecDeque::with_capacity(limit),
            limit,
            next: 0,
            queue_bytes: options.queue_bytes,
            lost: None,
            stagings: Stagings::default(),
            edges: None,
            event: device.create_event()?,
            buffer: device.create_device_queue(options.queue_bytes)?,
            queue,
            device,
        })
    }

    /// The command queue. What is committed to it takes its turn among the transfers.
    pub fn command_queue(&self) -> &ProtocolObject<dyn MTLCommandQueue> {
        &self.queue
    }

    /// The buffer that is the device queue: private memory of the device. Batches are where their
    /// [`device_range`](Upload::device_range) says.
    ///
    /// Kernels may read a range from the end of its upload until a later upload to the same range is submitted: that
    /// order is the caller's to keep, by not submitting before the kernel has ended, or by running kernels on
    /// [`command_queue`](MetalStream::command_queue).
    pub fn queue_buffer(&self) -> &ProtocolObject<dyn MTLBuffer> {
        self.buffer.native()
    }

    /// The event of the stream, and the value that it has once the transfer has ended, or a later one: for
    /// `encodeWaitForEvent:value:` in command buffers of other queues. `None` for a ticket that was not given out.
    ///
    /// A transfer that fails may leave the value to the next one. Whether a batch has landed is said by its [`Completion`]
    /// alone, which does not depend on the event: whoever has it may set it.
    pub fn signal(&self, ticket: Ticket) -> Option<(&ProtocolObject<dyn MTLSharedEvent>, u64)> {
        (ticket < self.next).then(|| (&*self.event, value_of(ticket)))
    }

    fn check_alive(&self) -> Result<(), DeviceError> {
        match &self.lost {
            None => Ok(()),
            Some(reason) => Err(DeviceError::Lost { reason: reason.clone() }),
        }
    }

    /// Hands to the device what is to be the next transfer.
    fn commit(&self, passes: &[&dyn Fn(&Blits)]) -> Result<Commands, DeviceError> {
        Commands::commit(&self.queue, &self.event, value_of(self.next), passes)
    }

    fn start_upload(&mut self, upload: &Upload) -> Started {
        let range = upload.device_range();
        let imported = Imported::of(upload.region(), &self.device).filter(|_| rules::is_of_words(&range));
        let Some((source, places)) = imported.and_then(|imported| imported.direct(upload.pieces())) else {
            let staging = self.stagings.copy_of(&self.device, upload)?;
            let committed = self.commit_staged(&range, &staging);
            return self.with_staging(committed, staging);
        };
        let commands = self.commit(&[&|blits| {
            let mut to = range.start;
            for (from, len_bytes) in places.clone() {
                // SAFETY: the range lies within the device queue (checked by `Upload::check`), and the pieces together are as
                // long. Each lies in the slab, whose pages are the source, and all are of whole words. They are initialised,
                // and written by nobody (I1, I3) but processes that lie (I7) until the transfer is given up (I2). What is in
                // the device queue is touched by commands only, in their order.
                unsafe { blits.copy((source, from), (&self.buffer, to), len_bytes) };
                to += len_bytes;
            }
        }])?;
        Ok((commands, None))
    }

    /// Hands to the device the copy of a batch that stands in the driver's memory as it is to stand in this range.
    fn commit_staged(&mut self, range: &Range<usize>, staging: &Staging) -> Result<Commands, DeviceError> {
        let cut = Cut::new(range);
        let base = rules::words_around(range).start;
        let words = |blits: &Blits| {
            let Range { start, end } = cut.words;
            if start < end {
                let source = (staging.buffer(), start - base);
                // SAFETY: the words lie in the range, and so within the device queue; the source is a copy of as many bytes and
                // the transfer's alone until it has ended (I1). Both are at the same distance from a word.
                unsafe { blits.copy(source, (&self.buffer, start), end - start) };
            }
        };
        if cut.edges().next().is_none() {
            return self.commit(&[&words]);
        }
        let texture = match self.edges.take() {
            Some(texture) => texture,
            None => EdgeTexture::new(self.device.native())?,
        };
        let into_texture = |blits: &Blits| {
            for (nth, edge) in cut.edges() {
                // SAFETY: as above, of the bytes of the edge, which are fewer than a word's.
                unsafe {
                    blits.copy_to_edge((staging.buffer(), edge.start - base), (&texture, nth), edge.len());
                }
            }
        };
        let out_of_texture = |blits: &Blits| {
            words(blits);
            for (nth, edge) in cut.edges() {
                // SAFETY: as above; the pass before has written these bytes of the texture.
                unsafe { blits.copy_from_edge((&texture, nth), (&self.buffer, edge.start), edge.len()) };
            }
        };
        let committed = self.commit(&[&into_texture, &out_of_texture]);
        self.edges = Some(texture);
        committed
    }

    fn start_download(&mut self, download: &mut Download) -> Started {
        let range = download.device_range();
        if range.is_empty() {
            return Ok((self.commit(&[])?, None));
        }
        let target = std::iter::once((download.landing_mut().as_mut_ptr().cast_const(), range.len()));
        let imported =
            Imported::of(download.landing().region(), &self.device).filter(|_| rules::is_of_words(&range));
        let Some((target, places)) = imported.and_then(|imported| imported.direct(target)) else {
            let words = rules::words_around(&range);
            let staging = self.stagings.take(&self.device, words.len())?;
            let committed = self.commit(&[&|blits| {
                // SAFETY: the buffer has whole words, so those around the range lie in it; the target was chosen for as many
                // bytes, and is the transfer's alone until it has ended (I1).
                unsafe { blits.copy((&self.buffer, words.start), (staging.buffer(), 0), words.len()) };
            }]);
            return self.with_staging(committed, staging);
        };
        let commands = self.commit(&[&|blits| {
            for (to, len_bytes) in places.clone() {
                // SAFETY: the range lies within the device queue. The target is a landing at least as long (checked by
                // `Download::check`), in the slab whose pages are the buffer, of whole words. It has one owner (I1): the
                // transfer, which keeps it, out of reach of everybody, until the commands have ended (I2, I3).
                unsafe { blits.copy((&self.buffer, range.start), (target, to), len_bytes) };
            }
        }])?;
        Ok((commands, None))
    }

    fn start_fill(&mut self, fill: &Fill) -> Started {
        let range = fill.range.clone();
        if range.is_empty() {
            return Ok((self.commit(&[])?, None));
        }
        if let Some(byte) = rules::repeated_byte(fill.word) {
            let commands = self.commit(&[&|blits| blits.fill(&self.buffer, range.clone(), byte)])?;
            return Ok((commands, None));
        }
        let pattern_bytes = range.len().min(PATTERN);
        let staging = self.stagings.pattern(&self.device, fill.word, pattern_bytes)?;
        let committed = self.commit(&[&|blits| {
            for part in rules::parts(range.clone(), pattern_bytes) {
                // SAFETY: the range lies within the device queue, and is of whole words (checked by `Fill::check`), as is the
                // pattern, which is as long as the longest part, and the transfer's alone until it has ended (I1).
                unsafe { blits.copy((staging.buffer(), 0), (&self.buffer, part.start), part.len()) };
            }
        }]);
        self.with_staging(committed, staging)
    }

    /// Keeps the driver's memory with the commands that name it, or for the next transfer if there are none.
    fn with_staging(&mut self, committed: Result<Commands, DeviceError>, staging: Staging) -> Started {
        match committed {
            Ok(commands) => Ok((commands, Some(staging))),
            Err(error) => {
                self.stagings.give_back(Some(staging));
                Err(error)
            }
        }
    }

    /// Takes a transfer over whose commands the device has.
    fn take_over(&mut self, transfer: Transfer, (commands, staging): (Commands, Option<Staging>)) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        self.in_flight.push_back(InFlight { ticket, transfer, commands, staging });
        ticket
    }

    /// Hands back a transfer that has ended.
    fn complete(&mut self, mut in_flight: InFlight, ended: Ended) -> Completion {
        let result = match ended {
            Ended::Landed => {
                in_flight.bring();
                Ok(())
            }
            Ended::Failed(reason) => Err(CopyError::Failed { reason }),
            Ended::Lost(reason) => {
                self.lost.get_or_insert_with(|| reason.clone());
                in_flight.transfer = in_flight.transfer.quarantine();
                // Not for another transfer. The commands keep it while the device may use it.
                drop(in_flight.staging.take());
                Err(CopyError::Lost { reason })
            }
        };
        self.stagings.give_back(in_flight.staging);
        Completion { ticket: in_flight.ticket, transfer: in_flight.transfer, result }
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Option<Completion> {
        poll_until(self, deadline, |_| true)
    }
}

/// The value that the event of a stream gets behind a transfer: it begins at 0.
fn value_of(ticket: Ticket) -> u64 {
    ticket + 1
}

impl Stream for MetalStream {
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
        let holds = Imported::of(upload.region(), &self.device).is_some();
        let allowed = upload.check(self, holds).and_then(|()| self.check_alive());
        match allowed.and_then(|()| self.start_upload(&upload)) {
            Ok(started) => Ok(self.take_over(Transfer::Upload(upload), started)),
            Err(error) => Err(Refused { transfer: upload, error }),
        }
    }

    fn fetch(&mut self, mut download: Download) -> Result<Ticket, Refused<Download>> {
        let holds = Imported::of(download.landing().region(), &self.device).is_some();
        let allowed = download.check(self, holds).and_then(|()| self.check_alive());
        match allowed.and_then(|()| self.start_download(&mut download)) {
            Ok(started) => Ok(self.take_over(Transfer::Download(download), started)),
            Err(error) => Err(Refused { transfer: download, error }),
        }
    }

    fn fill(&mut self, fill: Fill) -> Result<Ticket, Refused<Fill>> {
        let allowed = fill.check(self).and_then(|()| self.check_alive());
        match allowed.and_then(|()| self.start_fill(&fill)) {
            Ok(started) => Ok(self.take_over(Transfer::Fill(fill), started)),
            Err(error) => Err(Refused { transfer: fill, error }),
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        let ended = self.in_flight.front()?.commands.ended()?;
        let in_flight = self.in_flight.pop_front()?;
        Some(self.complete(in_flight, ended))
    }

    /// Polls until then. Spins at first, then yields, then sleeps for 20 to 200 microseconds at a time.
    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for MetalStream {
    fn drop(&mut self) {
        let deadline = Instant::now() + DRAIN;
        // Dropping a completion gives its memory back.
        while self.wait_until(Some(deadline)).is_some() {}
        let (mut transfers, mut messages) = (0, 0);
        while let Some(in_flight) = self.in_flight.pop_front() {
            if matches!(in_flight.commands.ended(), Some(Ended::Landed | Ended::Failed(_))) {
                continue;
            }
            transfers += 1;
            if let Transfer::Quarantined { messages: of_this } = in_flight.transfer.quarantine() {
                messages += of_this;
            }
        }
        if transfers > 0 {
            // What is Metal's own, its commands keep while they run.
            tracing::warn!(
                transfers,
                messages,
                "a Metal stream was dropped before its device was done: what was in flight is quarantined"
            );
        }
    }
}
