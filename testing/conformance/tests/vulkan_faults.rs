//! The Vulkan back end where the driver refuses, or is lost: each call in its turn, under validation, which also says what was
//! not given back.
#![expect(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::sync::{Mutex, PoisonError};

use ash::vk;
use transload::device::vulkan::{VulkanDevice, VulkanOptions, VulkanStream};
use transload::device::{
    CopyError, Device, DeviceError, Download, Fill, Landing, Launch, Output, Refused, Reply, Stream,
    StreamOptions, Transfer,
};
use transload::memory::{Policy, Slab};
use transload_conformance::device::example::Example;
use transload_conformance::device::{Rig, all_of, bring, finish, next};
use transload_conformance::skip::skip;
use transload_conformance::vulkan::{Layer, Own, hooks};
use transload_conformance::watchdog::watch;

const OPTIONS: StreamOptions = StreamOptions { queue_bytes: 1024, in_flight: 4 };

/// What is told to the hooks is told to the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A device whose calls can fail.
fn hooked(own: Own) -> Result<VulkanDevice, DeviceError> {
    let calls = hooks::hooked(&own);
    let mut options = VulkanOptions::default();
    // What fails while it is measured makes no difference.
    options.mapped_up_to_bytes = Some(0);
    // SAFETY: all of it is there and belongs together, and is kept by its owner.
    unsafe { VulkanDevice::from_raw(own.into_raw_with(calls), options) }
}

/// Makes a test of a function, bounded in time and skipped where there is no driver.
macro_rules! tests {
    ($($(#[$doc:meta])* fn $name:ident() $body:block)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            if let Err(why) = Own::new(Layer::Validation) {
                return skip(concat!("vulkan_faults::", stringify!($name)), &why);
            }
            watch(stringify!($name), || {
                let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
                $body
                hooks::fail_none();
            });
        }
    )*};
}

/// Tries something until it succeeds, and notes what it was refused with.
fn retried<T, E: std::fmt::Display>(told: &mut Vec<String>, mut what: impl FnMut() -> Result<T, E>) -> T {
    loop {
        match what() {
            Ok(value) => return value,
            Err(error) => told.push(error.to_string()),
        }
        assert!(told.len() < 3, "{told:?}");
    }
}

/// As [`retried`], for what is handed back.
fn resubmitted<T>(
    told: &mut Vec<String>,
    stream: &mut dyn Stream,
    transfer: T,
    submit: impl Fn(&mut dyn Stream, T) -> Result<u64, Refused<T>>,
) {
    let mut transfer = Some(transfer);
    retried(told, || {
        submit(stream, transfer.take().unwrap()).map_err(|refused| {
            transfer = Some(refused.transfer);
            refused.error
        })
    });
}

/// Everything that a device is used for, with what was refused tried again. Gives the refusals, and whether something had to
/// go another way.
fn everything() -> (Vec<String>, bool) {
    let mut told = Vec::new();
    let device = retried(&mut told, || hooked(Own::new(Layer::Validation).unwrap()));
    let kernel = retried(&mut told, || device.build(&Example::Checksum.source("spv")));
    let slab = retried(&mut told, || device.allocate_slab(8, 64));
    let mut stream = retried(&mut told, || device.open_stream(&OPTIONS));
    let mut rigs = [Rig::over(&device, slab, 8, 64), Rig::new(&device, 8, 64)];
    for rig in &mut rigs {
        let (upload, bytes) = rig.upload(8, 0);
        resubmitted(&mut told, &mut *stream, upload, |stream, upload| stream.submit(upload));
        finish(&mut *stream);
        let landing = retried(&mut told, || Landing::new(&device, 512));
        resubmitted(&mut told, &mut *stream, Download::new(0..512, landing), |stream, download| {
            stream.fetch(download)
        });
        assert_eq!(next(&mut *stream).expect_download().into_landing().as_slice()[..512], bytes);
        resubmitted(&mut told, &mut *stream, Fill { range: 0..4, word: 7 }, |stream, fill| stream.fill(fill));
        assert_eq!(next(&mut *stream).result, Ok(()));
        let (upload, bytes) = rig.upload(8, 64);
        let output = retried(&mut told, || Output::new(&device, 8, 8));
        resubmitted(&mut told, &mut *stream, Launch::new(upload, output, 0), |stream, launch| {
            stream.launch(&kernel, launch)
        });
        let Transfer::Launch(launch) = next(&mut *stream).transfer else { panic!("the launch comes back") };
        for (message, reply) in bytes.chunks(64).zip(launch.replies()) {
            assert_eq!(reply, Reply::Output(&Example::Checksum.answer(message, 8).unwrap()));
        }
        drop(launch);
        assert!(rig.is_free(8));
    }
    let native: &VulkanStream = stream.as_any().downcast_ref().unwrap();
    (told, native.staged_transfers() > 0)
}

