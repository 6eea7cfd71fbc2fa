//! What is put into a command queue: each of the driver's calls once.

use opencl3::command_queue::{
    enqueue_fill_buffer, enqueue_nd_range_kernel, enqueue_read_buffer, enqueue_write_buffer,
};
use opencl3::types::{CL_NON_BLOCKING, cl_event, cl_int};

use super::handle::{Buffer, Function, Handle, Queue};

/// Kernels run in groups of this many; the last group runs behind the last message.
const GROUP: usize = 64;

/// Copies host memory to a buffer.
///
/// # Safety
///
/// The range lies within the buffer. The source is initialised, written by nobody but processes that lie, and stays there
/// until the command has ended.
pub(super) unsafe fn write(
    queue: &Handle<Queue>,
    buffer: &Handle<Buffer>,
    (source, len_bytes): (*const u8, usize),
    to: usize,
) -> Result<cl_event, cl_int> {
    let source = source.cast();
    // SAFETY: queue and buffer are there; the rest by this function's contract.
    unsafe {
        enqueue_write_buffer(
            queue.raw(),
            buffer.raw(),
            CL_NON_BLOCKING,
            to,
            len_bytes,
            source,
            0,
            std::ptr::null(),
        )
    }
}

/// Copies from a buffer to host memory.
///
/// # Safety
///
/// The range lies within the buffer. The target is as long, stays there, and is touched by nobody until the command has
/// ended.
pub(super) unsafe fn read(
    queue: &Handle<Queue>,
    buffer: &Handle<Buffer>,
    from: usize,
    (target, len_bytes): (*mut u8, usize),
) -> Result<cl_event, cl_int> {
    let target = target.cast();
    // SAFETY: queue and buffer are there; the rest by this function's contract.
    unsafe {
        enqueue_read_buffer(
            queue.raw(),
            buffer.raw(),
            CL_NON_BLOCKING,
            from,
            len_bytes,
            target,
            0,
            std::ptr::null(),
        )
    }
}

/// Fills a part of a buffer with a word.
///
/// # Safety
///
/// The range lies within the buffer, and is of whole words.
pub(super) unsafe fn fill(
    queue: &Handle<Queue>,
    buffer: &Handle<Buffer>,
    range: std::ops::Range<usize>,
    word: u32,
) -> Result<cl_event, cl_int> {
    let word = word.to_le_bytes();
    // SAFETY: queue and buffer are there; the range by this function's contract. The driver takes a copy of the pattern.
    unsafe {
        enqueue_fill_buffer(
            queue.raw(),
            buffer.raw(),
            word.as_ptr().cast(),
            word.len(),
            range.start,
            range.len(),
            0,
            std::ptr::null(),
        )
    }
}

/// Runs a kernel at least so many times.
///
/// # Safety
///
/// All arguments are set, and what they name stays there until the command has ended. What the kernel does with it, or beyond,
/// is its author's, as the documentation of `Device::build` says.
pub(super) unsafe fn run(
    queue: &Handle<Queue>,
    function: &Handle<Function>,
    times: usize,
) -> Result<cl_event, cl_int> {
    let global = times.next_multiple_of(GROUP);
    // SAFETY: queue and function are there; the rest by this function's contract.
    unsafe {
        enqueue_nd_range_kernel(
            queue.raw(),
            function.raw(),
            1,
            std::ptr::null(),
            &raw const global,
            std::ptr::null(),
            0,
            std::ptr::null(),
        )
    }
}
