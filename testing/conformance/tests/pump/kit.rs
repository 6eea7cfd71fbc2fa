//! What the tests of the pump share.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use transload::device::host::{Gate, HostDevice, HostKernel, HostQueues};
use transload::device::{self, Device, Kernel, KernelSource};
#[cfg(target_os = "linux")]
use transload::pump::SharedFeed;
use transload::pump::{Intake, OnFull, Pump, PumpHandle, PumpOptions, Report, Sink};
#[cfg(target_os = "linux")]
use transload::shared::{SharedPool, SharedRegion};
use transload::staging::{Consumer, DequeueError, PinnedStagingBuffer, Producer};
use transload_conformance::faulty::{Faults, Faulty};
use transload_conformance::skip::skip;
#[cfg(target_os = "linux")]
use transload_conformance::watchdog::PATIENCE;

/// Bytes in a message of these tests: its number, little-endian.
pub(crate) const MESSAGE: usize = 8;

/// How long a pump may take to drain.
pub(crate) const DRAIN: Duration = Duration::from_secs(30);

/// A host device whose copies a gate can hold and whose calls can fail.
pub(crate) fn faulty_host() -> (Faulty, Faults, Gate) {
    let (faults, gate) = (Faults::new(), Gate::new());
    (Faulty::new(Box::new(HostDevice::with_gate(gate.clone())), faults.clone()), faults, gate)
}

/// Batches of four messages, two in flight.
pub(crate) fn options() -> PumpOptions {
    PumpOptions { batch_bytes: 4 * MESSAGE, in_flight: 2, ..PumpOptions::default() }
}

/// A ring of so many messages.
pub(crate) fn ring(capacity: usize) -> (Producer, Consumer) {
    PinnedStagingBuffer::builder(capacity, MESSAGE).sample_latency(true).build().unwrap().split()
}

/// What came back, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collected {
    pub(crate) numbers: Arc<Mutex<Vec<u64>>>,
    pub(crate) lost: Arc<Mutex<usize>>,
    /// Fails after so many messages.
    pub(crate) fails_after: Option<usize>,
}

impl Collected {
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.numbers.lock().unwrap().clone()
    }

    /// How many messages it was told will not come.
    pub(crate) fn lost(&self) -> usize {
        *self.lost.lock().unwrap()
    }
}

impl Sink for Collected {
    fn receive(&mut self, messages: &[u8], message_size: usize) -> io::Result<()> {
        assert_eq!(message_size, MESSAGE);
        let mut numbers = self.numbers.lock().unwrap();
        if self.fails_after.is_some_and(|most| numbers.len() >= most) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no room"));
        }
        numbers.extend(
            messages.chunks_exact(MESSAGE).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())),
        );
        Ok(())
    }

    fn lost(&mut self, messages: usize) {
        *self.lost.lock().unwrap() += messages;
    }
}

/// A running pump with an intake that reads everything back.
pub(crate) struct Rig {
    pub(crate) intake: Intake,
    pub(crate) running: PumpHandle,
    pub(crate) back: Collected,
}

impl Rig {
    pub(crate) fn new(device: &dyn Device, capacity: usize, on_full: OnFull) -> Self {
        let (producer, consumer) = ring(capacity);
        let back = Collected::default();
        let pump = Pump::open(device, consumer, options()).unwrap().read_back(device, back.clone()).unwrap();
        let intake = Intake::new(producer, on_full, &pump).unwrap();
        Self { intake, running: pump.spawn().unwrap(), back }
    }

    /// Lets go of the ring and waits for the pump.
    pub(crate) fn finish(self) -> (Report, Vec<u64>) {
        drop(self.intake);
        let report = self.running.join();
        balanced(&report);
        (report, self.back.numbers())
    }
}

/// What holds for every pump that has ended.
pub(crate) fn balanced(report: &Report) {
    assert_eq!(report.accepted, report.delivered + report.dropped, "{report:?}");
    assert_eq!(report.bytes, report.delivered * MESSAGE as u64);
}

/// The devices that tests without gates run on: the host, OpenCL and Vulkan where they are, and CUDA, by its stand-in as a
/// rule.
pub(crate) fn devices(test: &str) -> Vec<Box<dyn Device>> {
    let mut devices: Vec<Box<dyn Device>> = vec![Box::new(HostDevice::new())];
    for name in ["opencl", "vulkan"] {
        match device::open(&name.parse().unwrap()) {
            Ok(device) => devices.push(device),
            Err(error) => skip(test, &error.to_string()),
        }
    }
    #[cfg(target_os = "linux")]
    devices.push(Box::new(transload_conformance::cuda::device()));
    devices
}

/// A kernel of the host.
pub(crate) fn kernel_over_queues(
    device: &dyn Device,
    function: impl Fn(&mut HostQueues<'_>) + Send + Sync + 'static,
) -> Kernel {
    device.build(&KernelSource::host(HostKernel::over_queues(function), "tested")).unwrap()
}

/// All that comes until the ring closes.
pub(crate) fn collect(consumer: &mut Consumer) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        match consumer.take(7) {
            Ok(batch) => {
                numbers.extend(batch.iter().map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())));
            }
            Err(DequeueError::Closed) => return numbers,
            Err(_) => thread::yield_now(),
        }
    }
}

/// A ring that processes share, as a feed of so many messages, and the pool of who sends them.
#[cfg(target_os = "linux")]
pub(crate) fn shared_feed(messages: u64) -> (SharedPool, SharedFeed) {
    let region = SharedRegion::builder(16, MESSAGE).create().unwrap();
    let (sender, pool) =
        (SharedPool::join(&region, "sender").unwrap(), SharedPool::join(&region, "pump").unwrap());
    (sender, SharedFeed::new(pool.ring().consumer().unwrap()).at_most(messages))
}

/// Sends messages of these numbers into a ring that processes share, as there is room.
#[cfg(target_os = "linux")]
pub(crate) fn send(sender: &SharedPool, numbers: std::ops::Range<u64>) {
    for number in numbers {
        sender.ring().send_copy_timeout(&number.to_le_bytes(), PATIENCE).unwrap();
    }
}
