//! The CUDA back end where the driver refuses, fails, is lost or has ended: on the stand-in, which does so when it is told to.
//! And that the stand-in finds out who breaks the rules.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test panics where it fails")]

mod cuda_faults;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cuda_faults::{CALLS, RELEASES, scenario};
use cudarc::driver::sys::{self, CUresult};
use transload::device::cuda::{CudaDevice, CudaOptions, CudaStream};
use transload::device::{
    Code, CopyError, Device, DeviceError, Download, Fill, Kernel, KernelSource, Landing, Launch, Output,
    Reply, Route, Stream, StreamOptions, Transfer, Upload,
};
use transload::memory::{Policy, Slab};
use transload::region::{Access, RegisterError, Registrar, Registration};
use transload_conformance::cuda::{self, OwnStream, StandIn, ValueGate, entered, stand_in};
use transload_conformance::device::{Hold, Rig, all_of, bring, finish, next};
use transload_conformance::watchdog::{until, watch};

const OPTIONS: StreamOptions = StreamOptions { queue_bytes: 1024, in_flight: 4 };
const PAGE: usize = 4096;

/// What is told to the stand-in is told to the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Makes a test of a function over the stand-in, bounded in time.
macro_rules! tests {
    ($($(#[$doc:meta])* fn $name:ident($driver:ident) $body:block)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            watch(stringify!($name), || {
                let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
                let $driver = stand_in();
                $body
                assert_eq!($driver.forget_failures(), 0, "all that was to fail has failed");
                // Where the driver was lost, or did not do what releases: that memory is given to the tests behind this.
                $driver.forget_registrations();
            });
        }
    )*};
}

/// Runs something, and looks that it has released all that it has made.
fn releases_all(driver: &StandIn, what: impl FnOnce()) {
    let before = driver.left();
    what();
    assert_eq!(driver.left(), before);
}

fn kernel(device: &CudaDevice, name: &str) -> Kernel {
    let code = Code::Ptx(format!(".version 6.0\n.visible .entry {name}()"));
    // SAFETY: the stand-in runs no code; its twin of that name keeps to what it is given.
    device.build(&unsafe { KernelSource::new(code, name) }).unwrap()
}

fn slab() -> Slab {
    Slab::builder(8, PAGE).lock(Policy::Never).build().unwrap()
}

