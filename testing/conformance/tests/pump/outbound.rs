//! What kernels give in device memory, and a pump brings back.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use transload::device::host::HostDevice;
use transload::device::{Device, Dispatch, Kernel};
use transload::pump::{DeviceQueues, Pump, PumpHandle};
use transload::staging::Consumer;
use transload_conformance::queues::{Course, Subject};
use transload_conformance::watchdog::{until, watch};
use transload_core::Counter;

use crate::kit::{DRAIN, balanced, collect, kernel_over_queues as kernel, options, ring};
use crate::puppet::Puppet;

/// A kernel that gives so many messages, of their numbers, or of zeros, but for each `nth`, which it marks as skipped.
fn giver(device: &dyn Device, messages: u64, nth: u64, zeros: bool) -> (Kernel, Arc<Counter>) {
    let given = Arc::new(Counter::new());
    let count = given.clone();
    let kernel = kernel(device, move |queues| {
        let number = count.value();
        if number < messages
            && let Some(mut place) = queues.give()
        {
            place.copy_from_slice(&if zeros { 0 } else { number }.to_le_bytes());
            if number % nth == nth - 1 {
                place.skip();
            }
            count.set(number + 1);
        }
    });
    (kernel, given)
}

/// A running pump that only brings back what a kernel gives.
fn back_from(
    device: &dyn Device,
    kernel: Option<Kernel>,
    (ring_of, capacity): (usize, usize),
) -> (PumpHandle, Consumer) {
    let (producer, consumer) = ring(ring_of);
    let mut queues = DeviceQueues::new().outbound(producer, capacity).starting_at(u32::MAX - 20);
    if let Some(kernel) = kernel {
        queues = queues.kernel(kernel, 5);
    }
    (Pump::open_queues(device, queues, options()).unwrap().spawn().unwrap(), consumer)
}

#[test]
fn what_a_kernel_gives_comes_back_in_order() {
    watch("queues", || {
        for (ring_of, capacity) in [(2, 1), (16, 8), (4, 64), (64, 4)] {
            let device = HostDevice::new();
            let (kernel, _) = giver(&device, 3000, 3, false);
            let (running, mut consumer) = back_from(&device, Some(kernel), (ring_of, capacity));
            let collecting = thread::spawn(move || collect(&mut consumer));
            assert!(until(|| running.stopper().progress().returned == 2000));
            let report = running.stop(DRAIN);
            balanced(&report);
            assert!(report.error.is_none(), "{report:?}");
            assert_eq!((report.returned, report.unreturned, report.accepted), (2000, 0, 0));
            let expected = (0..3000).filter(|number| number % 3 != 2).collect::<Vec<_>>();
            assert_eq!(collecting.join().unwrap(), expected);
        }
    });
}

#[test]
fn a_message_of_zeros_is_a_message() {
    watch("queues", || {
        let device = HostDevice::new();
        let (kernel, _) = giver(&device, 100, u64::MAX, true);
        let (running, mut consumer) = back_from(&device, Some(kernel), (128, 8));
        assert!(until(|| running.stopper().progress().returned == 100));
        assert_eq!(running.stop(DRAIN).returned, 100);
        assert_eq!(collect(&mut consumer), [0; 100]);
    });
}

/// The user's own kernel fills the queue, of which the pump knows nothing.
#[test]
fn what_kernels_of_others_give_is_found() {
    watch("queues", || {
        let device = HostDevice::new();
        let (kernel, given) = giver(&device, 500, 4, false);
        let dispatch = Dispatch { work_items: 3, inbound: 0, outbound: 0 };
        let puppet = Puppet::new(HostDevice::new(), move |stream| stream.dispatch(&kernel, dispatch).ok());
        let (running, mut consumer) = back_from(&puppet, None, (16, 8));
        let collecting = thread::spawn(move || collect(&mut consumer));
        assert!(until(|| given.value() == 500));
        // What is there when the pump is stopped still comes.
        let report = running.stop(DRAIN);
        assert!(report.error.is_none(), "{report:?}");
        assert_eq!((report.returned, report.unreturned), (375, 0));
        let expected = (0..500).filter(|number| number % 4 != 3).collect::<Vec<_>>();
        assert_eq!(collecting.join().unwrap(), expected);
    });
}

#[test]
fn a_full_ring_holds_the_kernel_up_and_loses_nothing() {
    watch("queues", || {
        let device = HostDevice::new();
        let (kernel, given) = giver(&device, 200, u64::MAX, false);
        let (running, mut consumer) = back_from(&device, Some(kernel), (16, 8));
        assert!(until(|| given.value() == 24));
        thread::sleep(Duration::from_millis(20));
        assert_eq!((given.value(), running.stopper().progress().returned), (24, 16));
        let collecting = thread::spawn(move || collect(&mut consumer));
        assert!(until(|| running.stopper().progress().returned == 200));
        let report = running.stop(DRAIN);
        assert_eq!((report.returned, report.unreturned), (200, 0));
        assert_eq!(collecting.join().unwrap(), (0..200).collect::<Vec<_>>());
    });
}

/// The ring stays full: the pump ends when its time is up, and says what it has left behind.
#[test]
fn a_ring_that_nobody_empties_does_not_hold_the_stop_up() {
    watch("queues", || {
        let device = HostDevice::new();
        let (kernel, given) = giver(&device, 200, u64::MAX, false);
        let (running, mut consumer) = back_from(&device, Some(kernel), (16, 8));
        assert!(until(|| given.value() == 24));
        let report = running.stop(Duration::from_millis(50));
        assert!(report.error.is_none(), "{report:?}");
        assert_eq!((report.returned, report.unreturned), (16, 8));
        assert_eq!(collect(&mut consumer), (0..16).collect::<Vec<_>>());
    });
}

#[test]
fn a_consumer_that_goes_ends_what_was_for_it_alone() {
    watch("queues", || {
        let device = HostDevice::new();
        let (kernel, _) = giver(&device, u64::MAX, u64::MAX, false);
        let (running, consumer) = back_from(&device, Some(kernel), (16, 8));
        drop(consumer);
        let report = running.join();
        assert!(report.error.is_none(), "{report:?}");
        assert!(report.returned <= 16);

        // With messages that go to the device, these go on.
        let subject = Subject::host().unwrap();
        let (producer, pump, consumer) = Course::small().open(&subject).unwrap();
        let running = pump.spawn().unwrap();
        drop(consumer);
        (0..100).for_each(|_| producer.enqueue(&[7; 8]).unwrap());
        drop(producer);
        let report = running.join();
        balanced(&report);
        assert!(report.error.is_none(), "{report:?}");
        assert_eq!((report.delivered, report.returned + report.unreturned), (100, 100));
    });
}
