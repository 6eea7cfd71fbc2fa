//! A user's kernel: one checksum a message.

use std::ptr;

use opencl3::command_queue::{enqueue_nd_range_kernel, enqueue_read_buffer, flush};
use opencl3::event::release_event;
use opencl3::kernel::{create_kernel, release_kernel, set_kernel_arg};
use opencl3::memory::{CL_MEM_READ_WRITE, create_buffer, release_mem_object};
use opencl3::program::{build_program, create_program_with_source, release_program};
use opencl3::types::{CL_BLOCKING, cl_command_queue, cl_event, cl_kernel, cl_mem, cl_program, cl_uint};
use transload::device::opencl::OpenClDevice;

const SOURCE: &str = "
kernel void checksum(global const uchar *queue, uint start, uint size, global uint *sums) {
    size_t message = get_global_id(0);
    uint sum = 2166136261u;
    for (uint at = 0; at < size; at++)
        sum = (sum ^ queue[start + message * size + at]) * 16777619u;
    sums[message] = sum;
}";

/// FNV-1a of 32 bits.
pub(crate) fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(2_166_136_261, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(16_777_619))
}

/// The kernel, and the buffer that its sums go to.
pub(crate) struct Checksum {
    program: cl_program,
    kernel: cl_kernel,
    sums: cl_mem,
    messages: usize,
}

impl Checksum {
    const MOST: usize = 64;

    pub(crate) fn build(device: &OpenClDevice) -> Self {
        let program = create_program_with_source(device.context(), &[SOURCE]).expect("a program");
        build_program(program, &[device.device_id()], c"", None, ptr::null_mut()).expect("it builds");
        let kernel = create_kernel(program, c"checksum").expect("a kernel");
        // SAFETY: the context is there, and no host pointer is given.
        let sums = unsafe {
            create_buffer(device.context(), CL_MEM_READ_WRITE, Self::MOST * size_of::<u32>(), ptr::null_mut())
        };
        Self { program, kernel, sums: sums.expect("a buffer"), messages: 0 }
    }

    fn argument<T>(&self, index: cl_uint, value: &T) {
        // SAFETY: the kernel has an argument of this type there; the value is copied.
        unsafe { set_kernel_arg(self.kernel, index, size_of::<T>(), ptr::from_ref(value).cast()) }
            .expect("an argument");
    }

    /// Enqueues the kernel, to run after an event.
    pub(crate) fn launch(
        &mut self,
        queue: cl_command_queue,
        buffer: cl_mem,
        start: usize,
        size: usize,
        messages: usize,
        after: cl_event,
    ) -> cl_event {
        assert!(messages <= Self::MOST);
        self.messages = messages;
        self.argument(0, &buffer);
        self.argument(1, &u32::try_from(start).expect("small"));
        self.argument(2, &u32::try_from(size).expect("small"));
        self.argument(3, &self.sums);
        // SAFETY: all handles are there, the kernel stays within the buffers, and the list has one event.
        let run = unsafe {
            enqueue_nd_range_kernel(
                queue,
                self.kernel,
                1,
                ptr::null(),
                &raw const messages,
                ptr::null(),
                1,
                &raw const after,
            )
        };
        flush(queue).expect("a flush");
        run.expect("a kernel is enqueued")
    }

    /// Waits for the run, and gives its sums.
    pub(crate) fn sums(&self, queue: cl_command_queue, run: cl_event) -> Vec<u32> {
        let mut sums = vec![0u32; self.messages];
        // SAFETY: a blocking read into memory of that length, after the one event of the list.
        let read = unsafe {
            enqueue_read_buffer(
                queue,
                self.sums,
                CL_BLOCKING,
                0,
                size_of_val(&*sums),
                sums.as_mut_ptr().cast(),
                1,
                &raw const run,
            )
        };
        for event in [read.expect("a read"), run] {
            // SAFETY: both references are ours.
            unsafe { release_event(event) }.expect("an event");
        }
        sums
    }
}

impl Drop for Checksum {
    fn drop(&mut self) {
        // SAFETY: made by `build`, released once, after all runs have ended.
        let _ = unsafe { release_kernel(self.kernel) };
        // SAFETY: as above.
        let _ = unsafe { release_program(self.program) };
        // SAFETY: as above.
        let _ = unsafe { release_mem_object(self.sums) };
    }
}
