//! What only CUDA can say of kernels: PTX, CUDA C where NVRTC is there, and the memory that launches share. On the stand-in for
//! the driver, which has twins of them, or on a real one where `TRANSLOAD_CUDA=real`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test panics where it fails")]

use transload::device::cuda::CudaDevice;
use transload::device::{
    Code, Device, DeviceError, Kernel, KernelSource, Launch, Output, Reply, Stream, StreamOptions, Transfer,
};
use transload_conformance::cuda::{OwnStream, ValueGate, is_real};
use transload_conformance::device::{Hold, Rig, next};

/// A kernel that runs on a device, and whose twin the stand-in has: it adds up the words of each message.
const SUM: &str = include_str!("../../../crates/transload/src/device/cuda/measure.ptx");

/// The sources of the examples.
const SOURCES: [(&str, &str); 3] = [
    ("fnv1a", include_str!("../../../examples/checksum.cu")),
    ("keep_even", include_str!("../../../examples/filter.cu")),
    ("echo", include_str!("../../../examples/echo.cu")),
];

transload_conformance::cuda_tests! {
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

    /// Code that is none, names that are not there, code for others.
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
