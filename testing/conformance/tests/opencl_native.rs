//! Native handles of OpenCL, in and out: the user's own context, queue, buffer and kernels.

mod kernel;

use std::ffi::c_void;
use std::ptr;

use kernel::Checksum;
use opencl3::command_queue::{
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_REFERENCE_COUNT, get_command_queue_info,
};
use opencl3::context::context::{
    CL_CONTEXT_REFERENCE_COUNT, create_context, get_context_info, release_context,
};
use opencl3::event::{
    CL_COMPLETE, CL_EVENT_COMMAND_EXECUTION_STATUS, get_event_info, release_event, wait_for_events,
};
use opencl3::memory::{
    CL_MEM_HOST_NO_ACCESS, CL_MEM_READ_WRITE, CL_MEM_REFERENCE_COUNT, create_buffer, get_mem_object_info,
    release_mem_object,
};
use opencl3::types::{cl_event, cl_mem};
use transload::device::opencl::{OpenClDevice, OpenClStream};
use transload::device::{Device, DeviceError, Landing, Stream, StreamOptions};
use transload::memory::{Policy, Slab};
use transload::region::{Access, Registrar, Registration};
use transload_conformance::device::{Hold, Rig, all_of, bring, finish, next};
use transload_conformance::opencl::{OwnQueue, QueueGate};
use transload_conformance::skip::skip;
use transload_conformance::watchdog::{until, watch};

const OPTIONS: StreamOptions = StreamOptions { queue_bytes: 1024, in_flight: 4 };

/// Makes a test of a function over the first device, bounded in time and skipped where there is none.
macro_rules! tests {
    ($($(#[$doc:meta])* fn $name:ident($device:ident) $body:block)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            let name = concat!("opencl_native::", stringify!($name));
            match OpenClDevice::open(0) {
                Err(error) => skip(name, &error.to_string()),
                Ok($device) => watch(name, move || $body),
            }
        }
    )*};
}

fn buffer(device: &OpenClDevice, flags: u64, len_bytes: usize) -> cl_mem {
    // SAFETY: the context is there, and no host pointer is given.
    unsafe { create_buffer(device.context(), flags, len_bytes, ptr::null_mut()) }.expect("a buffer")
}

fn release_buffer(buffer: cl_mem) {
    // SAFETY: made by `buffer`, released once.
    unsafe { release_mem_object(buffer) }.expect("released once");
}

fn stream_on(
    device: &OpenClDevice,
    queue: *mut c_void,
    buffer: Option<cl_mem>,
) -> Result<OpenClStream, DeviceError> {
    // SAFETY: the tests hand in what is there, or null.
    unsafe { device.open_stream_on(queue, buffer, &OPTIONS) }
}

fn status(event: cl_event) -> i32 {
    get_event_info(event, CL_EVENT_COMMAND_EXECUTION_STATUS).expect("a status").to_int()
}

