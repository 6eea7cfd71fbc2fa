//! What CUDA has and other back ends have not: registered ranges, contexts, native handles, kernels. On the stand-in for the
//! driver, or on a real one where `TRANSLOAD_CUDA=real`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::thread;

use cudarc::driver::sys::{self, CUresult};
use transload::device::cuda::{CudaDevice, CudaOptions, CudaStream};
use transload::device::{
    Code, Device, DeviceError, Dispatch, Fill, Kernel, KernelSource, Launch, Output, Reply, Route, Stream,
    StreamOptions, Transfer, Upload,
};
use transload::memory::{Policy, Slab};
use transload::region::{Access, Region, RegisterError, Registrar, Registration};
use transload_conformance::cuda::{self, OwnStream, ValueGate, entered, is_real};
use transload_conformance::device::{Rig, all_of, bring, finish, next};
use transload_conformance::watchdog::watch;

const OPTIONS: StreamOptions = StreamOptions { queue_bytes: 1024, in_flight: 4 };
const PAGE: usize = 4096;

/// A kernel that runs on a device, and whose twin the stand-in has: it adds up the words of each message.
const SUM: &str = include_str!("../../../crates/transload/src/device/cuda/measure.ptx");

/// The examples, translated.
const CHECKSUM: &str = include_str!("ptx/checksum.ptx");
const FILTER: &str = include_str!("ptx/filter.ptx");
const ECHO: &str = include_str!("ptx/echo.ptx");

/// Their sources.
const SOURCES: [(&str, &str); 3] = [
    ("fnv1a", include_str!("../../../examples/checksum.cu")),
    ("keep_even", include_str!("../../../examples/filter.cu")),
    ("echo", include_str!("../../../examples/echo.cu")),
];

/// Makes a test of a function over the first device, bounded in time.
macro_rules! tests {
    ($($(#[$doc:meta])* fn $name:ident($device:ident) $body:block)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            watch(stringify!($name), || {
                let $device = cuda::device();
                $body
            });
        }
    )*};
}

