//! A batch goes through a kernel, and the outputs come back: those that belong to its messages, in their order.

use std::collections::VecDeque;
use std::time::Duration;

use transload::device::{
    CopyError, DROPPED, Device, DeviceError, Kernel, KernelSource, Launch, Output, Reply, Route, Stream,
    StreamOptions, Transfer, Upload,
};
use transload::staging::EnqueueError;

use super::example::Example;
use super::rig::{Random, Rig, bring, finish, next};
use super::subject::{Gated, Run};
use crate::watchdog;

const OPTIONS: StreamOptions = StreamOptions { queue_bytes: 1 << 16, in_flight: 4 };

/// Builds an example for a device.
fn build(run: &Run, device: &dyn Device, example: Example) -> Kernel {
    device.build(&run.kernel(example)).unwrap()
}

/// What came back, each output with its bytes, and nothing for a message that was dropped.
fn replies(launch: &Launch) -> Vec<Option<Vec<u8>>> {
    let replies = launch.replies().map(|reply| match reply {
        Reply::Output(output) => Some(output.to_vec()),
        Reply::Dropped => None,
        Reply::TooLong { length, .. } => panic!("{length} bytes"),
    });
    replies.collect()
}

/// The launch that succeeded.
fn expect_launch(stream: &mut dyn Stream) -> Launch {
    let completion = next(stream);
    match (completion.result, completion.transfer) {
        (Ok(()), Transfer::Launch(launch)) => launch,
        other => panic!("not a launch that succeeded: {other:?}"),
    }
}

/// Both examples, over messages of all sizes, at odd places in ring and queue.
pub fn outputs_are_those_of_the_messages(run: &Run) {
    let device = run.device();
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    for example in [Example::Checksum, Example::Filter] {
        let kernel = build(run, &*device, example);
        for (size, output_bytes) in [(1, 8), (3, 8), (5, 12), (24, 24), (64, 8), (924, 100), (1000, 1000)] {
            let mut rig = Rig::new(&*device, 64, size);
            for messages in [1, 2, 33, 64] {
                rig.advance(5);
                let (upload, bytes) = rig.upload(messages, 256);
                let output = Output::new(&*device, messages, output_bytes).unwrap();
                stream.launch(&kernel, Launch::new(upload, output, 0)).unwrap();
                let launch = expect_launch(&mut *stream);
                let expected: Vec<_> =
                    bytes.chunks(size).map(|message| example.answer(message, output_bytes)).collect();
                assert_eq!(replies(&launch), expected, "{example:?}, {messages} messages of {size} bytes");
            }
        }
    }
}

/// An output that has no room is no output: the launch says how long it would have been.
pub fn outputs_that_have_no_room_are_told(run: &Run) {
    let device = run.device();
    let kernel = build(run, &*device, Example::Checksum);
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    let mut rig = Rig::new(&*device, 8, 24);
    let output = Output::new(&*device, 8, 4).unwrap();
    stream.launch(&kernel, Launch::new(rig.upload(8, 0).0, output, 0)).unwrap();
    let launch = expect_launch(&mut *stream);
    let replies: Vec<_> = launch.replies().collect();
    assert_eq!(replies, [Reply::TooLong { length: 8, output_bytes: 4 }; 8]);
}

/// Payloads behind their lengths: of none, some and all bytes of a slot, and a length that lies.
pub fn payloads_behind_their_lengths(run: &Run) {
    const SIZE: usize = 20;
    let device = run.device();
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    let mut rig = Rig::new(&*device, 32, SIZE);
    for example in [Example::Checksum, Example::Filter] {
        let kernel = build(run, &*device, example);
        let (mut random, mut expected) = (Random(3), Vec::new());
        for length in (0..=16).chain([17, u32::MAX]) {
            let mut slot = [0; SIZE];
            random.fill(&mut slot[4..]);
            slot[..4].copy_from_slice(&u32::to_le_bytes(length));
            rig.producer.try_enqueue(&slot).unwrap();
            let payload = &slot[4..][..16.min(length.try_into().unwrap())];
            expected.push(example.answer(payload, 16));
        }
        let batch = rig.take(expected.len());
        let upload = Upload::new(&rig.region, batch, 0);
        let output = Output::new(&*device, 32, 16).unwrap();
        stream.launch(&kernel, Launch::new(upload, output, 4)).unwrap();
        assert_eq!(replies(&expect_launch(&mut *stream)), expected, "{example:?}");
    }
}

