//! What CUDA has and other back ends have not: registered ranges, contexts, native handles. On the stand-in for the
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
use transload::device::{Device, DeviceError, Fill, Stream, StreamOptions, Transfer};
use transload::memory::{Policy, Slab};
use transload::region::{Access, Region, RegisterError, Registrar, Registration};
use transload_conformance::cuda::{OwnStream, entered, is_real};
use transload_conformance::device::{Rig, all_of, bring, finish, next};

const OPTIONS: StreamOptions = StreamOptions { queue_bytes: 1024, in_flight: 4 };
const PAGE: usize = 4096;

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

transload_conformance::cuda_tests! {
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
