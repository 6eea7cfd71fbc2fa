//! When batches go out, where they land, and what a pump refuses.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use transload::device::host::HostDevice;
use transload::device::{Device, DeviceError, StreamOptions};
use transload::pump::{Intake, Landed, OnFull, Pump, PumpError, PumpOptions};
use transload::region::{Access, Registrar};
use transload::staging::PinnedStagingBuffer;
use transload_conformance::watchdog::{until, watch};

use crate::kit::{MESSAGE, balanced, devices, options, ring};

/// Runs numbers through a pump and gives what landed where.
fn landed(device: &dyn Device, capacity: usize, options: PumpOptions, messages: u64) -> Vec<Landed> {
    let (producer, consumer) = ring(capacity);
    let landed = Arc::new(Mutex::new(Vec::new()));
    let noted = landed.clone();
    let pump = Pump::open(device, consumer, options)
        .unwrap()
        .on_landed(move |batch| noted.lock().unwrap().push(batch.clone()));
    let intake = Intake::new(producer, OnFull::Block, &pump).unwrap();
    let running = pump.spawn().unwrap();
    for number in 0..messages {
        intake.offer(&number.to_le_bytes()).unwrap();
    }
    drop(intake);
    let report = running.join();
    balanced(&report);
    assert_eq!(report.delivered, messages);
    let landed = std::mem::take(&mut *landed.lock().unwrap());
    assert_eq!(landed.iter().map(|batch| batch.messages as u64).sum::<u64>(), messages);
    landed
}

#[test]
fn batches_land_in_order_and_in_one_piece() {
    watch("landed", || {
        for device in devices("pump::running::batches_land_in_order_and_in_one_piece") {
            let mut options = options();
            // Nothing goes out for its age here.
            options.batch_delay = Duration::from_hours(1);
            let mut next = 0;
            for batch in landed(&*device, 64, options.clone(), 1000) {
                assert_eq!(batch.first_position, next);
                assert!(batch.messages <= 4 && batch.message_size == MESSAGE);
                assert_eq!(batch.device_range.len(), batch.messages * MESSAGE);
                let slot = usize::try_from(batch.first_position).unwrap() % 64;
                assert!(slot + batch.messages <= 64, "a batch goes across the wrap");
                next += batch.messages as u64;
            }
        }
    });
}

#[test]
fn a_lone_message_goes_out_when_its_time_has_come() {
    watch("delay", || {
        let device = HostDevice::new();
        let (producer, consumer) = ring(64);
        let running = Pump::open(&device, consumer, options()).unwrap().spawn().unwrap();
        producer.try_enqueue(&[1; MESSAGE]).unwrap();
        let stopper = running.stopper().clone();
        assert!(until(|| stopper.progress().delivered == 1), "nothing else will come");
        // And not before, if it is to wait for more.
        drop(producer);
        running.join();

        let mut patient = options();
        patient.batch_delay = Duration::from_hours(1);
        let (producer, consumer) = ring(64);
        let running = Pump::open(&device, consumer, patient).unwrap().spawn().unwrap();
        producer.try_enqueue_batch(&[1; 3 * MESSAGE]).unwrap();
        thread::sleep(Duration::from_millis(50));
        let stopper = running.stopper().clone();
        assert_eq!(stopper.progress().delivered, 0, "three of four");
        producer.try_enqueue(&[1; MESSAGE]).unwrap();
        assert!(until(|| stopper.progress().delivered == 4), "four of four");
        producer.try_enqueue(&[1; MESSAGE]).unwrap();
        drop(producer);
        assert_eq!(running.join().delivered, 5, "closed");
    });
}

#[test]
fn odd_shapes_work() {
    watch("shapes", || {
        for device in devices("pump::running::odd_shapes_work") {
            for (capacity, batch_bytes, in_flight) in
                [(2, 1, 1), (2, 1 << 20, 1), (4, 3 * MESSAGE, 3), (64, 1, 8), (64, 64 * MESSAGE, 2)]
            {
                let options = PumpOptions { batch_bytes, in_flight, ..PumpOptions::default() };
                let landed = landed(&*device, capacity, options, 500);
                assert!(landed.iter().all(|batch| batch.messages <= capacity));
            }
        }
    });
}

