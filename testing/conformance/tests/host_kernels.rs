//! Kernels of the host: what they are given, by launch and by dispatch.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};

use transload::device::host::{HostDevice, HostKernel, HostQueues};
use transload::device::{
    CopyError, Device, DeviceError, Dispatch, Fill, Kernel, KernelSource, Launch, Output, QueueLayout, Reply,
    Route, Stream, StreamOptions, Transfer, Upload,
};
use transload_conformance::device::{Rig, all_of, next};

const SIZE: usize = 8;

fn build(device: &HostDevice, kernel: HostKernel) -> Kernel {
    device.build(&KernelSource::host(kernel, "tested")).unwrap()
}

/// A stream with queues of four messages at these offsets.
fn queues(device: &HostDevice, offsets: &[usize], start: u32) -> Box<dyn Stream> {
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 4096, in_flight: 4 }).unwrap();
    let layout = QueueLayout::new(4, SIZE).unwrap();
    for offset in offsets {
        layout.make_from(&mut *stream, *offset, start).unwrap();
    }
    stream
}

fn fill(stream: &mut dyn Stream, at: usize, word: u32) {
    stream.fill(Fill { range: at..at + 4, word }).unwrap();
    next(stream).result.unwrap();
}

/// Runs a function over queues.
fn dispatch(
    device: &HostDevice,
    stream: &mut dyn Stream,
    (inbound, outbound, work_items): (usize, usize, u32),
    function: impl Fn(&mut HostQueues<'_>) + Send + Sync + 'static,
) -> Result<(), CopyError> {
    let kernel = build(device, HostKernel::over_queues(function));
    stream.dispatch(&kernel, Dispatch { work_items, inbound, outbound }).unwrap();
    next(stream).result
}

/// Head, tail and count of skipped slots.
fn words(device: &HostDevice, stream: &mut dyn Stream, at: usize) -> [u32; 3] {
    let bytes = all_of(device, stream);
    [QueueLayout::HEAD_AT, QueueLayout::TAIL_AT, QueueLayout::SKIPPED_AT]
        .map(|word| u32::from_le_bytes(bytes[at + word..at + word + 4].try_into().unwrap()))
}

/// The one queue is both: what is given in a run is not taken in it, and what is taken makes no room in it.
#[test]
fn a_run_sees_what_was_there_when_it_began() {
    let device = HostDevice::new();
    for start in [0, 3, u32::MAX - 1] {
        let mut stream = queues(&device, &[0], start);
        let fills = |queues: &mut HostQueues<'_>| {
            let mut given = 0_u64;
            while let Some(mut place) = queues.give() {
                place.copy_from_slice(&given.to_le_bytes());
                if given == 1 {
                    place.skip();
                }
                given += 1;
            }
            assert!(given == 4 && !queues.has_room() && queues.take().is_none());
        };
        dispatch(&device, &mut *stream, (0, 0, 1), fills).unwrap();
        assert_eq!(words(&device, &mut *stream, 0), [start, start.wrapping_add(4), 1]);
        let taken = Arc::new(Mutex::new(Vec::new()));
        let notes = taken.clone();
        let kernel = move |queues: &mut HostQueues<'_>| {
            assert!(queues.give().is_none());
            notes
                .lock()
                .unwrap()
                .extend(queues.take().map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())));
        };
        // Once more than there are.
        dispatch(&device, &mut *stream, (0, 0, 5), kernel).unwrap();
        assert_eq!(*taken.lock().unwrap(), [0, 2, 3]);
        assert_eq!(words(&device, &mut *stream, 0), [start.wrapping_add(4), start.wrapping_add(4), 1]);
    }
}

