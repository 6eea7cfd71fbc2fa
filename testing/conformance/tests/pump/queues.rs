//! Queues in device memory on the host: what each back end is held to, and what only a kernel of this process shows.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use transload::device::host::{HostDevice, HostKernel, HostQueues, HostStream};
use transload::device::{Device, Fill, Kernel, QueueLayout, QueueLayoutError};
use transload::pump::{DeviceQueues, Pump, PumpError, PumpOptions};
use transload_conformance::faulty::Call;
use transload_conformance::queues::{self, Course, Subject, TURN};
use transload_conformance::watchdog::{until, watch};
use transload_core::Counter;

use crate::kit::{
    self, DRAIN, MESSAGE, balanced, collect, devices, faulty_host, kernel_over_queues as kernel, options,
    ring,
};
use crate::puppet::Puppet;

transload_conformance::queue_suite!(Subject::host);

/// A kernel that takes all that it finds, and what it has taken.
fn taker(device: &dyn Device) -> (Kernel, Arc<Mutex<Vec<u64>>>) {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let notes = taken.clone();
    let kernel = kernel(device, move |queues| {
        while let Some(message) = queues.take() {
            notes.lock().unwrap().push(u64::from_le_bytes(message.try_into().unwrap()));
        }
    });
    (kernel, taken)
}

#[test]
fn kernels_that_do_something_else_are_found_out() {
    let swaps = |queues: &mut HostQueues<'_>| {
        let (first, second) = (queues.take(), queues.take());
        for message in second.into_iter().chain(first) {
            let mut place = queues.give().unwrap();
            message.iter().zip(&mut *place).for_each(|(byte, to)| *to = byte ^ TURN);
        }
    };
    let echoes = |queues: &mut HostQueues<'_>, other: fn(&mut [u8]), times: u32, skips: bool| {
        let Some(message) = queues.take() else { return };
        for _ in 0..times {
            let Some(mut place) = queues.give() else { continue };
            message.iter().zip(&mut *place).for_each(|(byte, to)| *to = byte ^ TURN);
            other(&mut place);
            if skips && message[0] == 3 {
                place.skip();
            }
        }
    };
    watch("queues", move || {
        let course = Course { outbound: 64, work_items: 1, ..Course::small() };
        let findings = |kernel| queues::check(&Subject::of_host_kernel(kernel).unwrap(), course);
        let flips = HostKernel::over_queues(move |queues| echoes(queues, |place| place[5] ^= 1, 1, false));
        assert!(findings(flips).contains(&"a message came back with other bytes"));
        let doubles = HostKernel::over_queues(move |queues| echoes(queues, |_| {}, 2, false));
        assert!(findings(doubles).contains(&"a message came back twice"));
        let loses = HostKernel::over_queues(move |queues| echoes(queues, |_| {}, 1, true));
        let lost = findings(loses);
        assert!(lost.contains(&"a message did not come back"), "{lost:?}");
        assert!(lost.contains(&"what was returned is counted wrongly"), "{lost:?}");
        let swapped = findings(HostKernel::over_queues(swaps));
        assert!(swapped.contains(&"messages came back in another order"), "{swapped:?}");
    });
}

#[test]
fn a_kernel_takes_each_message_in_order() {
    watch("queues", || {
        for (capacity, start) in [(1, 0), (4, u32::MAX - 10), (64, 0), (1024, 0)] {
            let device = HostDevice::new();
            let (kernel, taken) = taker(&device);
            let (producer, feed) = ring(32);
            let queues = DeviceQueues::new().inbound(feed, capacity).kernel(kernel, 1).starting_at(start);
            let running = Pump::open_queues(&device, queues, options()).unwrap().spawn().unwrap();
            (0..3000_u64).for_each(|number| producer.enqueue(&number.to_le_bytes()).unwrap());
            drop(producer);
            let report = running.join();
            balanced(&report);
            assert!(report.error.is_none(), "{report:?}");
            assert_eq!((report.delivered, report.untaken, report.returned), (3000, 0, 0));
            assert_eq!(*taken.lock().unwrap(), (0..3000).collect::<Vec<_>>());
            assert!(report.latency.samples > 0);
        }
    });
}

/// Nothing is told of a batch before its copy has ended, and nothing counts as delivered before the tail has passed.
#[test]
fn the_tail_waits_for_the_copies_before_it() {
    watch("queues", || {
        let (device, faults, gate) = faulty_host();
        let (kernel, taken) = taker(&device);
        let (producer, feed) = ring(32);
        let queues = DeviceQueues::new().inbound(feed, 32).kernel(kernel, 1);
        // Batches are full, however slow the sender is.
        let options = PumpOptions { batch_delay: DRAIN, ..options() };
        let running = Pump::open_queues(&device, queues, options).unwrap().spawn().unwrap();
        let fills = faults.count(Call::Fill);
        gate.close();
        // The first of two batches has to be sent again, behind the second.
        faults.fail_next();
        (0..8_u64).for_each(|number| producer.enqueue(&number.to_le_bytes()).unwrap());
        assert!(until(|| faults.count(Call::Submit) == 2));
        thread::sleep(Duration::from_millis(20));
        let before = (faults.count(Call::Fill), faults.count(Call::Dispatch));
        assert_eq!((before, running.stopper().progress().delivered), ((fills, 0), 0));
        gate.open();
        assert!(until(|| running.stopper().progress().delivered == 8));
        drop(producer);
        let report = running.join();
        balanced(&report);
        assert_eq!((report.failed_copies, faults.count(Call::Submit)), (1, 3));
        assert_eq!(faults.count(Call::Fill), fills + 1, "one fill for both");
        assert_eq!(*taken.lock().unwrap(), (0..8).collect::<Vec<_>>());
    });
}