/// As many launches in flight as there can be, uploads and downloads between them, memory for outputs used again.
pub fn several_launches_are_in_flight(run: &Run) {
    const SIZE: usize = 24;
    let device = run.device();
    let kernel = build(run, &*device, Example::Checksum);
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    let mut rig = Rig::new(&*device, 256, SIZE);
    let mut spare: Vec<_> = (0..4).map(|_| Output::new(&*device, 40, 8).unwrap()).collect();
    let (mut expected, mut random) = (VecDeque::new(), Random(7));
    for round in 0..1000 {
        if stream.in_flight() == 4 {
            let completion = next(&mut *stream);
            assert_eq!(completion.result, Ok(()));
            match (completion.transfer, expected.pop_front().unwrap()) {
                (Transfer::Launch(launch), Some(answers)) => {
                    assert_eq!(replies(&launch), answers, "round {round}");
                    spare.push(launch.into_parts().1);
                }
                (Transfer::Upload(_), None) => {}
                other => panic!("{other:?}"),
            }
        }
        let messages = 1 + random.below(40);
        let (upload, bytes) = rig.upload(messages, 4 * random.below(1000));
        if round % 5 == 0 {
            stream.submit(upload).unwrap();
            expected.push_back(None);
        } else {
            stream.launch(&kernel, Launch::new(upload, spare.pop().unwrap(), 0)).unwrap();
            let answers: Vec<_> =
                bytes.chunks(SIZE).map(|message| Example::Checksum.answer(message, 8)).collect();
            expected.push_back(Some(answers));
        }
    }
}

/// A message of zeros is a message, and so is its output.
pub fn a_message_of_zeros_is_a_message(run: &Run) {
    let device = run.device();
    let kernel = build(run, &*device, Example::Filter);
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    let mut rig = Rig::new(&*device, 8, 64);
    for message in [[0; 64], [1; 64], [0; 64]] {
        rig.producer.try_enqueue(&message).unwrap();
    }
    let batch = rig.take(3);
    let upload = Upload::new(&rig.region, batch, 0);
    let output = Output::new(&*device, 8, 64).unwrap();
    stream.launch(&kernel, Launch::new(upload, output, 0)).unwrap();
    let zeros = Some(vec![0; 64]);
    assert_eq!(replies(&expect_launch(&mut *stream)), [zeros.clone(), None, zeros]);
}