#[test]
fn what_is_no_queue_is_refused_with_words() {
    let device = HostDevice::new();
    for (inbound, outbound, broken, says) in [
        (0, 1024, None, "no queue at offset 1024"),
        (2048, 0, None, "no queue at offset 2048"),
        (0, 4092, None, "the memory ends before"),
        (0, 512, Some((QueueLayout::TAIL_AT, 5)), "5 of its 4 slots"),
        (0, 512, Some((0, 1 << 20)), "it begins with [1048576, 8, 256, 512]"),
    ] {
        let mut stream = queues(&device, &[0], 0);
        if let Some((at, word)) = broken {
            fill(&mut *stream, at, word);
        }
        let refused = dispatch(&device, &mut *stream, (inbound, outbound, 1), |_| panic!("it must not run"));
        let Err(CopyError::Failed { reason }) = &refused else { panic!("{refused:?}") };
        assert!(reason.contains(says), "{reason}");
    }
    // Two that overlap.
    let mut stream = queues(&device, &[0, 512], 0);
    let refused = dispatch(&device, &mut *stream, (0, 512, 1), |_| panic!("it must not run"));
    assert!(
        matches!(&refused, Err(CopyError::Failed { reason }) if reason.contains("overlap")),
        "{refused:?}"
    );
}

#[test]
fn kernels_for_something_else_are_refused() {
    let device = HostDevice::new();
    let mut stream = queues(&device, &[0], 0);
    let per_message = build(&device, HostKernel::per_message(|_, _| None));
    let dispatch = Dispatch { work_items: 1, inbound: 0, outbound: 0 };
    let refused = stream.dispatch(&per_message, dispatch).unwrap_err();
    assert!(matches!(&refused.error, DeviceError::OtherKernel { .. }), "{refused:?}");
    assert_eq!(refused.transfer, dispatch);
    let over_queues = build(&device, HostKernel::over_queues(|_| {}));
    let mut rig = Rig::new(&device, 4, SIZE);
    let (upload, _) = rig.upload(1, 0);
    let launch = Launch::new(upload, Output::new(&device, 1, 8).unwrap(), 0);
    let refused = stream.launch(&over_queues, launch).unwrap_err();
    assert!(matches!(&refused.error, DeviceError::OtherKernel { .. }), "{refused:?}");
    let refused = stream.dispatch(&over_queues, Dispatch { work_items: 0, ..dispatch }).unwrap_err();
    assert!(matches!(&refused.error, DeviceError::ZeroOption { what: "work_items" }), "{refused:?}");
    assert_eq!(stream.in_flight(), 0);
}

/// A batch in one piece is read where it is; one that wraps is copied first. The outputs are the same.
#[test]
fn the_route_makes_no_difference() {
    let device = HostDevice::new();
    let sum = |message: &[u8]| message.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let kernel = build(
        &device,
        HostKernel::per_message(move |message, output| {
            output.copy_from_slice(&sum(message).to_le_bytes());
            (message[0] % 3 != 0).then_some(4)
        }),
    );
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 4096, in_flight: 1 }).unwrap();
    assert_eq!(stream.mapped_up_to_bytes(), usize::MAX);
    for advance in 0..16 {
        let mut rig = Rig::new(&device, 16, SIZE);
        rig.advance(advance);
        let (upload, bytes): (Upload, _) = rig.upload(10, 64);
        stream.launch(&kernel, Launch::new(upload, Output::new(&device, 10, 4).unwrap(), 0)).unwrap();
        let done = next(&mut *stream);
        done.result.unwrap();
        let Transfer::Launch(launch) = done.transfer else { panic!("{:?}", done.transfer) };
        assert_eq!(launch.route(), if advance <= 6 { Route::Mapped } else { Route::Copied });
        let replies = launch.replies().map(|reply| match reply {
            Reply::Output(output) => Some(u32::from_le_bytes(output.try_into().unwrap())),
            Reply::Dropped => None,
            Reply::TooLong { .. } => panic!("four bytes"),
        });
        let twin = bytes.chunks_exact(SIZE).map(|message| (message[0] % 3 != 0).then(|| sum(message)));
        assert!(replies.eq(twin), "{advance}");
    }
}
