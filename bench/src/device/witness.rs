//! Sees what stands in a device's queue when its stream ends.

use std::any::Any;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use transload::device::{
    Completion, Device, Dispatch, Download, Fill, Kernel, Landing, Launch, Refused, Stream, Ticket, Transfer,
    Upload,
};

use super::side::BLANK;

/// How long a device may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Hands all calls on to a stream, and reads its whole queue back before it ends: with any back end, after the pump has
/// stopped its clock.
#[derive(Debug)]
pub(super) struct Witness {
    stream: Box<dyn Stream>,
    landing: Option<Landing>,
    seen: Sender<Result<Vec<u8>>>,
}

impl Witness {
    /// Of a stream, whose queue it makes blank. What it sees comes out of the receiver when the witness is dropped.
    pub(super) fn new(
        device: &dyn Device,
        mut stream: Box<dyn Stream>,
    ) -> Result<(Self, Receiver<Result<Vec<u8>>>)> {
        let queue_bytes = stream.queue_bytes();
        stream.fill(Fill { range: 0..queue_bytes, word: u32::from_le_bytes([BLANK; 4]) })?;
        ended(&mut *stream)?;
        let landing = Some(Landing::new(device, queue_bytes)?);
        let (seen, receiver) = channel();
        Ok((Self { stream, landing, seen }, receiver))
    }

    fn read(&mut self) -> Result<Vec<u8>> {
        ensure!(self.stream.in_flight() == 0, "the pump has left transfers in flight");
        let landing = self.landing.take().context("it was read before")?;
        self.stream.fetch(Download::new(0..self.stream.queue_bytes(), landing))?;
        match ended(&mut *self.stream)? {
            Transfer::Download(download) => Ok(download.into_landing().as_slice().to_vec()),
            other => bail!("{other:?} came back from the device"),
        }
    }
}

/// Waits for the only transfer.
fn ended(stream: &mut dyn Stream) -> Result<Transfer> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(Completion { transfer, result, .. }) = stream.wait(PATIENCE) {
            result?;
            return Ok(transfer);
        }
    }
    Err(anyhow!("the device has not answered for {PATIENCE:?}"))
}

impl Drop for Witness {
    fn drop(&mut self) {
        let seen = self.read();
        // Nobody asks for it if the run has failed.
        let _ = self.seen.send(seen);
    }
}

impl Stream for Witness {
    fn queue_bytes(&self) -> usize {
        self.stream.queue_bytes()
    }

    fn in_flight_limit(&self) -> usize {
        self.stream.in_flight_limit()
    }

    fn in_flight(&self) -> usize {
        self.stream.in_flight()
    }

    fn submit(&mut self, upload: Upload) -> Result<Ticket, Refused<Upload>> {
        self.stream.submit(upload)
    }

    fn fetch(&mut self, download: Download) -> Result<Ticket, Refused<Download>> {
        self.stream.fetch(download)
    }

    fn fill(&mut self, fill: Fill) -> Result<Ticket, Refused<Fill>> {
        self.stream.fill(fill)
    }

    fn launch(&mut self, kernel: &Kernel, launch: Launch) -> Result<Ticket, Refused<Launch>> {
        self.stream.launch(kernel, launch)
    }

    fn dispatch(&mut self, kernel: &Kernel, dispatch: Dispatch) -> Result<Ticket, Refused<Dispatch>> {
        self.stream.dispatch(kernel, dispatch)
    }

    fn mapped_up_to_bytes(&self) -> usize {
        self.stream.mapped_up_to_bytes()
    }

    fn poll(&mut self) -> Option<Completion> {
        self.stream.poll()
    }

    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        self.stream.wait(timeout)
    }

    fn dies_with_process(&self) -> bool {
        self.stream.dies_with_process()
    }

    fn as_any(&self) -> &dyn Any {
        self.stream.as_any()
    }
}
