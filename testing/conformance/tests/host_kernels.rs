//! Kernels of the host: what they are given, by launch and by dispatch.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};

use transload::device::host::{HostDevice, HostKernel, HostQueues};
use transload::device::{
    CopyError, Device, Dispatch, Fill, Kernel, KernelSource, Launch, Output, QueueLayout, Route, Stream,
    StreamOptions, Transfer,
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

/// A batch in one piece is read where it is; one that wraps is copied first. (The suite says that the outputs are the same.)
#[test]
fn one_piece_is_read_where_it_is() {
    let device = HostDevice::new();
    let kernel = build(&device, HostKernel::per_message(|_, _| None));
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 4096, in_flight: 1 }).unwrap();
    assert_eq!(stream.mapped_up_to_bytes(), usize::MAX);
    for advance in 0..16 {
        let mut rig = Rig::new(&device, 16, SIZE);
        rig.advance(advance);
        let (upload, _) = rig.upload(10, 64);
        stream.launch(&kernel, Launch::new(upload, Output::new(&device, 10, 4).unwrap(), 0)).unwrap();
        let done = next(&mut *stream);
        done.result.unwrap();
        let Transfer::Launch(launch) = done.transfer else { panic!("{:?}", done.transfer) };
        assert_eq!(launch.route(), if advance <= 6 { Route::Mapped } else { Route::Copied });
    }
}
