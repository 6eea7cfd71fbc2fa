//! A device that fails where it is told to.
//!
//! [`Faulty`] wraps any device and does what it does, except for the calls that [`Faults`] names. Whatever is built
//! on devices can be tested with it: a pump must lose nothing when a submit is refused or a copy fails, and must give
//! up cleanly when the device is lost.
//!
//! ```
//! use transload::device::{Device, DeviceError, StreamOptions, host::HostDevice};
//! use transload_conformance::faulty::{Call, Faults, Faulty};
//!
//! let faults = Faults::new();
//! faults.refuse(Call::OpenStream, 0);
//! let device = Faulty::new(Box::new(HostDevice::new()), faults.clone());
//! let options = StreamOptions { queue_bytes: 4096, in_flight: 2 };
//! assert!(matches!(device.open_stream(&options), Err(DeviceError::Driver { .. })));
//! assert!(device.open_stream(&options).is_ok());
//! assert_eq!(faults.count(Call::OpenStream), 2);
//! ```

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transload::device::{
    Completion, CopyError, Device, DeviceError, DeviceInfo, Dispatch, Download, Fill, Kernel, KernelSource,
    Launch, Refused, Stream, StreamOptions, Ticket, Upload,
};
use transload::memory::Slab;
use transload::region::{Access, Region, RegisterError, Registrar};

use crate::device::{Gate, Hold};

/// The calls that can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// [`Registrar::register`].
    Register,
    /// [`Device::allocate_slab`].
    AllocateSlab,
    /// [`Device::open_stream`].
    OpenStream,
    /// [`Stream::submit`].
    Submit,
    /// [`Stream::fetch`].
    Fetch,
    /// [`Device::build`].
    Build,
    /// [`Stream::fill`].
    Fill,
    /// [`Stream::launch`].
    Launch,
    /// [`Stream::dispatch`].
    Dispatch,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::AllocateSlab => "allocate_slab",
            Self::OpenStream => "open_stream",
            Self::Submit => "submit",
            Self::Fetch => "fetch",
            Self::Build => "build",
            Self::Fill => "fill",
            Self::Launch => "launch",
            Self::Dispatch => "dispatch",
        }
    }
}

/// How a transfer is made to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Failed,
    Lost,
}

/// What is to fail, and how often each call was made. A clone is another handle on the same; calls and completions are
/// counted from 0, over the device and all its streams.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    calls: BTreeMap<Call, u64>,
    refused: BTreeSet<(Call, u64)>,
    completions: u64,
    ends: BTreeMap<u64, End>,
    outlives: bool,
}

impl Faults {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Refuses the `nth` call of a kind. The device is not asked.
    pub fn refuse(&self, call: Call, nth: u64) {
        self.lock().refused.insert((call, nth));
    }

    /// Makes the `nth` completion say that the copy failed. The transfer is handed back.
    pub fn fail(&self, nth: u64) {
        self.lock().ends.insert(nth, End::Failed);
    }

    /// Makes the next completion say that the copy failed.
    pub fn fail_next(&self) {
        let mut inner = self.lock();
        let next = inner.completions;
        inner.ends.insert(next, End::Failed);
    }

    /// Makes the `nth` completion say that the device is lost. The transfer is quarantined, and the stream refuses
    /// every later one.
    pub fn lose(&self, nth: u64) {
        self.lock().ends.insert(nth, End::Lost);
    }

    /// Forgets what is still to fail.
    pub fn forget(&self) {
        let mut inner = self.lock();
        inner.refused.clear();
        inner.ends.clear();
    }

    /// Makes streams say that what they have in flight may outlive this process, and treat memory so.
    pub fn outlive_the_process(&self) {
        self.lock().outlives = true;
    }

    /// How many calls of a kind were made, those refused included.
    pub fn count(&self, call: Call) -> u64 {
        self.lock().calls.get(&call).copied().unwrap_or(0)
    }

    /// How many completions were handed out.
    pub fn completions(&self) -> u64 {
        self.lock().completions
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and says whether to refuse it.
    fn refuses(&self, call: Call) -> bool {
        let mut inner = self.lock();
        let count = inner.calls.entry(call).or_default();
        let nth = *count;
        *count += 1;
        inner.refused.contains(&(call, nth))
    }

    /// Counts a completion, and says how it is to end otherwise.
    fn end(&self) -> Option<End> {
        let mut inner = self.lock();
        let nth = inner.completions;
        inner.completions += 1;
        inner.ends.get(&nth).copied()
    }
}

/// A device that fails where [`Faults`] say so, and else is the device that it wraps.
#[derive(Debug)]
pub struct Faulty {
    device: Box<dyn Device>,
    faults: Faults,
}

impl Faulty {
    /// Wraps a device.
    pub fn new(device: Box<dyn Device>, faults: Faults) -> Self {
        Self { device, faults }
    }

