//! What a message costs through the pump to the host: no allocation.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_types, reason = "a global allocator counts with what core gives it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use transload::device::host::HostDevice;
use transload::device::{Device, KernelSource};
use transload::pump::{DeviceQueues, Intake, OnFull, Pump, PumpOptions};
#[cfg(target_os = "linux")]
use transload::shared::{SharedPool, SharedRegion};
use transload::staging::{DequeueError, PinnedStagingBuffer};
use transload_conformance::queues;
use transload_conformance::watchdog::{PATIENCE, until, watch};

/// Counts every allocation of the process.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: by this function's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: by this function's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Over a ring that processes share, with a batch a message, so that each costs all that a batch does.
#[cfg(target_os = "linux")]
#[test]
fn a_running_pump_of_a_shared_ring_allocates_for_no_message() {
    watch("pump costs", || {
        let device = HostDevice::new();
        let region = SharedRegion::builder(64, 64).create().unwrap();
        let (sender, taker) =
            (SharedPool::join(&region, "sender").unwrap(), SharedPool::join(&region, "pump").unwrap());
        let options = PumpOptions { batch_bytes: 64, ..PumpOptions::default() };
        let pump = Pump::open(&device, taker.ring().consumer().unwrap(), options).unwrap();
        let running = pump.spawn().unwrap();
        let stopper = running.stopper().clone();
        let ring = sender.ring();
        let mut total = 0;
        let mut send = |messages: u64| {
            for _ in 0..messages {
                ring.send_copy_timeout(&[1; 64], PATIENCE).unwrap();
            }
            total += messages;
            assert!(until(|| stopper.progress().delivered == total));
        };
        send(10_000);
        let before = ALLOCATIONS.load(Relaxed);
        send(100_000);
        let allocations = ALLOCATIONS.load(Relaxed) - before;
        running.stop(PATIENCE);
        assert!(allocations <= 8, "{allocations} for a hundred thousand batches");
    });
}

/// There and back again, with a kernel between, and small batches.
#[test]
fn a_running_pump_over_queues_allocates_for_no_message() {
    watch("pump costs", || {
        let device = HostDevice::new();
        let source = KernelSource::host(queues::echo(), "echo");
        let kernel = device.build(&source).unwrap();
        let ring = || PinnedStagingBuffer::new(1024, 64).unwrap().split();
        let ((producer, feed), (back, mut consumer)) = (ring(), ring());
        let queues = DeviceQueues::new().inbound(feed, 256).outbound(back, 256).kernel(kernel, 256);
        let options = PumpOptions { batch_bytes: 64 * 64, ..PumpOptions::default() };
        let running = Pump::open_queues(&device, queues, options).unwrap().spawn().unwrap();
        let collecting = std::thread::spawn(move || {
            let mut messages = 0;
            loop {
                match consumer.take(64) {
                    Ok(batch) => messages += batch.messages() as u64,
                    Err(DequeueError::Closed) => return messages,
                    Err(_) => std::thread::yield_now(),
                }
            }
        });
        let stopper = running.stopper().clone();
        let mut total = 0;
        let mut send = |messages: u64| {
            (0..messages).for_each(|_| producer.enqueue(&[1; 64]).unwrap());
            total += messages;
            assert!(until(|| stopper.progress().returned == total));
        };
        send(50_000);
        let before = ALLOCATIONS.load(Relaxed);
        send(500_000);
        let allocations = ALLOCATIONS.load(Relaxed) - before;
        drop(producer);
        assert_eq!((running.join().returned, collecting.join().unwrap()), (550_000, 550_000));
        assert!(allocations <= 8, "{allocations} for half a million messages");
    });
}

#[test]
fn a_running_pump_allocates_for_no_message() {
    watch("pump costs", || {
        let device = HostDevice::new();
        let (producer, consumer) =
            PinnedStagingBuffer::builder(1024, 64).sample_latency(true).build().unwrap().split();
        let pump = Pump::open(&device, consumer, PumpOptions::default()).unwrap();
        let intake = Intake::new(producer, OnFull::Block, &pump).unwrap();
        let running = pump.spawn().unwrap();
        let stopper = running.stopper().clone();
        let mut total = 0;
        let mut send = |messages: u64| {
            for _ in 0..messages {
                intake.offer(&[1; 64]).unwrap();
            }
            total += messages;
            assert!(until(|| stopper.progress().delivered == total));
        };
        // Threads park, queues and lists are used for the first time.
        send(100_000);
        let before = ALLOCATIONS.load(Relaxed);
        send(1_000_000);
        let allocations = ALLOCATIONS.load(Relaxed) - before;
        drop(intake);
        running.join();
        // A twin of the count: it does count.
        let probe = ALLOCATIONS.load(Relaxed);
        drop(std::hint::black_box(Box::new(1)));
        assert_eq!(ALLOCATIONS.load(Relaxed) - probe, 1);
        // A thread that sleeps for the first time is given something to sleep on, be that now. No message is.
        assert!(allocations <= 8, "{allocations} for a million messages");
    });
}