/// Without retries: what is given up leaves slots that a kernel steps over, and that are used again.
#[test]
fn a_kernel_steps_over_what_was_given_up() {
    watch("queues", || {
        let mut dropped = 0;
        for nth in 0..60 {
            let (device, faults, _) = faulty_host();
            let (kernel, taken) = taker(&device);
            let (producer, feed) = ring(32);
            let queues = DeviceQueues::new().inbound(feed, 8).kernel(kernel, 1);
            let pump = Pump::open_queues(&device, queues, PumpOptions { retries: 0, ..options() }).unwrap();
            faults.refuse(Call::Submit, nth);
            faults.refuse(Call::Submit, nth + 2);
            let running = pump.spawn().unwrap();
            (0..300_u64).for_each(|number| producer.enqueue(&number.to_le_bytes()).unwrap());
            drop(producer);
            let report = running.join();
            balanced(&report);
            assert!(report.error.is_none(), "{report:?}");
            let taken = taken.lock().unwrap();
            assert_eq!(taken.len() as u64, report.delivered);
            assert!(taken.is_sorted() && taken.windows(2).all(|pair| pair[0] != pair[1]), "{taken:?}");
            dropped += report.dropped;
        }
        assert!(dropped >= 60, "{dropped}");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn messages_of_a_shared_ring_go_to_a_kernel() {
    watch("queues", || {
        let device = HostDevice::new();
        let (sender, feed) = kit::shared_feed(500);
        let (kernel, taken) = taker(&device);
        let queues = DeviceQueues::new().inbound(feed, 8).kernel(kernel, 1);
        let running = Pump::open_queues(&device, queues, options()).unwrap().spawn().unwrap();
        kit::send(&sender, 0..500);
        let report = running.join();
        assert!(report.error.is_none(), "{report:?}");
        assert_eq!((report.accepted, report.delivered), (500, 500));
        assert_eq!(*taken.lock().unwrap(), (0..500).collect::<Vec<_>>());
    });
}

/// Nobody takes anything: the queue is filled, and what does not fit waits in the ring.
#[test]
fn a_queue_that_nobody_takes_from_is_filled_and_no_more() {
    watch("queues", || {
        let name = "pump::queues::a_queue_that_nobody_takes_from_is_filled_and_no_more";
        for device in devices(name) {
            filled(&*device);
        }
    });
}

fn filled(device: &dyn Device) {
    let (producer, feed) = ring(16);
    let pump = Pump::open_queues(device, DeviceQueues::new().inbound(feed, 8), options()).unwrap();
    let memory = pump.stream().as_any().downcast_ref::<HostStream>().map(|stream| stream.queue().clone());
    let landed = Arc::new(Mutex::new(Vec::new()));
    let notes = landed.clone();
    let pump = pump.on_landed(move |batch| notes.lock().unwrap().push(batch.clone()));
    let running = pump.spawn().unwrap();
    (0..20_u64).for_each(|number| producer.enqueue(&number.to_le_bytes()).unwrap());
    assert!(until(|| running.stopper().progress().delivered == 8));
    thread::sleep(Duration::from_millis(20));
    let report = running.stop(Duration::from_millis(20));
    balanced(&report);
    assert!(report.error.is_none(), "{report:?}");
    assert_eq!((report.accepted, report.delivered, report.dropped), (20, 8, 12));
    assert_eq!(landed.lock().unwrap().iter().map(|batch| batch.messages).sum::<usize>(), 8);

    // Of other devices, only a kernel could tell.
    let Some(memory) = memory else { return };
    let layout = QueueLayout::new(8, MESSAGE).unwrap();
    // SAFETY: the pump and its stream have ended, and the memory is as long.
    let memory = unsafe { std::slice::from_raw_parts(memory.as_ptr(), layout.len_bytes()) };
    let word = |at: usize| u32::from_le_bytes(memory[at..at + 4].try_into().unwrap());
    assert_eq!([0, 4, 8, 12].map(word), layout.words());
    assert_eq!((word(QueueLayout::TAIL_AT), word(QueueLayout::HEAD_AT)), (8, 0));
    let [slots, _] = layout.slots(0, 8);
    let numbers = memory[slots].as_chunks::<MESSAGE>().0.iter().map(|slot| u64::from_le_bytes(*slot));
    assert_eq!(numbers.collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
}

/// A kernel that takes ten messages, and then none.
fn stops(device: &dyn Device) -> Kernel {
    let taken = Counter::new();
    kernel(device, move |queues| {
        if taken.value() < 10 && queues.take().is_some() {
            taken.add_as_only_writer(1);
        }
    })
}

#[test]
fn a_kernel_that_takes_nothing_more_is_no_hang() {
    watch("queues", || {
        for is_stopped in [false, true] {
            let device = HostDevice::new();
            let (producer, feed) = ring(32);
            let queues = DeviceQueues::new().inbound(feed, 16).kernel(stops(&device), 2);
            let running = Pump::open_queues(&device, queues, options()).unwrap().spawn().unwrap();
            (0..24_u64).for_each(|number| producer.enqueue(&number.to_le_bytes()).unwrap());
            assert!(until(|| running.stopper().progress().delivered == 24));
            let report = if is_stopped {
                running.stop(Duration::from_millis(50))
            } else {
                drop(producer);
                running.join()
            };
            balanced(&report);
            assert_eq!((report.delivered, report.dropped, report.untaken), (24, 0, 14), "{report:?}");
            match &report.error {
                None => assert!(is_stopped),
                Some(PumpError::KernelStopped { entry, messages: 14 }) => {
                    assert!(!is_stopped && entry == "tested");
                }
                Some(error) => panic!("{error}"),
            }
        }
    });
}

/// A kernel that is busy all the time, with nothing: it marks all the room that it finds.
#[test]
fn a_kernel_that_only_marks_slots_is_no_hang() {
    watch("queues", || {
        let device = HostDevice::new();
        let marks = kernel(&device, |queues| {
            if let Some(place) = queues.give() {
                place.skip();
            }
        });
        let ((producer, feed), (back, mut consumer)) = (ring(32), ring(32));
        let queues = DeviceQueues::new().inbound(feed, 16).outbound(back, 8).kernel(marks, 20);
        let running = Pump::open_queues(&device, queues, options()).unwrap().spawn().unwrap();
        (0..5_u64).for_each(|number| producer.enqueue(&number.to_le_bytes()).unwrap());
        drop(producer);
        let report = running.join();
        balanced(&report);
        let is_stopped = matches!(report.error, Some(PumpError::KernelStopped { messages: 5, .. }));
        assert!(is_stopped, "{report:?}");
        assert_eq!((report.delivered, report.returned), (5, 0));
        assert_eq!(collect(&mut consumer), [0; 0]);
    });
}

/// Somebody writes rubbish where the pump reads how far kernels are.
#[test]
fn positions_that_cannot_be_end_the_pump() {
    watch("queues", || {
        let layout = QueueLayout::new(8, MESSAGE).unwrap();
        for (at, what) in [
            (QueueLayout::HEAD_AT, "inbound head"),
            (layout.stride_bytes() + QueueLayout::TAIL_AT, "outbound tail"),
        ] {
            let fill = Fill { range: at..at + 4, word: 1000 };
            let puppet = Puppet::new(HostDevice::new(), move |stream| stream.fill(fill.clone()).ok());
            let ((producer, feed), (back, mut consumer)) = (ring(32), ring(32));
            let queues = DeviceQueues::new().inbound(feed, 8).outbound(back, 8);
            let running = Pump::open_queues(&puppet, queues, options()).unwrap().spawn().unwrap();
            (0..20_u64).for_each(|number| producer.enqueue(&number.to_le_bytes()).unwrap());
            let report = running.join();
            balanced(&report);
            let Some(PumpError::QueueSpoilt { what: said, position: 1000, .. }) = report.error else {
                panic!("{report:?}");
            };
            assert_eq!(said, what);
            assert_eq!(collect(&mut consumer), [0; 0]);
        }
    });
}

#[test]
fn queues_that_cannot_be_are_refused() {
    let device = HostDevice::new();
    let open = |queues| Pump::open_queues(&device, queues, options()).err();
    assert!(matches!(open(DeviceQueues::new()), Some(PumpError::ZeroOption { what: "queues" })));
    let inbound = |capacity| DeviceQueues::new().inbound(ring(16).1, capacity);
    let refused = open(inbound(6));
    let is_capacity =
        matches!(refused, Some(PumpError::QueueLayout(QueueLayoutError::Capacity { wanted: 6, .. })));
    assert!(is_capacity, "{refused:?}");
    let refused = open(inbound(8).kernel(stops(&device), 0));
    assert!(matches!(refused, Some(PumpError::ZeroOption { what: "work_items" })), "{refused:?}");
    let odd = transload::staging::PinnedStagingBuffer::new(16, 6).unwrap().split();
    let refused = open(DeviceQueues::new().outbound(odd.0, 8));
    let is_size =
        matches!(refused, Some(PumpError::QueueLayout(QueueLayoutError::MessageSize { wanted: 6 })));
    assert!(is_size, "{refused:?}");
}