    fn injected(&self, call: Call) -> DeviceError {
        injected(self.device.info(), call)
    }
}

fn injected(info: &DeviceInfo, call: Call) -> DeviceError {
    DeviceError::Driver { backend: info.backend, call: call.name(), code: "an injected fault".to_owned() }
}

impl Registrar for Faulty {
    fn register(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        if self.faults.refuses(Call::Register) {
            return Err(RegisterError::Refused {
                registrar: "the faulty device".to_owned(),
                len_bytes: slab.len_bytes(),
                reason: "an injected fault".to_owned(),
            });
        }
        self.device.register(slab, access)
    }
}

impl Device for Faulty {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn allocate_slab(&self, buffer_count: usize, buffer_size: usize) -> Result<Slab, DeviceError> {
        if self.faults.refuses(Call::AllocateSlab) {
            return Err(self.injected(Call::AllocateSlab));
        }
        self.device.allocate_slab(buffer_count, buffer_size)
    }

    fn open_stream(&self, options: &StreamOptions) -> Result<Box<dyn Stream>, DeviceError> {
        if self.faults.refuses(Call::OpenStream) {
            return Err(self.injected(Call::OpenStream));
        }
        let stream = self.device.open_stream(options)?;
        Ok(Box::new(FaultyStream::new(stream, self.info().clone(), self.faults.clone())))
    }

    fn build(&self, source: &KernelSource) -> Result<Kernel, DeviceError> {
        if self.faults.refuses(Call::Build) {
            return Err(self.injected(Call::Build));
        }
        self.device.build(source)
    }
}

/// A stream of a [`Faulty`] device.
#[derive(Debug)]
pub struct FaultyStream {
    stream: Box<dyn Stream>,
    info: DeviceInfo,
    faults: Faults,
    lost: bool,
}

impl FaultyStream {
    /// Wraps a stream of the device of which `info` speaks.
    pub fn new(stream: Box<dyn Stream>, info: DeviceInfo, faults: Faults) -> Self {
        Self { stream, info, faults, lost: false }
    }

    fn refusal(&self, call: Call) -> Option<DeviceError> {
        let refused = self.faults.refuses(call);
        if self.lost {
            return Some(DeviceError::Lost { reason: "an injected fault".to_owned() });
        }
        refused.then(|| injected(&self.info, call))
    }

    fn end(&mut self, mut completion: Completion) -> Completion {
        let reason = "an injected fault".to_owned();
        match self.faults.end() {
            None => {}
            Some(End::Failed) => completion.result = Err(CopyError::Failed { reason }),
            Some(End::Lost) => {
                self.lost = true;
                completion.transfer = completion.transfer.quarantine();
                completion.result = Err(CopyError::Lost { reason });
            }
        }
        completion
    }
}

impl Stream for FaultyStream {
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
        // The wrapped stream checks the rest for itself.
        let marked = if self.dies_with_process() { Ok(()) } else { upload.check(self, true) };
        match self.refusal(Call::Submit).map_or(marked, Err) {
            Err(error) => Err(Refused { transfer: upload, error }),
            Ok(()) => self.stream.submit(upload),
        }
    }

    fn fetch(&mut self, download: Download) -> Result<Ticket, Refused<Download>> {
        match self.refusal(Call::Fetch) {
            Some(error) => Err(Refused { transfer: download, error }),
            None => self.stream.fetch(download),
        }
    }

    fn fill(&mut self, fill: Fill) -> Result<Ticket, Refused<Fill>> {
        match self.refusal(Call::Fill) {
            Some(error) => Err(Refused { transfer: fill, error }),
            None => self.stream.fill(fill),
        }
    }

    fn launch(&mut self, kernel: &Kernel, launch: Launch) -> Result<Ticket, Refused<Launch>> {
        match self.refusal(Call::Launch) {
            Some(error) => Err(Refused { transfer: launch, error }),
            None => self.stream.launch(kernel, launch),
        }
    }

    fn dispatch(&mut self, kernel: &Kernel, dispatch: Dispatch) -> Result<Ticket, Refused<Dispatch>> {
        match self.refusal(Call::Dispatch) {
            Some(error) => Err(Refused { transfer: dispatch, error }),
            None => self.stream.dispatch(kernel, dispatch),
        }
    }

    fn mapped_up_to_bytes(&self) -> usize {
        self.stream.mapped_up_to_bytes()
    }

    fn poll(&mut self) -> Option<Completion> {
        let completion = self.stream.poll()?;
        Some(self.end(completion))
    }

    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        let completion = self.stream.wait(timeout)?;
        Some(self.end(completion))
    }

    fn dies_with_process(&self) -> bool {
        self.stream.dies_with_process() && !self.faults.lock().outlives
    }

    /// The wrapped stream's own type.
    fn as_any(&self) -> &dyn Any {
        self.stream.as_any()
    }
}

/// A gate of a device whose copies do not fail on demand, before a stream of a [`Faulty`] device: failures are injected.
#[derive(Debug)]
pub struct FaultyGate<H: Hold> {
    hold: H,
    faults: Faults,
}

impl<H: Hold> FaultyGate<H> {
    /// The gate itself, and what makes its stream fail.
    pub fn new(hold: H, faults: Faults) -> Self {
        Self { hold, faults }
    }
}

impl<H: Hold> Hold for FaultyGate<H> {
    fn close(&mut self) {
        self.hold.close();
    }

    fn open(&mut self) {
        self.hold.open();
    }
}

impl<H: Hold> Gate for FaultyGate<H> {
    fn fail(&mut self) {
        self.faults.fail_next();
        self.hold.open();
    }
}

impl<H: Hold> Drop for FaultyGate<H> {
    fn drop(&mut self) {
        self.hold.open();
    }
}