fn ok(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

/// Memory of whole pages, and slabs over parts of it.
struct Pages {
    slab: Slab,
}

impl Pages {
    fn new(count: usize) -> Self {
        Self { slab: Slab::builder(count, PAGE).lock(Policy::Never).build().unwrap() }
    }

    /// A slab over a part: the memory stays as long as it does.
    fn part(&self, bytes: Range<usize>) -> Slab {
        let base = NonNull::new(self.slab.as_ptr().wrapping_add(bytes.start)).unwrap();
        let owner = Box::new(Arc::new(self.slab.clone()));
        // SAFETY: initialised memory that the owner keeps; the tests use each part once at a time.
        unsafe { Slab::from_owner(base, 1, bytes.len(), owner) }.unwrap()
    }
}

/// That an error was left behind nowhere: memory is allocated, and a batch goes through.
fn works(device: &CudaDevice) {
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    let mut rig = Rig::new(device, 8, 64);
    let (upload, bytes) = rig.upload(8, 0);
    stream.submit(upload).unwrap();
    finish(&mut *stream);
    assert_eq!(bring(device, &mut *stream, 0..512), bytes);
}

fn registration(region: &Region) -> &Registration {
    region.registration()
}

tests! {
    /// The very same pages are shared, whatever of them is asked for, until the last has ended; then they can be taken anew.
    fn the_same_range_is_shared(device) {
        let pages = Pages::new(4);
        let (whole, odd) = (pages.part(0..4 * PAGE), pages.part(1..4 * PAGE - 7));
        for _ in 0..3 {
            let first = device.register(&whole, Access::READ).unwrap();
            let second = device.register(&odd, Access::READ_WRITE).unwrap();
            assert_eq!(registration(&first), &Registration::Pinned);
            assert_eq!(registration(&second), &Registration::Pinned);
            drop(first);
            works(&device);
            let third = device.register(&whole, Access::WRITE).unwrap();
            drop(second);
            works(&device);
            drop(third);
        }
        // Another range over the same pages: they are free.
        drop(device.register(&pages.part(0..2 * PAGE), Access::READ).unwrap());
    }

    /// Ranges that overlap are an error that names both, and nothing changes.
    fn ranges_that_overlap_are_refused(device) {
        let pages = Pages::new(8);
        let start = pages.slab.as_ptr().addr();
        let held = device.register(&pages.part(2 * PAGE..5 * PAGE), Access::READ).unwrap();
        for part in [0..3 * PAGE, 4 * PAGE..6 * PAGE, 3 * PAGE..4 * PAGE, 0..8 * PAGE, 5 * PAGE - 1..5 * PAGE + 1] {
            let error = device.register(&pages.part(part.clone()), Access::READ).unwrap_err();
            let RegisterError::Overlaps { wanted, registered, .. } = &error else { panic!("{part:?}: {error}") };
            assert_eq!(registered, &(start + 2 * PAGE..start + 5 * PAGE));
            assert!(wanted.start <= start + part.start && start + part.end <= wanted.end);
            assert!(error.to_string().contains("overlap"), "{error}");
            works(&device);
        }
        drop(device.register(&pages.part(0..2 * PAGE), Access::READ).unwrap());
        drop(device.register(&pages.part(5 * PAGE..8 * PAGE), Access::READ).unwrap());
        drop(held);
        drop(device.register(&pages.part(0..8 * PAGE), Access::READ).unwrap());
    }

    /// An address that is no page's: its pages are pinned, and a ring over it works.
    fn odd_addresses_are_pinned_by_their_pages(device) {
        let pages = Pages::new(3);
        let base = NonNull::new(pages.slab.as_ptr().wrapping_add(PAGE - 1)).unwrap();
        // SAFETY: initialised memory that the owner keeps.
        let slab = unsafe { Slab::from_owner(base, 8, 63, Box::new(pages.slab.clone())) }.unwrap();
        let mut rig = Rig::over(&device, slab, 8, 63);
        assert_eq!(registration(&rig.region), &Registration::Pinned);
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let (upload, bytes) = rig.upload(8, 3);
        stream.submit(upload).unwrap();
        finish(&mut *stream);
        assert_eq!(bring(&device, &mut *stream, 3..3 + bytes.len()), bytes);
    }

    /// What another library of the process has pinned is used, and left pinned; if it is a part only, copies are staged.
    fn memory_pinned_elsewhere_is_used_and_left_alone(device) {
        let pages = Pages::new(8);
        let base: *mut c_void = pages.slab.as_ptr().wrapping_add(2 * PAGE).cast();
        // SAFETY: whole pages, which stay.
        entered(&device, || ok(unsafe { sys::cuMemHostRegister_v2(base, 4 * PAGE, 1) }));
        for part in [2 * PAGE..6 * PAGE, 3 * PAGE..4 * PAGE, 2 * PAGE + 1..3 * PAGE] {
            let slab = pages.part(part.clone());
            let region = device.register(&slab, Access::READ).unwrap();
            assert_eq!(registration(&region), &Registration::Pinned, "{part:?}");
            works(&device);
        }
        for part in [0..4 * PAGE, 4 * PAGE..8 * PAGE, 0..8 * PAGE] {
            let region = device.register(&pages.part(part.clone()), Access::READ).unwrap();
            let Registration::Staged { reason } = registration(&region) else { panic!("{part:?}: {region:?}") };
            assert!(is_real() || reason.contains("another library"), "{reason}");
            works(&device);
        }
        let slab = pages.part(2 * PAGE..6 * PAGE);
        let mut rig = Rig::over(&device, slab, 8, 64);
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let (upload, bytes) = rig.upload(8, 0);
        stream.submit(upload).unwrap();
        finish(&mut *stream);
        assert_eq!(bring(&device, &mut *stream, 0..512), bytes);
        drop((rig, stream));
        // SAFETY: registered above, and by nobody unregistered since: it would be an error now.
        entered(&device, || ok(unsafe { sys::cuMemHostUnregister(base) }));
    }

    /// Slabs that are registered in pieces: copies are cut where these end.
    fn copies_are_cut_where_pieces_end(device) {
        let mut options = CudaOptions::default();
        options.piece_bytes = 2 * PAGE;
        let device = CudaDevice::open_with(usize::try_from(device.device()).unwrap(), options).unwrap();
        for size in [64, 63, 5000, 3 * PAGE] {
            let mut rig = Rig::new(&device, 16, size);
            assert_eq!(registration(&rig.region), &Registration::Pinned);
            let options = StreamOptions { queue_bytes: 16 * size, in_flight: 2 };
            let mut stream = device.open_stream(&options).unwrap();
            for before_wrap in [0, 5, 15] {
                rig.advance(before_wrap);
                let (upload, bytes) = rig.upload(16, 0);
                stream.submit(upload).unwrap();
                finish(&mut *stream);
                assert!(all_of(&device, &mut *stream) == bytes, "{size}");
            }
        }
    }

    /// A slab of one device is pinned for the next as well, and freed with the last handle.
    fn a_slab_of_a_device_is_pinned_for_others(device) {
        let other = CudaDevice::open(0).unwrap();
        let slab = device.allocate_slab(8, 64).unwrap();
        drop(device);
        let region = other.register(&slab, Access::READ_WRITE).unwrap();
        assert_eq!(registration(&region), &Registration::Pinned);
        drop(slab);
        works(&other);
    }

    /// Each call makes its own context current, on a thread that has none and on one that has another, which it leaves so.
    fn the_context_is_ours_for_each_call_and_the_callers_after_it(device) {
        let current = || {
            let mut context = ptr::null_mut();
            // SAFETY: the place of a context.
            ok(unsafe { sys::cuCtxGetCurrent(&raw mut context) });
            context
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(current().is_null());
                works(&device);
                assert!(current().is_null());
            });
        });
        let mut own = ptr::null_mut();
        // SAFETY: the place of a context.
        ok(unsafe { sys::cuCtxCreate_v2(&raw mut own, 0, device.device()) });
        assert_eq!(current(), own);
        works(&device);
        assert_eq!(current(), own);

        // And the user's own may be the one that is used.
        // SAFETY: the context is there until everything that uses it has ended.
        let adopted = unsafe { CudaDevice::from_raw(own, CudaOptions::default()) }.unwrap();
        assert_eq!((adopted.context(), adopted.info()), (own, device.info()));
        works(&adopted);
        // SAFETY: a null pointer is refused.
        let error = unsafe { CudaDevice::from_raw(ptr::null_mut(), CudaOptions::default()) }.unwrap_err();
        assert!(matches!(error, DeviceError::Unsuitable { .. }), "{error}");
        thread::scope(|scope| {
            scope.spawn(|| works(&adopted));
        });
        drop(adopted);
        assert_eq!(current(), own);
        // SAFETY: nothing uses it any more.
        ok(unsafe { sys::cuCtxDestroy_v2(own) });
    }

    /// The user's stream and memory: used, and left alone.
    fn a_stream_and_memory_of_the_users(device) {
        let own = OwnStream::new(&device);
        let mut memory = 0;
        // SAFETY: the place of an address.
        entered(&device, || ok(unsafe { sys::cuMemAlloc_v2(&raw mut memory, 2048) }));
        for _ in 0..2 {
            // SAFETY: both stay.
            let mut stream = unsafe { device.open_stream_on(own.raw(), Some(memory), &OPTIONS) }.unwrap();
            assert_eq!((stream.stream(), stream.queue_memory(), stream.context()), (own.raw(), memory, device.context()));
            let mut rig = Rig::new(&device, 8, 128);
            let (upload, bytes) = rig.upload(8, 0);
            let ticket = stream.submit(upload).unwrap();
            assert!(stream.event(ticket).is_some() && stream.event(ticket + 1).is_none());
            finish(&mut stream);
            assert!(stream.event(ticket).is_none(), "handed back");
            assert_eq!(all_of(&device, &mut stream), bytes);
        }
        let long = StreamOptions { queue_bytes: 4 << 20, in_flight: 1 };
        let refuse = |memory, words: &str| {
            // SAFETY: the stream stays; what is no memory is refused before it is used.
            let error = unsafe { device.open_stream_on(own.raw(), memory, &long) }.unwrap_err();
            assert!(matches!(error, DeviceError::Unsuitable { .. }), "{error}");
            assert!(error.to_string().contains(words), "{error}");
        };
        refuse(Some(memory), "bytes, and the stream");
        refuse(Some(16), "");
        // SAFETY: both stay.
        let error = unsafe { device.open_stream_on(own.raw(), Some(memory + 4), &OPTIONS) }.unwrap_err();
        assert!(error.to_string().contains("multiple of 256"), "{error}");
        // SAFETY: the memory is free.
        entered(&device, || ok(unsafe { sys::cuMemFree_v2(memory) }));
    }

    /// The event of a batch orders work in another stream behind it.
    fn a_stream_gives_its_native_handles(device) {
        let stream = device.open_stream(&OPTIONS).unwrap();
        let native: &CudaStream = stream.as_any().downcast_ref().unwrap();
        assert!(!native.stream().is_null() && native.queue_memory() != 0);
        assert_eq!(native.context(), device.context());
        assert_eq!(native.staged_transfers(), 0);
    }

    /// A part of the queue is filled, in its turn.
    fn fills_take_their_turn(device) {
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&device, 8, 128);
        let (upload, mut bytes) = rig.upload(8, 0);
        stream.submit(upload).unwrap();
        stream.fill(Fill { range: 256..512, word: 0x0403_0201 }).unwrap();
        stream.fill(Fill { range: 0..0, word: 7 }).unwrap();
        bytes[256..512].copy_from_slice(&[1, 2, 3, 4].repeat(64));
        drop(next(&mut *stream).expect_upload());
        for _ in 0..2 {
            let completion = next(&mut *stream);
            assert_eq!(completion.result, Ok(()));
            assert!(matches!(completion.transfer, Transfer::Fill(_)));
        }
        assert_eq!(all_of(&device, &mut *stream), bytes);
    }

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
        let filter = example(&device, FILTER, "keep_even");
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
        let echo = example(&device, ECHO, "echo");
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
        let checksum = example(&device, CHECKSUM, "fnv1a");
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
            assert_eq!(reply, Reply::Output(&fnv1a(&payload(nth)).to_le_bytes()), "{nth}");
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
        let build = |code, entry: &str| device.build(&KernelSource { code, entry: entry.to_owned() });
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
        let build = |code, entry: &str| device.build(&KernelSource { code, entry: entry.to_owned() });
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

    /// The same memory and the same numbers on two devices at once.
    fn two_devices_have_one_slab(device) {
        let other = match CudaDevice::open(1) {
            Ok(other) => other,
            // The stand-in has two.
            Err(error) => {
                assert!(is_real() && matches!(error, DeviceError::NoSuchDevice { .. }), "{error}");
                CudaDevice::open(0).unwrap()
            }
        };
        let slab = Slab::builder(8, 64).lock(Policy::Never).build().unwrap();
        let second = other.register(&slab, Access::READ).unwrap();
        let mut rig = Rig::over(&device, slab, 8, 64);
        drop(other);
        assert_eq!(registration(&second), &Registration::Pinned);
        drop(second);
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let (upload, bytes) = rig.upload(8, 0);
        stream.submit(upload).unwrap();
        finish(&mut *stream);
        assert_eq!(bring(&device, &mut *stream, 0..512), bytes);
    }
}

fn example(device: &CudaDevice, ptx: &str, entry: &str) -> Kernel {
    device.build(&KernelSource { code: Code::Ptx(ptx.to_owned()), entry: entry.to_owned() }).unwrap()
}

fn sum(device: &CudaDevice) -> Kernel {
    example(device, SUM, "transload_measure")
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn twin(message: &[u8]) -> u32 {
    let words = message.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    words.fold(0, u32::wrapping_add)
}