#[test]
fn a_skipped_slot_is_counted_and_not_delivered() {
    watch("skipped", || {
        let device = HostDevice::new();
        let (producer, consumer) = ring(16);
        let running = Pump::open(&device, consumer, options()).unwrap().spawn().unwrap();
        for round in 0..100u64 {
            producer.enqueue(&round.to_le_bytes()).unwrap();
            drop(producer.reserve_batch_timeout(1, Duration::from_secs(10)).unwrap());
        }
        drop(producer);
        let report = running.join();
        balanced(&report);
        assert_eq!((report.accepted, report.skipped), (100, 100));
    });
}

#[test]
fn what_no_pump_can_be_is_refused() {
    let device = HostDevice::new();
    for (in_flight, batch_bytes) in [(0, 1), (1, 0)] {
        let mut options = options();
        options.in_flight = in_flight;
        options.batch_bytes = batch_bytes;
        let refused = Pump::open(&device, ring(16).1, options);
        assert!(
            matches!(
                refused,
                Err(PumpError::ZeroOption { .. } | PumpError::Device(DeviceError::ZeroOption { .. }))
            ),
            "{refused:?}"
        );
    }
    let mut too_many = options();
    too_many.in_flight = usize::MAX;
    assert!(Pump::open(&device, ring(16).1, too_many).is_err());

    let small = StreamOptions { queue_bytes: MESSAGE - 1, in_flight: 1 };
    let (_producer, consumer) = ring(16);
    let region = device.register(consumer.slab(), Access::READ).unwrap();
    let stream = device.open_stream(&small).unwrap();
    assert!(matches!(
        Pump::with_stream(consumer, region, stream, options()),
        Err(PumpError::Device(DeviceError::OutOfQueue { .. }))
    ));

    let (_producer, consumer) = ring(16);
    let other = PinnedStagingBuffer::new(16, MESSAGE).unwrap();
    let region = device.register(other.slab(), Access::READ).unwrap();
    let stream = device.open_stream(&StreamOptions { queue_bytes: 4096, in_flight: 1 }).unwrap();
    assert!(matches!(
        Pump::with_stream(consumer, region, stream, options()),
        Err(PumpError::Device(DeviceError::NotRegistered { .. }))
    ));

    let (_producer, consumer) = ring(16);
    let region = device.register(consumer.slab(), Access::WRITE).unwrap();
    let stream = device.open_stream(&StreamOptions { queue_bytes: 4096, in_flight: 1 }).unwrap();
    assert!(Pump::with_stream(consumer, region, stream, options()).is_err(), "it cannot be read");
}

#[test]
fn a_producer_of_another_ring_is_refused() {
    let device = HostDevice::new();
    let (own, consumer) = ring(16);
    let (foreign, _other) = ring(16);
    let pump = Pump::open(&device, consumer, options()).unwrap();
    let refused = Intake::new(foreign, OnFull::Block, &pump);
    assert!(matches!(refused, Err(PumpError::ForeignProducer)), "{refused:?}");
    assert!(Intake::new(own, OnFull::Block, &pump).is_ok());
}

#[test]
fn more_in_flight_than_the_stream_takes_is_what_it_takes() {
    let device = HostDevice::new();
    let (producer, consumer) = ring(16);
    let region = device.register(consumer.slab(), Access::READ).unwrap();
    let stream = device.open_stream(&StreamOptions { queue_bytes: 4096, in_flight: 1 }).unwrap();
    let mut options = options();
    options.in_flight = usize::MAX;
    let running = Pump::with_stream(consumer, region, stream, options).unwrap().spawn().unwrap();
    for _ in 0..100 {
        producer.enqueue(&[1; MESSAGE]).unwrap();
    }
    drop(producer);
    assert_eq!(running.join().delivered, 100);
}
