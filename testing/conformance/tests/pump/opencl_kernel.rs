//! Kernels of the user's own, on the stream's own command queue: one with the header for kernels, and one in plain OpenCL C
//! that shares the queues of a pump by nothing but their layout.

use std::ffi::CStr;
use std::ptr;
use std::thread;

use opencl3::command_queue::{enqueue_nd_range_kernel, flush};
use opencl3::event::release_event;
use opencl3::kernel::{create_kernel, release_kernel, set_kernel_arg};
use opencl3::program::{build_program, create_program_with_source, release_program};
use opencl3::types::{cl_kernel, cl_program, cl_uint, cl_ulong};
use transload::device::opencl::{OpenClDevice, OpenClStream};
use transload::device::{OPENCL_AND_CUDA_HEADER, QueueLayout, Stream};
use transload::pump::{DeviceQueues, Pump};
use transload_conformance::queues::TURN;
use transload_conformance::skip::skip;
use transload_conformance::watchdog::{until, watch};

use crate::kit::{MESSAGE, balanced, collect, options, ring};
use crate::puppet::Puppet;

/// Each work item keeps a place for an answer before it takes a message, and gives the place up if there is none: then the
/// slot is marked.
const SOURCE: &str = "
#define TAIL 32
#define HEAD 48
#define SKIPPED 49

kernel void answer(global uint *memory, ulong inbound, ulong outbound) {
    volatile global uint *in = memory + inbound / 4, *out = memory + outbound / 4;
    uint at;
    do {
        at = out[TAIL];
        if (at - out[HEAD] >= out[0])
            return;
    } while (atomic_cmpxchg(out + TAIL, at, at + 1) != at);
    uint place = at & (out[0] - 1);
    uint from = in[HEAD], slot;
    bool some = false;
    while (from != in[TAIL]) {
        uint seen = atomic_cmpxchg(in + HEAD, from, from + 1);
        if (seen == from) {
            slot = from & (in[0] - 1);
            some = in[in[2] / 4 + slot] == 0;
            if (some)
                break;
            seen = from + 1;
        }
        from = seen;
    }
    out[out[2] / 4 + place] = some ? 0 : 1;
    if (!some) {
        atomic_inc(out + SKIPPED);
        return;
    }
    for (uint word = 0; word < in[1] / 4; word++)
        out[out[3] / 4 + place * (out[1] / 4) + word] = in[in[3] / 4 + slot * (in[1] / 4) + word] * 3 + 1;
}";

const WORK_ITEMS: usize = 16;

struct Answer {
    program: cl_program,
    kernel: cl_kernel,
}

// SAFETY: handles of OpenCL may be used and released on any thread; the kernel is used on one at a time.
unsafe impl Send for Answer {}

impl Answer {
    fn build(device: &OpenClDevice, source: &str, entry: &CStr, outbound: usize) -> Self {
        let program = create_program_with_source(device.context(), &[source]).expect("a program");
        build_program(program, &[device.device_id()], c"", None, ptr::null_mut()).expect("it builds");
        let kernel = create_kernel(program, entry).expect("a kernel");
        let answer = Self { program, kernel };
        answer.argument(1, &(0 as cl_ulong));
        answer.argument(2, &(outbound as cl_ulong));
        answer
    }

    fn argument<T>(&self, index: cl_uint, value: &T) {
        // SAFETY: the kernel has an argument of this type there; the value is copied.
        unsafe { set_kernel_arg(self.kernel, index, size_of::<T>(), ptr::from_ref(value).cast()) }
            .expect("an argument");
    }

