//! A device on whose stream somebody else does things too: the user, with kernels of their own.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use transload::device::{
    Completion, Device, DeviceError, DeviceInfo, Dispatch, Download, Fill, Kernel, Launch, Refused, Stream,
    StreamOptions, Ticket, Upload,
};
use transload::memory::Slab;
use transload::region::{Access, Region, RegisterError, Registrar};

/// What is done on the stream before each download: it says which transfer that was, if any.
pub(crate) type Hand = dyn FnMut(&mut dyn Stream) -> Option<Ticket> + Send;

/// A device with somebody else's hand on its streams.
pub(crate) struct Puppet {
    device: Box<dyn Device>,
    hand: Arc<Mutex<Hand>>,
}

impl Puppet {
    pub(crate) fn new(
        device: impl Device + 'static,
        hand: impl FnMut(&mut dyn Stream) -> Option<Ticket> + Send + 'static,
    ) -> Self {
        Self { device: Box::new(device), hand: Arc::new(Mutex::new(hand)) }
    }
}

impl fmt::Debug for Puppet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Puppet").finish_non_exhaustive()
    }
}

impl Registrar for Puppet {
    fn register(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        self.device.register(slab, access)
    }
}

impl Device for Puppet {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn allocate_slab(&self, buffer_count: usize, buffer_size: usize) -> Result<Slab, DeviceError> {
        self.device.allocate_slab(buffer_count, buffer_size)
    }

    fn open_stream(&self, options: &StreamOptions) -> Result<Box<dyn Stream>, DeviceError> {
        let stream = self.device.open_stream(options)?;
        Ok(Box::new(PuppetStream { stream, hand: self.hand.clone(), foreign: BTreeSet::new() }))
    }
}

struct PuppetStream {
    stream: Box<dyn Stream>,
    hand: Arc<Mutex<Hand>>,
    /// Transfers that the pump knows nothing of.
    foreign: BTreeSet<Ticket>,
}

impl PuppetStream {
    fn own(&mut self, completion: Option<Completion>) -> Option<Completion> {
        completion.filter(|completion| !self.foreign.remove(&completion.ticket))
    }
}

impl fmt::Debug for PuppetStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PuppetStream").finish_non_exhaustive()
    }
}

impl Stream for PuppetStream {
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
        self.foreign.extend((self.hand.lock().unwrap())(&mut *self.stream));
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

    fn poll(&mut self) -> Option<Completion> {
        let completion = self.stream.poll();
        self.own(completion)
    }

    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        let completion = self.stream.wait(timeout);
        self.own(completion)
    }

    fn dies_with_process(&self) -> bool {
        self.stream.dies_with_process()
    }

    fn as_any(&self) -> &dyn Any {
        self.stream.as_any()
    }
}