tests! {
    /// The checker's own twins: each rule that is broken is noted.
    fn broken_rules_are_found_out(driver) {
        const INVALID_VALUE: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
        let device = cuda::device();
        let own = OwnStream::new(&device);
        let mut gate = ValueGate::new(&device, &own);
        let stream = device.open_stream(&OPTIONS).unwrap();
        let native: &CudaStream = stream.as_any().downcast_ref().unwrap();
        let (memory, plain) = (native.queue_memory(), slab());
        driver.collect(true);
        let noted = |words: &str| {
            let violations = driver.violations();
            assert!(violations.len() == 1 && violations[0].contains(words), "{words}: {violations:?}");
        };
        // SAFETY: the stand-in refuses.
        let copied = unsafe { sys::cuMemcpyHtoDAsync_v2(memory, plain.as_ptr().cast(), 64, own.raw()) };
        assert_eq!(copied, CUresult::CUDA_ERROR_INVALID_CONTEXT);
        noted("without a current context");
        entered(&device, || {
            // SAFETY: the stand-in refuses.
            let copied = unsafe { sys::cuMemcpyHtoDAsync_v2(memory, plain.as_ptr().cast(), 64, own.raw()) };
            assert_eq!(copied, INVALID_VALUE);
            noted("not in one registered range");
            let region = device.register(&plain, Access::READ).unwrap();
            let end = plain.as_ptr().wrapping_add(8 * PAGE - 8);
            // SAFETY: as above.
            assert_eq!(unsafe { sys::cuMemcpyHtoDAsync_v2(memory, end.cast(), 9, own.raw()) }, INVALID_VALUE);
            noted("not in one registered range");
            // SAFETY: as above.
            let beyond = unsafe { sys::cuMemcpyHtoDAsync_v2(memory + 1020, plain.as_ptr().cast(), 5, own.raw()) };
            assert_eq!(beyond, INVALID_VALUE);
            noted("not the device's");
            gate.close();
            // SAFETY: the memory is registered, and stays.
            let copied = unsafe { sys::cuMemcpyHtoDAsync_v2(memory, plain.as_ptr().cast(), 64, own.raw()) };
            assert_eq!(copied, CUresult::CUDA_SUCCESS);
            drop(region);
            noted("something in flight uses");
            gate.open();
            // SAFETY: the stream is there.
            assert!(until(|| unsafe { sys::cuStreamQuery(own.raw()) } == CUresult::CUDA_SUCCESS));
            // SAFETY: the stand-in refuses.
            let _ = unsafe { sys::cuMemHostUnregister(plain.as_ptr().cast()) };
            noted("has not registered");
            // SAFETY: as above.
            let _ = unsafe { sys::cuMemHostRegister_v2(plain.as_ptr().wrapping_add(1).cast(), PAGE, 1) };
            noted("whole pages");
            // SAFETY: as above.
            let _ = unsafe { sys::cuMemFree_v2(memory + 256) };
            noted("no device memory");
        });
        driver.collect(false);
    }

    /// Each call that the driver can refuse, refused once, whichever time it is made: what was refused is handed back and
    /// goes through the next time, in order, and nothing is left.
    fn each_call_may_fail_once(driver) {
        releases_all(driver, scenario);
        for function in CALLS {
            let before = driver.calls(function);
            scenario();
            let calls = driver.calls(function) - before;
            assert!(calls > 0, "{function} is called");
            for nth in (0..calls).take(12).chain(calls.saturating_sub(3).max(12)..calls) {
                for code in [2, 1] {
                    releases_all(driver, || {
                        driver.fail(function, nth, code);
                        scenario();
                        // It may have been called fewer times, for what needs it was refused for another reason.
                        driver.forget_failures();
                    });
                }
            }
        }
    }

    /// What cannot be released is left, without a word and without an end.
    fn each_release_may_fail(driver) {
        for function in RELEASES {
            for nth in 0..3 {
                driver.fail(function, nth, 1);
                scenario();
                driver.forget_failures();
                driver.forget_registrations();
            }
        }
    }

    /// An error that the driver keeps and gives to the next call is fetched where it arose.
    fn an_error_that_stays_is_fetched_where_it_arose(driver) {
        let device = cuda::device();
        driver.fail_and_stay("cuMemHostRegister_v2", 1);
        let region = device.register(&slab(), Access::WRITE).unwrap();
        assert!(matches!(region.registration(), Registration::Staged { .. }), "{region:?}");
        drop(device.open_stream(&OPTIONS).unwrap());
    }

    /// The third piece is refused: those before it are undone, and copies go through the stream's own memory both ways.
    fn pieces_are_pinned_all_or_none(driver) {
        let device = cuda::device();
        releases_all(driver, || {
            let mut options = CudaOptions::default();
            options.piece_bytes = PAGE;
            let device = CudaDevice::open_with(0, options).unwrap();
            let slab = slab();
            driver.fail("cuMemHostRegister_v2", 2, 2);
            let error = device.register_pinned(&slab, Access::READ_WRITE).unwrap_err();
            assert!(matches!(error, RegisterError::NotDirect { .. }), "{error}");
            drop(device.register_pinned(&slab, Access::READ_WRITE).unwrap());
            // With the flag for reading only it is tried a second time.
            driver.fail("cuMemHostRegister_v2", 2, 2);
            driver.fail("cuMemHostRegister_v2", 5, 2);
            let mut rig = Rig::over(&device, slab, 64, 512);
            let Registration::Staged { reason } = rig.region.registration() else { panic!("{:?}", rig.region) };
            assert!(reason.contains("CUDA_ERROR_OUT_OF_MEMORY (2)") && reason.contains("ulimit"), "{reason}");

            let mut stream = device.open_stream(&StreamOptions { queue_bytes: 64 * 512, in_flight: 4 }).unwrap();
            driver.fail("cuMemHostRegister_v2", 0, 2);
            let landing = Landing::new(&device, 64 * 512).unwrap();
            assert!(matches!(landing.region().registration(), Registration::Staged { .. }));
            let mut landing = Some(landing);
            for before in [0, 7] {
                rig.advance(before);
                let (upload, bytes) = rig.upload(64, 0);
                stream.submit(upload).unwrap();
                stream.fetch(Download::new(0..64 * 512, landing.take().unwrap())).unwrap();
                drop(next(&mut *stream).expect_upload());
                let back = next(&mut *stream).expect_download().into_landing();
                assert!(back.as_slice() == bytes);
                landing = Some(back);
            }
            let native: &CudaStream = stream.as_any().downcast_ref().unwrap();
            assert_eq!(native.staged_transfers(), 4);
        });
        drop(device);
    }

    /// Without memory to go through, what is not pinned is refused and handed back: never given to the driver.
    fn without_memory_to_go_through_a_batch_is_refused(driver) {
        let device = cuda::device();
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        // With the flag for reading only it is tried a second time.
        driver.fail("cuMemHostRegister_v2", 0, 2);
        driver.fail("cuMemHostRegister_v2", 0, 2);
        let mut rig = Rig::new(&device, 8, 64);
        driver.fail("cuMemHostAlloc", 0, 2);
        let (upload, bytes) = rig.upload(8, 0);
        let refused = stream.submit(upload).unwrap_err();
        assert!(matches!(refused.error, DeviceError::Driver { call: "cuMemHostAlloc", .. }), "{}", refused.error);
        stream.submit(refused.transfer).unwrap();
        finish(&mut *stream);
        assert_eq!(bring(&device, &mut *stream, 0..512), bytes);
    }

    /// Memory that may only be read is pinned for reading; nobody can then have it for writing.
    fn memory_that_may_only_be_read_is_pinned_so(driver) {
        const READ_ONLY_IS_KNOWN: i32 = 113;
        let (device, slab) = (cuda::device(), slab());
        driver.fail("cuMemHostRegister_v2", 0, 1);
        let region = device.register(&slab, Access::READ).unwrap();
        assert_eq!(region.registration(), &Registration::Pinned);
        let error = device.register(&slab, Access::READ_WRITE).unwrap_err();
        assert!(matches!(&error, RegisterError::Refused { reason, .. } if reason.contains("reading only")), "{error}");
        drop(region);
        let region = device.register(&slab, Access::READ_WRITE).unwrap();
        assert_eq!(region.registration(), &Registration::Pinned);
        drop(region);
        // A driver that knows no such flag is not asked a second time.
        driver.attribute(READ_ONLY_IS_KNOWN, 0);
        driver.fail("cuMemHostRegister_v2", 0, 1);
        let region = device.register(&slab, Access::READ).unwrap();
        assert!(matches!(region.registration(), Registration::Staged { .. }), "{region:?}");
        driver.attribute(READ_ONLY_IS_KNOWN, 1);
    }

    /// A device that uses the page tables of the host pins nothing, and reaches everything.
    fn a_device_with_the_page_tables_of_the_host_has_memory_mapped(driver) {
        const USES_HOST_PAGE_TABLES: i32 = 100;
        let device = cuda::device();
        driver.attribute(USES_HOST_PAGE_TABLES, 1);
        let region = device.register_pinned(&slab(), Access::READ).unwrap();
        assert_eq!(region.registration(), &Registration::Mapped);
        driver.attribute(USES_HOST_PAGE_TABLES, 0);
    }

    /// The event behind a batch cannot be recorded at once: it is by a later poll, and the batch is not lost.
    fn an_event_is_recorded_when_it_can_be(driver) {
        let device = cuda::device();
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&device, 8, 64);
        for function in ["cuEventCreate", "cuEventRecord"] {
            let (upload, bytes) = rig.upload(8, 0);
            driver.fail(function, 0, 2);
            let ticket = stream.submit(upload).unwrap();
            let native: &CudaStream = stream.as_any().downcast_ref().unwrap();
            assert!(native.event(ticket).is_none());
            finish(&mut *stream);
            assert_eq!(bring(&device, &mut *stream, 0..512), bytes);
        }
    }

    /// The source of a slow copy is not given back before it has ended, whoever drops what.
    fn a_slow_copy_keeps_its_source(driver) {
        let device = cuda::device();
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&device, 8, 64);
        let (upload, bytes) = rig.upload(8, 0);
        driver.delay(50_000);
        stream.submit(upload).unwrap();
        assert_eq!(rig.free(), 0);
        drop(device);
        assert!(stream.poll().is_none());
        finish(&mut *stream);
        driver.delay(0);
        rig.send(8);
        let device = cuda::device();
        // Another device than that of the stream: its landing is refused.
        assert!(stream.fetch(Download::new(0..512, Landing::new(&device, 512).unwrap())).is_err());
        drop(stream);
        drop(bytes);
    }

    /// A device that is lost with transfers in flight: they are quarantined, further ones refused, and no drop waits.
    fn a_lost_device_quarantines_what_is_in_flight(driver) {
        for code in [700, 719, 999, 4] {
            let device = cuda::device();
            let own = OwnStream::new(&device);
            let mut gate = ValueGate::new(&device, &own);
            // SAFETY: the stream stays.
            let mut stream = unsafe { device.open_stream_on(own.raw(), None, &OPTIONS) }.unwrap();
            let mut rig = Rig::new(&device, 8, 64);
            gate.close();
            let first = stream.submit(rig.upload(3, 0).0).unwrap();
            stream.fetch(Download::new(0..64, Landing::new(&device, 64).unwrap())).unwrap();
            stream.submit(rig.upload(2, 0).0).unwrap();
            assert!(stream.poll().is_none());
            driver.lose(code);
            for (nth, messages) in [3, 0, 2].into_iter().enumerate() {
                let completion = next(&mut stream);
                assert_eq!(completion.ticket, first + nth as u64);
                assert!(matches!(completion.result, Err(CopyError::Lost { .. })), "{:?}", completion.result);
                assert!(matches!(completion.transfer, Transfer::Quarantined { messages: lost } if lost == messages));
            }
            assert_eq!(rig.producer.statistics().quarantined, 5);
            let refused = stream.submit(rig.upload(3, 0).0).unwrap_err();
            assert!(matches!(refused.error, DeviceError::Lost { .. }), "{}", refused.error);
            assert_eq!(refused.transfer.messages(), 3);
            let refused = stream.fill(Fill { range: 0..4, word: 0 }).unwrap_err();
            assert!(matches!(refused.error, DeviceError::Lost { .. }), "{}", refused.error);
            drop((stream, rig, device));
            driver.lose(0);
            drop((gate, own));
        }
    }

    /// A device that is lost while nothing is in flight: what is submitted comes back.
    fn what_is_submitted_to_a_lost_device_comes_back(driver) {
        let device = cuda::device();
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&device, 8, 64);
        driver.lose(719);
        let refused = stream.submit(rig.upload(8, 0).0).unwrap_err();
        assert!(matches!(refused.error, DeviceError::Lost { .. }), "{}", refused.error);
        drop(refused);
        assert!(rig.is_free(8));
        assert!(matches!(device.register(&slab(), Access::READ), Err(RegisterError::Refused { .. })));
        assert!(matches!(device.open_stream(&OPTIONS), Err(DeviceError::Lost { .. })));
        assert!(matches!(device.allocate_slab(1, 1), Err(DeviceError::Lost { .. })));
        drop((stream, rig, device));
        driver.lose(0);
    }

    /// A stream whose gate stays closed is dropped within its time, and what is in flight is quarantined.
    fn a_driver_that_has_shut_down_releases_nothing_and_says_nothing(driver) {
        let device = cuda::device();
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&device, 8, 64);
        let allocated = device.allocate_slab(8, 64).unwrap();
        let region = device.register(&slab(), Access::READ).unwrap();
        let sum = kernel(&device, "fnv1a");
        stream.submit(rig.upload(4, 0).0).unwrap();
        finish(&mut *stream);
        driver.shut_down(true);
        let started = Instant::now();
        drop((device, stream, rig, allocated, region, sum));
        assert!(started.elapsed() < Duration::from_secs(1), "nothing was in flight");
        driver.shut_down(false);
    }

    /// Whatever is dropped first, nothing is left at the end.
    fn nothing_is_left_in_any_order_of_drops(driver) {
        for order in 0..5 {
            releases_all(driver, || {
                let device = cuda::device();
                let mut stream = device.open_stream(&OPTIONS).unwrap();
                let mut rig = Rig::over(&device, device.allocate_slab(8, 64).unwrap(), 8, 64);
                let region = device.register(&slab(), Access::READ_WRITE).unwrap();
                let fnv = kernel(&device, "fnv1a");
                stream.submit(rig.upload(8, 0).0).unwrap();
                match order {
                    0 => drop((device, stream, rig, region, fnv)),
                    1 => drop((fnv, region, rig, stream, device)),
                    2 => drop((rig, stream, device, fnv, region)),
                    3 => drop((region, rig, device, stream, fnv)),
                    _ => std::thread::spawn(move || drop((stream, device, fnv, rig, region))).join().unwrap(),
                }
            });
        }
    }

    /// The twin of the command's own check tells right from wrong, wherever the byte is.
    fn the_check_of_generated_messages_finds_a_wrong_byte(driver) {
        let _ = driver;
        let device = cuda::device();
        let check = kernel(&device, "check_pattern");
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&device, 32, 20);
        let stamp = 77_u64;
        let word = |index: u64| {
            let mixed = (stamp ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 32).to_le_bytes()
        };
        let right = [stamp.to_le_bytes(), word(1), word(2)].concat()[..20].to_vec();
        let mut wrong = vec![right.clone()];
        for at in 8..20 {
            let mut message = right.clone();
            message[at] ^= 1;
            wrong.push(message);
        }
        for message in &wrong {
            rig.producer.try_enqueue(message).unwrap();
        }
        let upload = Upload::new(&rig.region.clone(), rig.take(wrong.len()), 0);
        stream.launch(&check, Launch::new(upload, Output::new(&device, 32, 16).unwrap(), 0)).unwrap();
        let Transfer::Launch(launch) = next(&mut *stream).transfer else { panic!("the launch comes back") };
        for (nth, reply) in launch.replies().enumerate() {
            let verdict = if nth == 0 { [1, 0, 0, 0] } else { [2, 0, 0, 0] };
            let record = [&stamp.to_le_bytes()[..], &[20, 0, 0, 0], &verdict].concat();
            assert_eq!(reply, Reply::Output(&record), "{nth}");
        }
    }

    /// Where copies are slow, small batches are read where they are; where they cannot be reached, none is.
    fn small_batches_are_read_where_they_are_if_that_is_faster(driver) {
        const CAN_MAP: i32 = 19;
        driver.delay(500);
        let device = cuda::device();
        let options = StreamOptions { queue_bytes: 1 << 19, in_flight: 4 };
        let mut stream = device.open_stream(&options).unwrap();
        driver.delay(0);
        assert_eq!(stream.mapped_up_to_bytes(), 256 << 10);
        let fnv = kernel(&device, "fnv1a");
        let mut rig = Rig::new(&device, 512, 1024);
        let before = all_of(&device, &mut *stream);
        for (messages, advance, route) in [
            (256, 0, Route::Mapped),
            (257, 0, Route::Copied),
            (4, 0, Route::Mapped),
            // It wraps.
            (16, 504 - (256 + 257 + 4 - 512), Route::Copied),
        ] {
            rig.advance(advance);
            let (upload, bytes) = rig.upload(messages, 0);
            let output = Output::new(&device, messages, 8).unwrap();
            stream.launch(&fnv, Launch::new(upload, output, 0)).unwrap();
            let Transfer::Launch(launch) = next(&mut *stream).transfer else { panic!("the launch comes back") };
            assert_eq!(launch.route(), route, "{messages}");
            let first = launch.replies().next().unwrap();
            assert_eq!(first, Reply::Output(&fnv1a(&bytes[..1024]).to_le_bytes()));
            if messages == 256 {
                assert!(all_of(&device, &mut *stream) == before, "nothing was copied");
            }
        }
        driver.attribute(CAN_MAP, 0);
        let device = cuda::device();
        let stream = device.open_stream(&options).unwrap();
        assert_eq!(stream.mapped_up_to_bytes(), 0);
        driver.attribute(CAN_MAP, 1);
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
