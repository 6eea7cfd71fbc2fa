//! The device suite on the host, and streams that it must find out.

mod careless;

use transload::device::host::{HostDevice, HostKernel, HostQueues, HostStream};
use transload::device::{Device, KernelSource, StreamOptions};
use transload::memory::SlabError;
use transload::staging::{PinnedStagingBuffer, StagingError};
use transload_conformance::device::Gated;
#[cfg(target_os = "linux")]
use transload_conformance::device::growth;
use transload_conformance::device::ownership::reuse;
#[cfg(target_os = "linux")]
use transload_conformance::device::scatter::reuse as reuse_shared;
use transload_conformance::device::two_queues::Start;
use transload_conformance::device::{dispatches, together};
use transload_conformance::host;
use transload_conformance::queues::TURN;

transload_conformance::device_suite!(host::subject());

/// The twin of [`no_slot_is_reused_before_its_copy`]: a stream that gives slots back when they are submitted.
#[test]
fn a_stream_that_gives_slots_back_too_early_is_found_out() {
    for place in 0..8 {
        let mut gated: Gated = careless::gated();
        let findings = reuse(&mut gated, place);
        assert!(findings.contains(&"a slot came back before its copy"), "{findings:?}");
        assert!(findings.contains(&"what landed is not what was submitted"), "{findings:?}");
    }
}

/// The twin of [`no_buffer_is_reused_before_its_copy`], by the same stream.
#[cfg(target_os = "linux")]
#[test]
fn a_stream_that_gives_shared_buffers_back_too_early_is_found_out() {
    let findings = reuse_shared(&mut careless::gated());
    for finding in [
        "its buffers are not marked as they should be",
        "a buffer came back before its copy",
        "what landed is not what was submitted",
    ] {
        assert!(findings.contains(&finding), "{findings:?}");
    }
}

/// The twin of [`one_slab_feeds_two_devices`], by the same stream beside a good one.
#[test]
fn a_stream_that_gives_slots_back_too_early_is_found_out_beside_a_good_one() {
    let options = StreamOptions { queue_bytes: together::QUEUE_BYTES, in_flight: together::IN_FLIGHT };
    let good = || (host::subject().gated)(&options).unwrap();
    let careless = || careless::gated_of(together::QUEUE_BYTES);
    let early = "a slot came back before its copy";
    // The good one has the oldest batch: the other's slots wait for its, and are too early then, but written too late to
    // land.
    let findings = together::findings(&mut [good(), careless()]);
    assert!(findings.contains(&early), "{findings:?}");
    let findings = together::findings(&mut [careless(), good()]);
    assert!(findings.contains(&early), "{findings:?}");
    assert!(findings.contains(&"what landed is not what was submitted"), "{findings:?}");
}

/// The twins of the cases over queues: kernels that are wrong.
#[test]
fn kernels_over_queues_that_are_wrong_are_found_out() {
    fn findings(start: Start, kernel: fn(&mut HostQueues<'_>)) -> Vec<&'static str> {
        let device = HostDevice::new();
        let kernel = KernelSource::host(HostKernel::over_queues(kernel), "wrong");
        let kernel = device.build(&kernel).unwrap();
        dispatches::findings(&device, &kernel, start, 8)
    }
    fn turn(message: &[u8], place: &mut [u8]) {
        message.iter().zip(place).for_each(|(byte, to)| *to = byte ^ TURN);
    }
    let full = Start { waiting: 6, ..Start::small() };
    // Takes first, and then there is no room.
    let loses = |queues: &mut HostQueues<'_>| {
        let Some(message) = queues.take() else { return };
        let Some(mut place) = queues.give() else { return };
        turn(message, &mut place);
    };
    assert_eq!(findings(Start::small(), loses), [""; 0]);
    assert_eq!(findings(full, loses), ["what was given is not what was taken"]);
    // Gives a place with nothing in it.
    let invents = |queues: &mut HostQueues<'_>| {
        let Some(mut place) = queues.give() else { return };
        if let Some(message) = queues.take() {
            turn(message, &mut place);
        }
    };
    assert_eq!(findings(Start::small(), invents), ["what was given is not what was taken"]);
    let spoils = |queues: &mut HostQueues<'_>| {
        if let (Some(message), Some(mut place)) = (queues.take(), queues.give()) {
            place.copy_from_slice(message);
        }
    };
    assert_eq!(findings(Start::small(), spoils), ["what was given is not what was taken"]);
    assert_eq!(findings(full, |_| ()), ["messages were left that there was room for"]);
}

/// The twin of [`a_hundred_thousand_submits_take_no_memory`]: something of 64 bytes is kept of each.
#[cfg(target_os = "linux")]
#[test]
fn a_device_that_keeps_something_of_each_submit_is_found_out() {
    let gained = growth::gained(&HostDevice::new(), || {
        std::hint::black_box(Box::leak(Box::new([1_u64; 8])));
    });
    assert!(gained > growth::MOST_BYTES, "{gained}");
}

#[test]
fn nobody_else_is_given_the_memory_of_a_device_queue() {
    let device = HostDevice::new();
    let stream = device.open_stream(&StreamOptions { queue_bytes: 4096, in_flight: 1 }).unwrap();
    let queue = stream.as_any().downcast_ref::<HostStream>().unwrap().queue().clone();
    let refused = PinnedStagingBuffer::builder(16, 256).slab(queue).build();
    assert!(matches!(refused, Err(StagingError::Slab(SlabError::Occupied { .. }))), "{refused:?}");
}