/// What cannot be launched comes back with its batch, and the stream goes on.
pub fn launches_that_cannot_be(run: &Run) {
    let (device, other) = (run.device(), run.device());
    let kernel = build(run, &*device, Example::Checksum);
    let foreign = build(run, &*other, Example::Checksum);
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    let mut rig = Rig::new(&*device, 8, 64);
    let output = |device: &dyn Device, places| Output::new(device, places, 8).unwrap();

    let short = Launch::new(rig.upload(8, 0).0, output(&*device, 7), 0);
    let refused = stream.launch(&kernel, short).unwrap_err();
    assert!(
        matches!(refused.error, DeviceError::OutputTooSmall { needed: 8, available: 7 }),
        "{}",
        refused.error
    );
    let (upload, _) = refused.transfer.into_parts();

    let elsewhere = Launch::new(upload, output(&*other, 8), 0);
    let refused = stream.launch(&kernel, elsewhere).unwrap_err();
    assert!(matches!(refused.error, DeviceError::NotRegistered { .. }), "{}", refused.error);
    let (upload, _) = refused.transfer.into_parts();

    let mut upload = upload;
    for prefix_bytes in [1, 5, 64, u32::MAX] {
        let apart = Launch::new(upload, output(&*device, 8), prefix_bytes);
        let refused = stream.launch(&kernel, apart).unwrap_err();
        let is_told = matches!(refused.error, DeviceError::Prefix { prefix_bytes: told, message_size: 64 } if told == prefix_bytes);
        assert!(is_told, "{}", refused.error);
        (upload, _) = refused.transfer.into_parts();
    }
    let mut narrow = Rig::new(&*device, 8, 3);
    let short = Launch::new(narrow.upload(8, 0).0, output(&*device, 8), 4);
    let refused = stream.launch(&kernel, short).unwrap_err();
    let is_told = matches!(refused.error, DeviceError::Prefix { prefix_bytes: 4, message_size: 3 });
    assert!(is_told, "{}", refused.error);

    let launch = Launch::new(upload, output(&*device, 8), 0);
    let launch = if run.name() == "cuda" {
        // PTX does not say what a function is for.
        launch
    } else {
        let queues = build(run, &*device, Example::Echo);
        let refused = stream.launch(&queues, launch).unwrap_err();
        let is_told = matches!(&refused.error, DeviceError::OtherKernel { entry, .. } if entry == "echo");
        assert!(is_told, "{}", refused.error);
        refused.transfer
    };
    let launch = if run.name() == "host" {
        // A function of this process is of no device.
        launch
    } else {
        let refused = stream.launch(&foreign, launch).unwrap_err();
        assert!(matches!(refused.error, DeviceError::OtherKernel { .. }), "{}", refused.error);
        refused.transfer
    };
    assert_eq!(stream.in_flight(), 0);
    stream.launch(&kernel, launch).unwrap();
    assert_eq!(replies(&expect_launch(&mut *stream)).len(), 8);

    for bytes in [0, 6] {
        assert!(Output::new(&*device, 8, bytes).is_err(), "{bytes}");
    }
    assert!(Output::new(&*device, usize::MAX / 2, 8).is_err());
}

/// The code of a launch in flight stays, whoever drops the kernel and the device.
pub fn a_kernel_stays_until_its_launches_have_ended(run: &Run) {
    let Gated { device, mut stream, mut gate } = run.gated(1 << 16, 2);
    let kernel = build(run, &*device, Example::Checksum);
    let mut rig = Rig::new(&*device, 8, 64);
    gate.close();
    let (upload, bytes) = rig.upload(8, 0);
    let launch = Launch::new(upload, Output::new(&*device, 8, 8).unwrap(), 0);
    stream.launch(&kernel, launch).unwrap();
    drop((kernel, device));
    assert!(stream.poll().is_none(), "a launch has ended behind a closed gate");
    gate.open();
    let expected: Vec<_> = bytes.chunks(64).map(|message| Example::Checksum.answer(message, 8)).collect();
    assert_eq!(replies(&expect_launch(&mut *stream)), expected);
}

/// No slot comes back before the kernel has ended, and the output is that of what was sent.
pub fn no_slot_is_reused_before_its_kernel(run: &Run) {
    const SIZE: usize = 64;
    let Gated { device, mut stream, mut gate } = run.gated(1 << 16, 2);
    let kernel = build(run, &*device, Example::Checksum);
    let mut rig = Rig::new(&*device, 8, SIZE);
    for _ in 0..3 {
        gate.close();
        let (upload, bytes) = rig.upload(8, 0);
        let output = Output::new(&*device, 8, 8).unwrap();
        stream.launch(&kernel, Launch::new(upload, output, 0)).unwrap();
        assert!(stream.wait(Duration::from_millis(20)).is_none(), "a launch has ended behind a closed gate");
        assert_eq!(rig.producer.try_enqueue(&[0xee; SIZE]), Err(EnqueueError::Full));
        gate.open();
        let launch = expect_launch(&mut *stream);
        let expected: Vec<_> =
            bytes.chunks(SIZE).map(|message| Example::Checksum.answer(message, 8)).collect();
        assert_eq!(replies(&launch), expected);
        drop(launch);
        assert!(rig.is_free(8));
    }
}