tests! {
    /// A kernel on a second queue, with our event in its wait list, sees the batch that has landed, and not before.
    fn a_kernel_waits_for_a_batch(device) {
        const SIZE: usize = 48;
        let (copies, kernels) = (OwnQueue::new(&device), OwnQueue::new(&device));
        let mut gate = QueueGate::new(&device, &copies);
        let mut stream = stream_on(&device, copies.raw(), None).unwrap();
        let mut rig = Rig::new(&device, 8, SIZE);
        let mut kernel = Checksum::build(&device);
        for place in 0..8 {
            rig.advance(1); // so that most batches wrap
            gate.close();
            let (upload, bytes) = rig.upload(8, place);
            let landed_at = upload.device_range();
            let ticket = stream.submit(upload).unwrap();
            let landed = stream.event(ticket).unwrap();
            assert!(status(landed) > CL_COMPLETE);
            let run = kernel.launch(kernels.raw(), stream.queue_buffer(), landed_at.start, SIZE, 8, landed);
            std::thread::sleep(std::time::Duration::from_millis(10));
            assert!(status(run) > CL_COMPLETE, "the kernel waits for the batch");
            gate.open();
            let sums = kernel.sums(kernels.raw(), run);
            let expected: Vec<u32> = bytes.chunks(SIZE).map(kernel::fnv).collect();
            assert_eq!(sums, expected);
            wait_for_events(&[landed]).unwrap();
            // SAFETY: the reference is ours.
            unsafe { release_event(landed) }.unwrap();
            finish(&mut stream);
        }
    }

    /// An event is there while its transfer is in flight, and a reference of the caller's outlives the stream.
    fn events_are_given_out_while_in_flight(device) {
        let queue = OwnQueue::new(&device);
        let mut gate = QueueGate::new(&device, &queue);
        let mut stream = stream_on(&device, queue.raw(), None).unwrap();
        assert_eq!(stream.command_queue(), queue.raw());
        assert!(stream.event(0).is_none());
        let mut rig = Rig::new(&device, 8, 64);
        gate.close();
        let first = stream.submit(rig.upload(4, 0).0).unwrap();
        let second = stream.submit(rig.upload(4, 0).0).unwrap();
        let [event, other] = [first, second].map(|ticket| stream.event(ticket).unwrap());
        assert_ne!(event, other);
        assert!(stream.event(second + 1).is_none());
        gate.open();
        drop(next(&mut stream).expect_upload());
        assert!(stream.event(first).is_none(), "handed back");
        drop(next(&mut stream).expect_upload());
        drop(stream);
        for event in [event, other] {
            wait_for_events(&[event]).unwrap();
            // SAFETY: the reference is ours.
            unsafe { release_event(event) }.unwrap();
        }
    }

    /// A stream opened through the trait gives its own type.
    fn a_boxed_stream_gives_its_native_handles(device) {
        let stream = device.open_stream(&OPTIONS).unwrap();
        let native: &OpenClStream = stream.as_any().downcast_ref().unwrap();
        assert!(!native.command_queue().is_null() && !native.queue_buffer().is_null());
    }

    /// The user's buffer is the device queue, and is not written beyond it.
    fn a_buffer_of_the_users_is_the_device_queue(device) {
        let queue = OwnQueue::new(&device);
        let own = buffer(&device, CL_MEM_READ_WRITE, 2048);
        let mut whole = stream_on(&device, queue.raw(), Some(own)).unwrap();
        // SAFETY: queue and buffer are there.
        let half = unsafe {
            device.open_stream_on(queue.raw(), Some(own), &StreamOptions { queue_bytes: 2048, in_flight: 1 })
        };
        let mut both = half.unwrap();
        assert_eq!((whole.queue_bytes(), whole.queue_buffer()), (1024, own));
        let before = bring(&device, &mut both, 1024..2048);
        let mut rig = Rig::new(&device, 8, 128);
        let (upload, bytes) = rig.upload(8, 0);
        whole.submit(upload).unwrap();
        finish(&mut whole);
        assert_eq!(all_of(&device, &mut both), [bytes, before].concat());
        drop((whole, both));
        release_buffer(own);
    }

    /// The user's context, released by the user while it is in use.
    fn a_context_of_the_users_is_kept(device) {
        let id = device.device_id();
        let context = create_context(&[id], ptr::null(), None, ptr::null_mut()).unwrap();
        // SAFETY: both are there.
        let own = unsafe { OpenClDevice::from_raw(context, id) }.unwrap();
        // SAFETY: the reference is ours.
        unsafe { release_context(context) }.unwrap();
        assert_eq!((own.context(), own.device_id()), (context, id));
        assert_eq!(own.info(), device.info());
        let mut stream = own.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&own, 8, 64);
        drop(own);
        let (upload, _) = rig.upload(8, 0);
        stream.submit(upload).unwrap();
        finish(&mut *stream);
    }

    /// What does not fit is refused with the reason, and keeps no reference.
    fn handles_that_do_not_fit_are_refused(device) {
        let other = OpenClDevice::open(0).unwrap();
        let queue = OwnQueue::new(&device);
        let foreign = OwnQueue::new(&other);
        let unordered = OwnQueue::with_properties(&device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        let expect = |stream: Result<OpenClStream, DeviceError>, words: &str| {
            let error = stream.expect_err(words);
            assert!(matches!(error, DeviceError::Unsuitable { .. }), "{error}");
            assert!(error.to_string().contains(words), "{error}");
        };
        expect(stream_on(&device, ptr::null_mut(), None), "null");
        expect(stream_on(&device, foreign.raw(), None), "another context");
        expect(stream_on(&device, unordered.raw(), None), "out of order");
        let buffers = [
            (buffer(&device, CL_MEM_READ_WRITE, 1023), "1023 bytes"),
            (buffer(&other, CL_MEM_READ_WRITE, 1024), "another context"),
            (buffer(&device, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS, 1024), "closed to"),
        ];
        expect(stream_on(&device, queue.raw(), Some(ptr::null_mut())), "null");
        for (buffer, words) in buffers {
            expect(stream_on(&device, queue.raw(), Some(buffer)), words);
            assert_eq!(u32::from(get_mem_object_info(buffer, CL_MEM_REFERENCE_COUNT).unwrap()), 1);
            release_buffer(buffer);
        }
        for (context, id) in [(ptr::null_mut(), device.device_id()), (device.context(), ptr::null_mut())] {
            // SAFETY: what is not null is there; the rest is refused before it is used.
            let error = unsafe { OpenClDevice::from_raw(context, id) }.unwrap_err();
            assert!(matches!(error, DeviceError::Unsuitable { .. }), "{error}");
        }
        for queue in [&queue, &foreign, &unordered] {
            let count = get_command_queue_info(queue.raw(), CL_QUEUE_REFERENCE_COUNT).unwrap();
            assert_eq!(u32::from(count), 1);
        }
    }

    /// After everything is dropped, the user's objects have the references that they had before.
    fn references_are_given_back(device) {
        let queue = OwnQueue::new(&device);
        let own = buffer(&device, CL_MEM_READ_WRITE, 1024);
        let counts = || {
            [
                u32::from(get_context_info(device.context(), CL_CONTEXT_REFERENCE_COUNT).unwrap()),
                u32::from(get_command_queue_info(queue.raw(), CL_QUEUE_REFERENCE_COUNT).unwrap()),
                u32::from(get_mem_object_info(own, CL_MEM_REFERENCE_COUNT).unwrap()),
            ]
        };
        let [context, commands, memory] = counts();
        for _ in 0..10 {
            // SAFETY: both are there.
            let again = unsafe { OpenClDevice::from_raw(device.context(), device.device_id()) }.unwrap();
            let mut stream = stream_on(&again, queue.raw(), Some(own)).unwrap();
            let mut rig = Rig::over(&again, again.allocate_slab(8, 64).unwrap(), 8, 64);
            for _ in 0..20 {
                stream.submit(rig.upload(8, 0).0).unwrap();
                finish(&mut stream);
                bring(&again, &mut stream, 0..512);
            }
            stream.submit(rig.upload(8, 0).0).unwrap();
        }
        // PoCL keeps a reference to the queue with the last event in it.
        let expected = [[context, commands, memory], [context, commands + 1, memory]];
        assert!(until(|| expected.contains(&counts())), "{:?} instead of {expected:?}", counts());
        release_buffer(own);
    }

    /// Only memory that this device has allocated is called pinned.
    fn registrations_say_what_is_known(device) {
        let other = OpenClDevice::open(0).unwrap();
        let own = device.allocate_slab(8, 64).unwrap();
        let plain = Slab::builder(8, 64).lock(Policy::Never).build().unwrap();
        let registration = |device: &OpenClDevice, slab: &Slab| {
            device.register(slab, Access::READ).unwrap().registration().clone()
        };
        assert_eq!(registration(&device, &own), Registration::Pinned);
        assert_eq!(registration(&device.clone(), &own), Registration::Pinned);
        let expected = registration(&device, &plain);
        assert_ne!(expected, Registration::Pinned);
        assert_eq!(registration(&other, &own), expected);
        // The next allocation may be at the same address.
        drop(own);
        assert_eq!(registration(&device, &plain), expected);
        assert_eq!(registration(&device, &device.allocate_slab(8, 64).unwrap()), Registration::Pinned);
        assert_ne!(*Landing::new(&device, 64).unwrap().region().registration(), Registration::Pinned);
    }
}