tests! {
    /// Each call of the driver's that can fail does so in its turn: it is told, or makes no difference, and when it is tried
    /// again all is well. Nothing is left behind.
    fn each_call_fails_in_turn() {
        let mut failed = std::collections::BTreeMap::new();
        for nth in 0.. {
            hooks::fail_nth(nth, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
            let (told, is_staged) = everything();
            let Some(name) = hooks::fail_none() else { break };
            *failed.entry(name).or_insert(0) += 1;
            // These are asked again.
            if ["vkGetSemaphoreCounterValue", "vkWaitSemaphores"].contains(&name) {
                assert_eq!(told, [""; 0], "{name}");
            } else if told.is_empty() {
                assert!(is_staged, "{name}, the {nth}-th call, fails and nobody says so");
            } else {
                assert!(told.len() == 1 && told[0].contains(name), "{name}: {told:?}");
                assert!(told[0].contains("VK_ERROR_OUT_OF_DEVICE_MEMORY (-2)"), "{told:?}");
            }
        }
        assert_eq!(failed.len(), 18, "each call that is hooked has failed: {failed:?}");
    }

    /// The device is lost when work is given to it: nobody knows whether it has it, so the batch is quarantined.
    fn lost_with_a_submit() {
        let device = hooked(Own::new(Layer::Validation).unwrap()).unwrap();
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&device, 8, 64);
        stream.submit(rig.upload(3, 0).0).unwrap();
        hooks::fail_all("vkQueueSubmit", vk::Result::ERROR_DEVICE_LOST);
        stream.submit(rig.upload(2, 256).0).unwrap();
        let refused = stream.submit(rig.upload(1, 256).0).unwrap_err();
        assert!(matches!(refused.error, DeviceError::Lost { .. }), "{refused}");
        drop(refused);
        is_lost(&mut *stream, &[3, 2]);
        drop(stream);
        assert_eq!(rig.producer.statistics().quarantined, 5);
        // A new stream knows nothing of that yet.
        hooks::fail_none();
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let (upload, bytes) = rig.upload(1, 0);
        stream.submit(upload).unwrap();
        finish(&mut *stream);
        assert_eq!(bring(&device, &mut *stream, 0..64), bytes);
    }

    /// The device is lost while it works.
    fn lost_with_a_poll() {
        let device = hooked(Own::new(Layer::Validation).unwrap()).unwrap();
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&device, 8, 64);
        stream.submit(rig.upload(4, 0).0).unwrap();
        stream.submit(rig.upload(4, 0).0).unwrap();
        hooks::fail_all("vkGetSemaphoreCounterValue", vk::Result::ERROR_DEVICE_LOST);
        is_lost(&mut *stream, &[4, 4]);
        let landing = Landing::new(&device, 64).unwrap();
        let refused = stream.fetch(Download::new(0..64, landing)).unwrap_err();
        assert!(matches!(refused.error, DeviceError::Lost { .. }), "{refused}");
        let words = refused.error.to_string();
        assert!(words.contains("vkGetSemaphoreCounterValue answered VK_ERROR_DEVICE_LOST (-4)"), "{words}");
    }

    /// Each call fails in its turn while it is measured how kernels are given batches: the kernel is built all the same.
    fn a_measurement_that_fails_is_none() {
        let mut failures = 0;
        for nth in 2..40 {
            let own = Own::new(Layer::Validation).unwrap();
            let calls = hooks::hooked(&own);
            // SAFETY: all of it is there and belongs together, and is kept by its owner.
            let device = unsafe { VulkanDevice::from_raw(own.into_raw_with(calls), VulkanOptions::default()) }.unwrap();
            // Those before are the kernel's own.
            hooks::fail_nth(nth, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
            device.build(&Example::Checksum.source("spv")).unwrap();
            let Some(name) = hooks::fail_none() else { break };
            failures += 1;
            // A buffer that is not imported is another way, and no failure.
            if name.starts_with("vkCreate") && name != "vkCreateBuffer" {
                let stream = device.open_stream(&OPTIONS).unwrap();
                assert_eq!(stream.mapped_up_to_bytes(), 0, "{name}");
            }
        }
        assert!(failures > 15, "{failures}");
    }

    /// Where host memory cannot be imported, it is copied through other memory, and nothing of it stays imported.
    fn imports_that_are_refused() {
        let device = hooked(Own::new(Layer::Validation).unwrap()).unwrap();
        let slab = Slab::builder(8, 64).lock(Policy::Never).build().unwrap();
        hooks::fail_all("vkBindBufferMemory", vk::Result::ERROR_OUT_OF_HOST_MEMORY);
        let mut rig = Rig::over(&device, slab, 8, 64);
        assert_eq!(hooks::fail_none(), Some("vkBindBufferMemory"));
        let registration = rig.region.registration().to_string();
        assert!(registration.contains("vkBindBufferMemory failed with VK_ERROR_OUT_OF_HOST_MEMORY (-1)"), "{registration}");
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let (upload, bytes) = rig.upload(8, 0);
        stream.submit(upload).unwrap();
        finish(&mut *stream);
        assert_eq!(all_of(&device, &mut *stream)[..512], bytes);
    }
}

/// All that is in flight is lost, so many messages each.
fn is_lost(stream: &mut dyn Stream, messages: &[usize]) {
    for expected in messages {
        let completion = next(stream);
        assert!(matches!(completion.result, Err(CopyError::Lost { .. })), "{completion:?}");
        let Transfer::Quarantined { messages } = completion.transfer else { panic!("{completion:?}") };
        assert_eq!(messages, *expected);
    }
    assert_eq!(stream.in_flight(), 0);
}