/// A launch that fails hands its batch back, and succeeds when it is tried again.
pub fn a_failed_launch_hands_its_batch_back(run: &Run) {
    let Gated { device, mut stream, mut gate } = run.gated(1 << 16, 2);
    let kernel = build(run, &*device, Example::Checksum);
    let mut rig = Rig::new(&*device, 8, 64);
    gate.close();
    let (upload, bytes) = rig.upload(8, 0);
    let output = Output::new(&*device, 8, 8).unwrap();
    stream.launch(&kernel, Launch::new(upload, output, 0)).unwrap();
    gate.fail();
    let completion = next(&mut *stream);
    let Err(CopyError::Failed { .. }) = completion.result else {
        return run.skip("its driver runs what stands behind a failed command");
    };
    let Transfer::Launch(launch) = completion.transfer else { panic!("the launch comes back") };
    stream.launch(&kernel, launch).unwrap();
    let expected: Vec<_> = bytes.chunks(64).map(|message| Example::Checksum.answer(message, 8)).collect();
    assert_eq!(replies(&expect_launch(&mut *stream)), expected);
    assert!(rig.is_free(8));
}

/// A stream is dropped with a launch in flight, and the gate opens a little later, or never.
pub fn dropped_before_the_kernel_is_done(run: &Run) {
    for opens in [true, false] {
        let Gated { device, mut stream, mut gate } = run.gated(1 << 16, 2);
        let kernel = build(run, &*device, Example::Checksum);
        let mut rig = Rig::new(&*device, 8, 64);
        gate.close();
        let launch = Launch::new(rig.upload(8, 0).0, Output::new(&*device, 8, 8).unwrap(), 0);
        stream.launch(&kernel, launch).unwrap();
        if opens {
            let opener = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                gate.open();
                gate
            });
            drop((stream, kernel));
            assert!(watchdog::until(|| rig.is_free(8)), "the slots come back");
            drop(opener.join().unwrap());
        } else {
            drop((stream, kernel, device));
            let quarantined = rig.producer.statistics().quarantined;
            assert!(quarantined == 8 || rig.producer.is_full(), "nobody uses what a kernel may still read");
            gate.open();
        }
    }
}

/// Batches that are small enough, and those that are not, give the same; the launch says how its messages were read.
pub fn both_routes_give_the_same(run: &Run) {
    const SIZE: usize = 256;
    let device = run.device();
    let kernel = build(run, &*device, Example::Checksum);
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 1 << 20, in_flight: 2 }).unwrap();
    let most = stream.mapped_up_to_bytes();
    let mut rig = Rig::new(&*device, 1024, SIZE);
    for messages in [1, 7, 64, 500, 1024] {
        let (upload, bytes) = rig.upload(messages, 0);
        let wraps = upload.pieces().count() > 1;
        let output = Output::new(&*device, messages, 8).unwrap();
        stream.launch(&kernel, Launch::new(upload, output, 0)).unwrap();
        let launch = expect_launch(&mut *stream);
        if wraps || bytes.len() > most {
            assert_eq!(launch.route(), Route::Copied, "{} bytes", bytes.len());
        }
        let expected: Vec<_> =
            bytes.chunks(SIZE).map(|message| Example::Checksum.answer(message, 8)).collect();
        assert_eq!(replies(&launch), expected, "{messages} messages");
        if launch.route() == Route::Copied {
            assert!(bring(&*device, &mut *stream, 0..bytes.len()) == bytes, "{messages} messages");
        }
        drop(launch);
        // And what comes behind it in the queue is not disturbed.
        let (upload, bytes) = rig.upload(1, 0);
        stream.submit(upload).unwrap();
        finish(&mut *stream);
        assert_eq!(bring(&*device, &mut *stream, 0..SIZE), bytes);
    }
}

/// Code that is no kernel is refused, each time in words of its own.
pub fn code_that_is_no_kernel(run: &Run) {
    let device = run.device();
    if run.name() == "host" {
        return;
    }
    let build = |entry| {
        let code = run.kernel(Example::Checksum).code().clone();
        // SAFETY: that of the example; nothing is run.
        device.build(&unsafe { KernelSource::new(code, entry) })
    };
    let error = build("not_there").unwrap_err();
    assert!(matches!(&error, DeviceError::NoSuchKernel { .. }), "{error}");
    assert!(build("fnv\0").is_err());
    let error = device.build(&KernelSource::host(Example::Checksum.on_the_host(), "fnv1a")).unwrap_err();
    assert!(matches!(&error, DeviceError::OtherLanguage { .. }), "{error}");
}

const _: () = assert!(DROPPED == 0xffff_ffff, "as the headers say");
