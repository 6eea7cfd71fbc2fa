//! The first touch: every page of a slab faulted in before anyone uses it.
//!
//! A page that is first touched while a message is copied costs that message a page fault, and registering untouched
//! memory is slow (64 MiB with `io_uring` on Linux 6.18: 80 ms, against 2 ms when touched). Large slabs are touched by
//! several threads, because the time goes into zeroing pages.

use std::{ptr::NonNull, thread};

use rustix::io::Errno;

use super::fault::{self, Step};

/// Slabs below this many bytes are touched by the calling thread alone.
const PARALLEL_FROM_BYTES: usize = 64 << 20;
/// A thread is started for at least this many bytes.
const BYTES_PER_THREAD: usize = 32 << 20;
/// More threads than this wait for memory and for the kernel's locks rather than help.
const MOST_THREADS: usize = 16;

/// How many threads touch a slab of `len_bytes`.
///
/// One if `spread` is true: pages lie where the thread runs that touches them first, so on several nodes several
/// threads would scatter a slab that is bound to none.
pub(super) fn thread_count(len_bytes: usize, spread: bool) -> usize {
    if len_bytes < PARALLEL_FROM_BYTES || spread {
        return 1;
    }
    let processors = thread::available_parallelism().map_or(1, usize::from);
    processors.min(len_bytes / BYTES_PER_THREAD).clamp(1, MOST_THREADS)
}

/// Faults in all pages of the range, for writing.
///
/// # Safety
///
/// The range is mapped readable and writable, starts on a page of `page_bytes`, is `len_bytes` long, and the caller
/// alone uses it; zeroes may be written to it.
pub(super) unsafe fn populate(
    base: NonNull<u8>,
    len_bytes: usize,
    page_bytes: usize,
    threads: usize,
) -> Result<(), Errno> {
    match fault::check(Step::Populate) {
        Ok(()) => {}
        Err(Errno::INVAL) => {
            // SAFETY: this function's contract.
            unsafe { touch(base, len_bytes, page_bytes) };
            return Ok(());
        }
        Err(other) => return Err(other),
    }
    let pages = len_bytes.div_ceil(page_bytes);
    let chunk_bytes = pages.div_ceil(threads.max(1)) * page_bytes;
    let chunk = |offset: usize| {
        let start = base.map_addr(|address| address.saturating_add(offset));
        // SAFETY: chunks are whole pages of the range and do not overlap, so each is its caller's alone.
        unsafe { populate_chunk(start, chunk_bytes.min(len_bytes - offset), page_bytes) }
    };
    if chunk_bytes >= len_bytes {
        return chunk(0);
    }
    let base_addr = SendPtr(base);
    thread::scope(|scope| {
        let mut result = Ok(());
        let mut helpers = Vec::with_capacity(threads);
        for offset in (chunk_bytes..len_bytes).step_by(chunk_bytes) {
            let started =
                thread::Builder::new().name("transload-touch".into()).spawn_scoped(scope, move || {
                    let SendPtr(base) = { base_addr };
                    let start = base.map_addr(|address| address.saturating_add(offset));
                    // SAFETY: as for `chunk` above; the scope ends before the range is used by anyone else.
                    unsafe { populate_chunk(start, chunk_bytes.min(len_bytes - offset), page_bytes) }
                });
            match started {
                Ok(helper) => helpers.push(helper),
                // No more threads to be had: slower, not wrong.
                Err(_) => result = result.and(chunk(offset)),
            }
        }
        result = result.and(chunk(0));
        for helper in helpers {
            result = result.and(helper.join().unwrap_or(Err(Errno::FAULT)));
        }
        result
    })
}

/// A pointer that a helper thread may take along.
#[derive(Clone, Copy)]
struct SendPtr(NonNull<u8>);

// SAFETY: an address may be known to any thread; what is done with it is argued where it is done.
unsafe impl Send for SendPtr {}

/// # Safety
///
/// As [`populate`].
#[cfg(target_os = "linux")]
unsafe fn populate_chunk(start: NonNull<u8>, len_bytes: usize, page_bytes: usize) -> Result<(), Errno> {
    loop {
        let advice = rustix::mm::Advice::LinuxPopulateWrite;
        // SAFETY: the caller alone uses the range; the advice changes nothing in it.
        match unsafe { rustix::mm::madvise(start.as_ptr().cast(), len_bytes, advice) } {
            Err(Errno::INTR | Errno::AGAIN) => {}
            // Kernels before 5.14 do not know this advice.
            Err(Errno::INVAL) => {
                // SAFETY: this function's contract.
                unsafe { touch(start, len_bytes, page_bytes) };
                return Ok(());
            }
            other => return other,
        }
    }
}

/// # Safety
///
/// As [`populate`].
#[cfg(not(target_os = "linux"))]
unsafe fn populate_chunk(start: NonNull<u8>, len_bytes: usize, page_bytes: usize) -> Result<(), Errno> {
    // SAFETY: this function's contract.
    unsafe { touch(start, len_bytes, page_bytes) };
    Ok(())
}

/// Writes a zero to each page.
///
/// # Safety
///
/// As [`populate`].
unsafe fn touch(start: NonNull<u8>, len_bytes: usize, page_bytes: usize) {
    for offset in (0..len_bytes).step_by(page_bytes) {
        let byte = start.as_ptr().wrapping_add(offset);
        // SAFETY: `offset` is below the length of a range that is mapped writable and used by the caller alone.
        // Volatile, because the compiler would drop a write of the zero that it knows to be there.
        unsafe { byte.write_volatile(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::mapping::{Mapping, Pages};

    fn resident_pages(mapping: &Mapping) -> usize {
        let page = rustix::param::page_size();
        let mut seen = vec![0u8; mapping.len_bytes().div_ceil(page)];
        // SAFETY: mincore writes one byte for each page of the range, and `seen` has that many.
        let result = unsafe {
            libc::mincore(mapping.base().as_ptr().cast(), mapping.len_bytes(), seen.as_mut_ptr().cast())
        };
        assert_eq!(result, 0);
        seen.iter().filter(|byte| **byte & 1 == 1).count()
    }

    #[test]
    fn small_slabs_and_scattered_ones_take_one_thread() {
        assert_eq!(thread_count(PARALLEL_FROM_BYTES - 1, false), 1);
        assert_eq!(thread_count(1 << 40, true), 1);
        assert!((1..=MOST_THREADS).contains(&thread_count(1 << 40, false)));
    }

    #[test]
    fn every_page_is_there_on_any_number_of_threads() {
        let page = rustix::param::page_size();
        for threads in [0, 1, 2, 3, 7, 100] {
            let mapping = Mapping::new(37 << 16, Pages::Base { align_bytes: 1 << 16 }).unwrap();
            assert_eq!(resident_pages(&mapping), 0);
            mapping.populate(page, threads).unwrap();
            assert_eq!(resident_pages(&mapping), mapping.len_bytes() / page, "{threads} threads");
        }
    }

    #[test]
    fn old_kernels_are_touched_by_hand() {
        let page = rustix::param::page_size();
        let mapping = Mapping::new(5 << 16, Pages::Base { align_bytes: 1 << 16 }).unwrap();
        fault::with(Step::Populate, Errno::INVAL, || mapping.populate(page, 1)).unwrap();
        assert_eq!(resident_pages(&mapping), mapping.len_bytes() / page);
    }
}
