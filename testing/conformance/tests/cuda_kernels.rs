//! Kernels on CUDA: in PTX, and in CUDA C where NVRTC is there. On the stand-in for the driver, which has twins of them, or on a
//! real one where `TRANSLOAD_CUDA=real`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test panics where it fails")]

use transload::device::cuda::CudaDevice;
use transload::device::{
    Code, Device, DeviceError, Dispatch, Kernel, KernelSource, Launch, Output, Reply, Route, Stream,
    StreamOptions, Transfer, Upload,
};
use transload::memory::{Policy, Slab};
use transload_conformance::cuda::{self, OwnStream, ValueGate, is_real};
use transload_conformance::device::example::Example;
use transload_conformance::device::{Rig, all_of, bring, next};

const OPTIONS: StreamOptions = StreamOptions { queue_bytes: 1024, in_flight: 4 };

/// A kernel that runs on a device, and whose twin the stand-in has: it adds up the words of each message.
const SUM: &str = include_str!("../../../crates/transload/src/device/cuda/measure.ptx");

/// The sources of the examples.
const SOURCES: [(&str, &str); 3] = [
    ("fnv1a", include_str!("../../../examples/checksum.cu")),
    ("keep_even", include_str!("../../../examples/filter.cu")),
    ("echo", include_str!("../../../examples/echo.cu")),
];