    /// Enqueues a run behind what the pump has enqueued.
    fn run(&self, stream: &dyn Stream) {
        let stream = stream.as_any().downcast_ref::<OpenClStream>().expect("an OpenCL stream");
        self.argument(0, &stream.queue_buffer());
        let (queue, work_items) = (stream.command_queue(), WORK_ITEMS);
        // SAFETY: all handles are there, the buffer holds both queues, and the list of events is empty.
        let run = unsafe {
            enqueue_nd_range_kernel(
                queue,
                self.kernel,
                1,
                ptr::null(),
                &raw const work_items,
                ptr::null(),
                0,
                ptr::null(),
            )
        };
        flush(queue).expect("a flush");
        // SAFETY: the reference is ours.
        unsafe { release_event(run.expect("a kernel is enqueued")) }.expect("an event");
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // SAFETY: made by `build`, released once; the driver keeps it for runs that have not ended.
        let _ = unsafe { release_kernel(self.kernel) };
        // SAFETY: as above.
        let _ = unsafe { release_program(self.program) };
    }
}

/// How many messages are sent.
const MESSAGES: u64 = 1000;

/// Sends messages through a kernel, and gives what comes back, in the order of the numbers.
fn answers(device: OpenClDevice, source: &str, entry: &CStr) -> Vec<[u8; MESSAGE]> {
    let layout = QueueLayout::new(32, MESSAGE).unwrap();
    let answer = Answer::build(&device, source, entry, layout.stride_bytes());
    let puppet = Puppet::new(device, move |stream| {
        answer.run(stream);
        None
    });
    let ((producer, feed), (back, mut consumer)) = (ring(64), ring(64));
    let queues = DeviceQueues::new().inbound(feed, 32).outbound(back, 64).starting_at(u32::MAX - 99);
    let running = Pump::open_queues(&puppet, queues, options()).unwrap().spawn().unwrap();
    let collecting = thread::spawn(move || collect(&mut consumer));
    (0..MESSAGES).for_each(|number| producer.enqueue(&number.to_le_bytes()).unwrap());
    let stopper = running.stopper().clone();
    assert!(until(|| stopper.progress().returned == MESSAGES), "{:?}", stopper.progress());
    drop(producer);
    let report = running.join();
    balanced(&report);
    assert!(report.error.is_none(), "{report:?}");
    assert_eq!((report.delivered, report.returned, report.unreturned), (MESSAGES, MESSAGES, 0));
    collecting.join().unwrap().into_iter().map(u64::to_le_bytes).collect()
}

/// Work items answer in any order.
fn are_the_same(mut answers: Vec<[u8; MESSAGE]>, mut expected: Vec<[u8; MESSAGE]>) -> bool {
    answers.sort_unstable();
    expected.sort_unstable();
    answers == expected
}

/// Makes a test of a function over the first device, bounded in time and skipped where there is none.
fn test(name: &'static str, test: impl FnOnce(OpenClDevice) + Send + 'static) {
    match OpenClDevice::open(0) {
        Ok(device) => watch(name, move || test(device)),
        Err(error) => skip(name, &error.to_string()),
    }
}

#[test]
fn a_kernel_that_knows_the_layout_only_takes_and_gives() {
    let name = "pump::opencl_kernel::a_kernel_that_knows_the_layout_only_takes_and_gives";
    test(name, |device| {
        let expected = (0..1000_u32).map(|number| {
            let words = [number * 3 + 1, 1].map(u32::to_le_bytes);
            *words.as_flattened().first_chunk().unwrap()
        });
        assert!(are_the_same(answers(device, SOURCE, c"answer"), expected.collect()));
    });
}

#[test]
fn a_kernel_with_the_header_takes_and_gives() {
    test("pump::opencl_kernel::a_kernel_with_the_header_takes_and_gives", |device| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/echo.cl");
        let source = std::fs::read_to_string(path).unwrap();
        let source = source.replace("#include \"transload_device.h\"", OPENCL_AND_CUDA_HEADER);
        let expected = (0..MESSAGES).map(|number| number.to_le_bytes().map(|byte| byte ^ TURN));
        assert!(are_the_same(answers(device, &source, c"echo"), expected.collect()));
    });
}
