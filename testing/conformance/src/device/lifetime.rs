//! Devices, streams and slabs may go in any order and on any thread.

use std::thread;

use transload::device::{Device, Stream, StreamOptions};
use transload::memory::{Policy, Slab};
use transload::region::{Access, Registration};

use super::alone::{is_alone, run_alone};
use super::rig::{Rig, bring, finish, next};
use super::subject::Run;

const OPTIONS: StreamOptions = StreamOptions { queue_bytes: 1024, in_flight: 2 };

/// Streams, regions and slabs keep what they need of the device.
pub fn the_device_goes_first(run: &Run) {
    let device = run.device();
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    let mut rig = Rig::new(&*device, 8, 64);
    let slab = device.allocate_slab(8, 64).unwrap();
    let mut second = Rig::over(&*device, slab, 8, 64);
    drop(device);
    for rig in [&mut rig, &mut second] {
        stream.submit(rig.upload(8, 0).0).unwrap();
    }
    drop(next(&mut *stream).expect_upload());
    // The other is in flight.
    drop(stream);
    drop((rig, second));
}

/// Device, stream, ring, and what a transfer has handed back, dropped in each of the orders there are, with another
/// transfer in flight.
pub fn any_order_of_drops(run: &Run) {
    for order in 0..24 {
        let device = run.device();
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&*device, 8, 64);
        stream.submit(rig.upload(4, 0).0).unwrap();
        let done = next(&mut *stream);
        stream.submit(rig.upload(4, 0).0).unwrap();
        let mut left: Vec<Box<dyn std::any::Any>> =
            vec![Box::new(device), Box::new(stream), Box::new(rig), Box::new(done)];
        for choices in (1..=4).rev() {
            let nth = [order / 6, order / 2 % 3, order % 2, 0][4 - choices];
            drop(left.remove(nth));
        }
    }
}

/// The process ends while everything is alive, and a transfer in flight: nothing is said of it, and the exit is a success.
pub fn exit_with_everything_alive(run: &Run) {
    if is_alone() {
        let device = run.device();
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&*device, 8, 64);
        let slab = device.allocate_slab(8, 64).unwrap();
        stream.submit(rig.upload(4, 0).0).unwrap();
        Box::leak(Box::new((device, stream, rig, slab)));
        std::process::exit(0);
    }
    let (status, said) = run_alone(run);
    let said: Vec<_> = said.lines().filter(|line| !line.is_empty() && *line != "running 1 test").collect();
    assert!(status.success() && said.is_empty(), "{status}: {said:?}");
}

/// Made on one thread, used on a second, dropped on a third.
pub fn everything_moves_between_threads(run: &Run) {
    let device = run.device();
    let stream = device.open_stream(&OPTIONS).unwrap();
    let rig = Rig::new(&*device, 8, 64);
    let slab = device.allocate_slab(8, 64).unwrap();
    let used = move |mut stream: Box<dyn Stream>, mut rig: Rig, device: Box<dyn Device>| {
        let (upload, bytes) = rig.upload(8, 0);
        stream.submit(upload).unwrap();
        finish(&mut *stream);
        assert_eq!(bring(&*device, &mut *stream, 0..512), bytes);
        stream.submit(rig.upload(8, 0).0).unwrap();
        (stream, rig, device, slab)
    };
    let everything = thread::spawn(move || used(stream, rig, device)).join().unwrap();
    thread::spawn(move || drop(everything)).join().unwrap();
}

/// Memory that the driver allocates: zeroed, writable, and good for a ring.
pub fn a_slab_of_the_device_feeds_a_ring(run: &Run) {
    let device = run.device();
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    for (capacity, size) in [(8, 64), (16, 63), (2, 1)] {
        let slab = device.allocate_slab(capacity, size).unwrap();
        assert_eq!((slab.buffer_count(), slab.buffer_size()), (capacity, size));
        let region = device.register(&slab, Access::READ).unwrap();
        assert!(
            matches!(region.registration(), Registration::Pinned | Registration::Mapped),
            "{}",
            region.registration()
        );
        let mut rig = Rig::over(&*device, slab, capacity, size);
        for lap in 0..16 {
            let (upload, bytes) = rig.upload(capacity, lap);
            stream.submit(upload).unwrap();
            finish(&mut *stream);
            assert_eq!(bring(&*device, &mut *stream, lap..lap + bytes.len()), bytes);
        }
    }
}

/// Twice at once, again after the first has ended, and by two devices.
pub fn a_slab_is_registered_more_than_once(run: &Run) {
    let (device, other) = (run.device(), run.device());
    let slab = Slab::builder(8, 64).lock(Policy::Never).build().unwrap();
    let regions = [
        device.register(&slab, Access::READ).unwrap(),
        device.register(&slab, Access::READ_WRITE).unwrap(),
        other.register(&slab, Access::READ).unwrap(),
    ];
    assert_eq!(regions[0].registration(), regions[1].registration());
    drop(regions);
    let mut rig = Rig::over(&*device, slab, 8, 64);
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    let (upload, bytes) = rig.upload(8, 0);
    stream.submit(upload).unwrap();
    finish(&mut *stream);
    assert_eq!(bring(&*device, &mut *stream, 0..512), bytes);
}