transload_conformance::cuda_tests! {
    /// A kernel over batches: copied or mapped, whole or wrapped, the outputs are those of the twin.
    fn a_kernel_runs_over_batches(device) {
        let kernel = sum(&device);
        let options = StreamOptions { queue_bytes: 1 << 20, in_flight: 3 };
        let mut stream = device.open_stream(&options).unwrap();
        let mut rig = Rig::new(&device, 1024, 64);
        let mut output = Some(Output::new(&device, 1024, 4).unwrap());
        for (messages, to) in [(1, 0), (63, 4), (64, 64), (65, 128), (1000, 512), (1024, 0)] {
            let (upload, bytes) = rig.upload(messages, to);
            stream.launch(&kernel, Launch::new(upload, output.take().unwrap(), 0)).unwrap();
            let completion = next(&mut *stream);
            assert_eq!(completion.result, Ok(()));
            let Transfer::Launch(launch) = completion.transfer else { panic!("the launch comes back") };
            let replies: Vec<_> = launch.replies().collect();
            assert_eq!(replies.len(), messages);
            for (message, reply) in bytes.chunks(64).zip(replies) {
                assert_eq!(reply, Reply::Output(&twin(message).to_le_bytes()));
            }
            if launch.route() == Route::Copied {
                assert!(bring(&device, &mut *stream, to..to + bytes.len()) == bytes);
            } else {
                assert!(bytes.len() <= stream.mapped_up_to_bytes());
            }
            let (upload, memory) = launch.into_parts();
            drop(upload);
            output = Some(memory);
        }
    }

    /// A kernel that drops some messages, and shortens others.
    fn a_kernel_may_drop_messages(device) {
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let filter = device.build(&cuda::kernel(Example::Filter)).unwrap();
        let mut rig = Rig::new(&device, 16, 12);
        let mut messages = Vec::new();
        for nth in 0..16_u8 {
            let length = nth % 9;
            let mut message = [0; 12];
            message[..4].copy_from_slice(&u32::from(length).to_le_bytes());
            message[4..].fill(nth);
            messages.extend(message);
        }
        assert_eq!(rig.producer.try_enqueue_batch(&messages), Ok(16));
        let batch = rig.take(16);
        let upload = Upload::new(&rig.region, batch, 0);
        let output = Output::new(&device, 16, 4).unwrap();
        stream.launch(&filter, Launch::new(upload, output, 4)).unwrap();
        let Transfer::Launch(launch) = next(&mut *stream).transfer else { panic!("the launch comes back") };
        for (nth, reply) in (0..16_u8).zip(launch.replies()) {
            let length = usize::from(nth % 9);
            if length == 0 || nth % 2 == 1 {
                assert_eq!(reply, Reply::Dropped, "{nth}");
            } else {
                assert_eq!(reply, Reply::Output(&vec![nth; length.min(4)]), "{nth}");
            }
        }
    }

    /// A kernel over queues in device memory. It takes the room before the message, so some of the room may be skipped.
    fn a_kernel_runs_over_queues(device) {
        const OUTBOUND: usize = 1024;
        let mut stream = device.open_stream(&StreamOptions { queue_bytes: 2048, in_flight: 4 }).unwrap();
        let echo = device.build(&cuda::kernel(Example::Echo)).unwrap();
        // Two queues of four messages of eight bytes, the first with three in it.
        let mut image = vec![0_u8; 2048];
        for queue in [0, OUTBOUND] {
            for (at, word) in [(0, 4_u32), (4, 8), (8, 256), (12, 512)] {
                image[queue + at..queue + at + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
        image[128] = 3;
        image[512..536].copy_from_slice(&(0..24).collect::<Vec<u8>>());
        let slab = Slab::builder(2, 2048).lock(Policy::Never).build().unwrap();
        let mut rig = Rig::over(&device, slab, 2, 2048);
        assert_eq!(rig.producer.try_enqueue_batch(&image), Ok(1));
        let batch = rig.take(1);
        stream.submit(Upload::new(&rig.region, batch, 0)).unwrap();
        let dispatch = Dispatch { work_items: 100, inbound: 0, outbound: OUTBOUND };
        stream.dispatch(&echo, dispatch).unwrap();
        drop(next(&mut *stream).expect_upload());
        let completion = next(&mut *stream);
        assert_eq!(completion.result, Ok(()));
        assert!(matches!(completion.transfer, Transfer::Dispatch(done) if done == dispatch));
        let after = all_of(&device, &mut *stream);
        assert_eq!(after[192], 3, "all were taken");
        let outbound = &after[OUTBOUND..];
        let given = usize::from(outbound[128]);
        let kept = (0..given).filter(|slot| outbound[256 + slot * 4] == 0);
        let mut messages: Vec<&[u8]> = kept.map(|slot| &outbound[512 + slot * 8..][..8]).collect();
        assert_eq!(given, 3 + usize::from(outbound[196]), "what was not given was skipped");
        messages.sort_unstable();
        let mut expected: Vec<Vec<u8>> =
            (0..3).map(|nth: u8| (nth * 8..nth * 8 + 8).map(|byte| byte ^ 0x5a).collect()).collect();
        expected.sort_unstable();
        assert_eq!(messages, expected);
        let beyond = Dispatch { inbound: 2045, ..dispatch };
        assert!(matches!(stream.dispatch(&echo, beyond).unwrap_err().error, DeviceError::OutOfQueue { .. }));
    }

    /// The checksum of the examples, on payloads of all lengths behind their prefixes.
    fn a_kernel_sees_payloads_behind_their_lengths(device) {
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let checksum = device.build(&cuda::kernel(Example::Checksum)).unwrap();
        let mut rig = Rig::new(&device, 64, 16);
        let mut messages = Vec::new();
        let payload = |nth: u8| (0..nth % 13).map(|at| nth.wrapping_mul(31) ^ at).collect::<Vec<u8>>();
        for nth in 0..64_u8 {
            let mut message = u32::from(nth % 13).to_le_bytes().to_vec();
            message.extend(payload(nth));
            message.resize(16, 0xee);
            messages.extend(message);
        }
        assert_eq!(rig.producer.try_enqueue_batch(&messages), Ok(64));
        let upload = Upload::new(&rig.region.clone(), rig.take(64), 0);
        stream.launch(&checksum, Launch::new(upload, Output::new(&device, 64, 12).unwrap(), 4)).unwrap();
        let completion = next(&mut *stream);
        assert_eq!(completion.result, Ok(()));
        let Transfer::Launch(launch) = completion.transfer else { panic!("the launch comes back") };
        for (nth, reply) in (0..64_u8).zip(launch.replies()) {
            assert_eq!(reply, Reply::Output(&Example::Checksum.answer(&payload(nth), 8).unwrap()), "{nth}");
        }
    }

    /// The code of a launch in flight stays loaded, whoever drops the kernel, the device or the stream's handle on it.
    fn a_kernel_stays_until_its_launches_have_ended(device) {
        let own = OwnStream::new(&device);
        let mut gate = ValueGate::new(&device, &own);
        let mut rig = Rig::new(&device, 8, 64);
        // SAFETY: the stream stays.
        let mut stream = unsafe { device.open_stream_on(own.raw(), None, &OPTIONS) }.unwrap();
        let kernel = sum(&device);
        gate.close();
        let (upload, bytes) = rig.upload(8, 0);
        stream.launch(&kernel, Launch::new(upload, Output::new(&device, 8, 4).unwrap(), 0)).unwrap();
        drop((kernel, device));
        assert!(stream.poll().is_none());
        gate.open();
        let Transfer::Launch(launch) = next(&mut stream).transfer else { panic!("the launch comes back") };
        assert_eq!(launch.replies().next().unwrap(), Reply::Output(&twin(&bytes[..64]).to_le_bytes()));
    }

    /// Launches in flight together share the memory for outputs, also when it grows.
    fn launches_in_flight_keep_their_outputs_apart(device) {
        let kernel = sum(&device);
        let own = OwnStream::new(&device);
        let mut gate = ValueGate::new(&device, &own);
        let options = StreamOptions { queue_bytes: 1 << 18, in_flight: 4 };
        // SAFETY: the stream stays.
        let mut stream = unsafe { device.open_stream_on(own.raw(), None, &options) }.unwrap();
        let mut rig = Rig::new(&device, 4096, 64);
        let outputs = [1, 600, 1200, 5].map(|count| (count, Output::new(&device, count, 4).unwrap()));
        // Memory is allocated meanwhile, for which a real driver may wait.
        if !is_real() {
            gate.close();
        }
        let mut expected = Vec::new();
        for (count, output) in outputs {
            let (upload, bytes) = rig.upload(count, 0);
            stream.launch(&kernel, Launch::new(upload, output, 0)).unwrap();
            expected.push(bytes.chunks(64).map(twin).collect::<Vec<u32>>());
        }
        assert!(is_real() || stream.poll().is_none());
        gate.open();
        for expected in expected {
            let completion = next(&mut stream);
            assert_eq!(completion.result, Ok(()));
            let Transfer::Launch(launch) = completion.transfer else { panic!("the launch comes back") };
            let sums: Vec<u32> = launch.replies().map(|reply| match reply {
                Reply::Output(bytes) => u32::from_le_bytes(bytes.try_into().unwrap()),
                other => panic!("{other:?}"),
            }).collect();
            assert!(sums == expected);
        }
    }

    /// Code that is none, names that are not there, kernels of others.
    fn kernels_that_cannot_be_are_refused(device) {
        // SAFETY: code that is refused.
        let build = |code, entry: &str| device.build(&unsafe { KernelSource::new(code, entry) });
        let ptx = |text: &str| Code::Ptx(text.to_owned());
        let error = build(ptx("this is no PTX"), "sum").unwrap_err();
        let DeviceError::Build { log, .. } = &error else { panic!("{error}") };
        assert!(log.lines().count() > 1, "the driver's words are there: {log}");
        assert!(matches!(build(ptx("zero\0"), "sum").unwrap_err(), DeviceError::Build { .. }));
        for entry in ["sum", "zero\0", ""] {
            let error = build(ptx(SUM), entry).unwrap_err();
            let DeviceError::NoSuchKernel { reason, .. } = &error else { panic!("{error}") };
            assert!(reason.contains("transload_measure"), "{reason}");
        }
        let error = build(Code::OpenClC(String::new()), "sum").unwrap_err();
        assert!(matches!(error, DeviceError::OtherLanguage { takes: "PTX or CUDA C", .. }), "{error}");

        let other = CudaDevice::open(0).unwrap();
        let kernel = sum(&other);
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&device, 8, 64);
        let (upload, _) = rig.upload(8, 0);
        let launch = Launch::new(upload, Output::new(&device, 8, 4).unwrap(), 0);
        let refused = stream.launch(&kernel, launch).unwrap_err();
        assert!(matches!(refused.error, DeviceError::OtherKernel { .. }), "{}", refused.error);
        drop(refused);
        assert!(rig.is_free(8));
    }

    /// CUDA C is translated where NVRTC is there, and else an error says what to do.
    fn cuda_c_needs_nvrtc(device) {
        let code = |text: &str| Code::CudaC(text.to_owned());
        // SAFETY: code that is refused, or is not run.
        let build = |code, entry: &str| device.build(&unsafe { KernelSource::new(code, entry) });
        let good = "extern \"C\" __global__ void nothing(int *a) { if (a) a[0] = 1; }";
        // SAFETY: loads a library of the CUDA toolkit, if it is there.
        if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
            let error = build(code(good), "nothing").unwrap_err();
            assert!(matches!(error, DeviceError::Unavailable { .. }), "{error}");
            assert!(error.to_string().contains("nvcc -ptx"), "{error}");
            return;
        }
        assert_eq!(build(code(good), "nothing").unwrap().entry(), "nothing");
        // They include the header, which is no file.
        for (entry, source) in SOURCES {
            assert_eq!(build(code(source), entry).unwrap().entry(), entry);
        }
        let error = build(code("extern \"C\" __global__ void nothing() { this is wrong }"), "nothing").unwrap_err();
        assert!(matches!(&error, DeviceError::Build { log, .. } if log.contains("error")), "{error}");
        assert!(matches!(build(code(good), "other").unwrap_err(), DeviceError::NoSuchKernel { .. }));
    }
}

fn sum(device: &CudaDevice) -> Kernel {
    // SAFETY: it reads its message, and writes one word, for which the tests leave room.
    let source = unsafe { KernelSource::new(Code::Ptx(SUM.to_owned()), "transload_measure") };
    device.build(&source).unwrap()
}

fn twin(message: &[u8]) -> u32 {
    let words = message.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    words.fold(0, u32::wrapping_add)
}
