//! The only place that maps and unmaps memory (I4).

use std::{io, os::fd::BorrowedFd, ptr::NonNull};

use rustix::{
    io::Errno,
    mm::{MapFlags, MprotectFlags, ProtFlags},
};

use super::{
    fault::{self, Step},
    prefault,
};

/// What a mapping is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pages {
    /// The system's own pages, the base a multiple of `align_bytes` (a power of two, at least a page).
    Base { align_bytes: usize },
    /// Huge pages of a reserved pool, of this many bytes each.
    Pool { page_bytes: usize },
}

/// What this process may do with what it maps of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "memory is shared on Linux only"))]
    Read,
    ReadWrite,
}

impl Rights {
    fn flags(self) -> ProtFlags {
        match self {
            Rights::Read => ProtFlags::READ,
            Rights::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

/// One mapping, unmapped when this is dropped: anonymous and private, or of a file and shared.
///
/// Mappings of base pages lie between two guard pages without access: a copy that runs past the end faults instead
/// of spoiling a neighbour, and the kernel cannot merge two slabs into one mapping, which keeps `smaps` exact.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// All that is mapped, guards included. Empty once there is nothing to unmap.
    outer: NonNull<u8>,
    outer_bytes: usize,
    /// The part that is readable, and writable unless it is of a file that was mapped for reading.
    base: NonNull<u8>,
    len_bytes: usize,
    /// The process that mapped it. A child of a fork has other things at these addresses, or nothing.
    process: rustix::process::Pid,
}

// SAFETY: a `Mapping` is an address and a length. The memory belongs to no thread, and no method gives a reference to
// its bytes (I3), so handles on several threads cannot race through it.
unsafe impl Send for Mapping {}
// SAFETY: as above; methods that take `&self` only read addresses or change how the kernel treats the pages.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len_bytes` (a multiple of the page, not 0), zero-filled, readable and writable.
    pub(super) fn new(len_bytes: usize, pages: Pages) -> Result<Mapping, MapError> {
        match pages {
            Pages::Base { align_bytes } => Mapping::guarded(len_bytes, align_bytes),
            Pages::Pool { page_bytes } => Mapping::pool(len_bytes, page_bytes),
        }
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Maps the first `len_bytes` of a file (a multiple of the page, not 0), for all who map it.
    pub(super) fn of_file(
        file: BorrowedFd<'_>,
        len_bytes: usize,
        pages: Pages,
        rights: Rights,
    ) -> Result<Mapping, MapError> {
        match pages {
            Pages::Base { align_bytes } => {
                let mapping = Mapping::reserve(len_bytes, align_bytes)?;
                mapping.cover(file, rights)?;
                Ok(mapping)
            }
            // The kernel aligns a file of huge pages by itself, and sets its pages aside on the spot.
            Pages::Pool { .. } => Mapping::pool_file(file, len_bytes, rights),
        }
    }

    fn guarded(len_bytes: usize, align_bytes: usize) -> Result<Mapping, MapError> {
        let mapping = Mapping::reserve(len_bytes, align_bytes)?;
        mapping.open()?;
        Ok(mapping)
    }

    /// Maps more than needed without access, and cuts off all but the aligned middle and its guards.
    fn reserve(len_bytes: usize, align_bytes: usize) -> Result<Mapping, MapError> {
        let page = rustix::param::page_size();
        let total = len_bytes
            .checked_add(align_bytes)
            .and_then(|total| total.checked_add(2 * page))
            .ok_or(MapError { call: "mmap", source: Errno::NOMEM })?;
        let mut mapping = Mapping::map(total, ProtFlags::empty(), MapFlags::empty())?;
        let start = mapping.outer.addr().get();
        // Room for this was mapped: `align_bytes` of slack and a guard on each side.
        let base = (start + page).next_multiple_of(align_bytes);
        mapping.base = at(mapping.outer, base - start);
        mapping.len_bytes = len_bytes;
        mapping.trim(base - page - start, len_bytes + 2 * page)?;
        Ok(mapping)
    }

    #[cfg(target_os = "linux")]
    fn pool(len_bytes: usize, page_bytes: usize) -> Result<Mapping, MapError> {
        // MAP_HUGE_SHIFT is 26: the logarithm of the size stands in these bits (mmap(2)). Reserved on the spot: with
        // MAP_NORESERVE an empty pool would show only at the first touch, as SIGBUS.
        let size = MapFlags::from_bits_retain(page_bytes.trailing_zeros() << 26);
        Mapping::map(len_bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::HUGETLB | size)
    }

    #[cfg(not(target_os = "linux"))]
    fn pool(_len_bytes: usize, _page_bytes: usize) -> Result<Mapping, MapError> {
        Err(MapError { call: "mmap", source: Errno::INVAL })
    }

    fn map(len_bytes: usize, access: ProtFlags, more: MapFlags) -> Result<Mapping, MapError> {
        let failed = |source| MapError { call: "mmap", source };
        fault::check(Step::Map).map_err(failed)?;
        #[expect(clippy::disallowed_methods, reason = "this is the one place that maps memory")]
        // SAFETY: no address is asked for and MAP_FIXED is not given, so the kernel chooses a range that nothing uses;
        // a new mapping there changes no memory that exists.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), len_bytes, access, MapFlags::PRIVATE | more)
        };
        // Address 0 is never chosen (vm.mmap_min_addr); were it, there would be no pointer to give out.
        let start = NonNull::new(start.map_err(failed)?.cast::<u8>()).ok_or(failed(Errno::NOMEM))?;
        let process = rustix::process::getpid();
        Ok(Mapping { outer: start, outer_bytes: len_bytes, base: start, len_bytes, process })
    }

    fn pool_file(file: BorrowedFd<'_>, len_bytes: usize, rights: Rights) -> Result<Mapping, MapError> {
        let failed = |source| MapError { call: "mmap", source };
        fault::check(Step::Map).map_err(failed)?;
        #[expect(clippy::disallowed_methods, reason = "this is the one place that maps memory")]
        // SAFETY: no address is asked for and MAP_FIXED is not given, so the kernel chooses a range that nothing uses.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len_bytes, rights.flags(), MapFlags::SHARED, file, 0)
        };
        // As in `map`.
        let start = NonNull::new(start.map_err(failed)?.cast::<u8>()).ok_or(failed(Errno::NOMEM))?;
        let process = rustix::process::getpid();
        Ok(Mapping { outer: start, outer_bytes: len_bytes, base: start, len_bytes, process })
    }

    /// Puts the file into the middle.
    fn cover(&self, file: BorrowedFd<'_>, rights: Rights) -> Result<(), MapError> {
        let failed = |source| MapError { call: "mmap", source };
        fault::check(Step::Protect).map_err(failed)?;
        #[expect(clippy::disallowed_methods, reason = "this is the one place that maps memory")]
        // SAFETY: the range lies in this mapping, which was reserved for it and which nothing uses yet.
        unsafe {
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            rustix::mm::mmap(self.base.as_ptr().cast(), self.len_bytes, rights.flags(), flags, file, 0)
        }
        .map_err(failed)?;
        Ok(())
    }

    /// One page that reads as zeroes in a child of a fork, whatever is in it here.
    #[cfg(target_os = "linux")]
    pub(crate) fn wiped_on_fork() -> io::Result<Mapping> {
        let page_bytes = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let mapping = Mapping::map(page_bytes, access, MapFlags::empty()).map_err(MapError::into_io)?;
        let advice = rustix::mm::Advice::LinuxWipeOnFork;
        // SAFETY: the range is this mapping's; in this process the advice changes nothing.
        unsafe { rustix::mm::madvise(mapping.base.as_ptr().cast(), page_bytes, advice) }?;
        Ok(mapping)
    }

    /// Unmaps all but `keep_bytes` from `offset` on.
    fn trim(&mut self, offset: usize, keep_bytes: usize) -> Result<(), MapError> {
        let failed = |source| MapError { call: "munmap", source };
        fault::check(Step::Trim).map_err(failed)?;
        let tail = self.outer_bytes - offset - keep_bytes;
        if tail > 0 {
            // SAFETY: the tail lies in this mapping, was never opened, and nothing points to it yet (I4).
            unsafe { unmap(at(self.outer, offset + keep_bytes), tail) }.map_err(failed)?;
            self.outer_bytes -= tail;
        }
        if offset > 0 {
            // SAFETY: as above, for the head.
            unsafe { unmap(self.outer, offset) }.map_err(failed)?;
            self.outer = at(self.outer, offset);
            self.outer_bytes -= offset;
        }
        Ok(())
    }

    /// Makes the middle readable and writable; this is when the kernel counts it against what it may promise.
    fn open(&self) -> Result<(), MapError> {
        let failed = |source| MapError { call: "mprotect", source };
        fault::check(Step::Protect).map_err(failed)?;
        // SAFETY: the range lies in this mapping, which nothing uses yet; access is added, not taken away.
        unsafe {
            rustix::mm::mprotect(
                self.base.as_ptr().cast(),
                self.len_bytes,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
        }
        .map_err(failed)
    }

    /// Asks for transparent huge pages, or (`wanted` false) keeps them away.
    #[cfg(target_os = "linux")]
    pub(super) fn transparent(&self, wanted: bool) -> Result<(), MapError> {
        use rustix::mm::Advice;
        let failed = |source| MapError { call: "madvise(MADV_HUGEPAGE)", source };
        let advice = if wanted { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        let ask_kernel = || {
            // SAFETY: the range is this mapping's; the advice changes what pages it is made of, not what is in them.
            unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.len_bytes, advice) }
        };
        match fault::check(Step::Pages).and_then(|()| ask_kernel()) {
            // A kernel without transparent huge pages keeps them away without being asked.
            Err(Errno::INVAL) if !wanted => Ok(()),
            other => other.map_err(failed),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn transparent(&self, wanted: bool) -> Result<(), MapError> {
        if wanted { Err(MapError { call: "madvise", source: Errno::NOTSUP }) } else { Ok(()) }
    }

    /// Keeps the memory out of children. Without this, a page that a device writes may be copied away from under it
    /// when parent or child write to it after a fork.
    #[cfg(target_os = "linux")]
    pub(super) fn dont_fork(&self) -> Result<(), MapError> {
        let failed = |source| MapError { call: "madvise(MADV_DONTFORK)", source };
        fault::check(Step::DontFork).map_err(failed)?;
        let advice = rustix::mm::Advice::LinuxDontFork;
        // SAFETY: the range is this mapping's; in this process the advice changes nothing.
        unsafe { rustix::mm::madvise(self.outer.as_ptr().cast(), self.outer_bytes, advice) }.map_err(failed)
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
    pub(super) fn dont_fork(&self) -> Result<(), MapError> {
        Ok(())
    }

    /// Faults every page in, on up to `threads` threads.
    pub(super) fn populate(&self, page_bytes: usize, threads: usize) -> Result<(), MapError> {
        // SAFETY: the range is mapped readable and writable by `new`, and no handle to it exists yet (I1), so zeroes
        // may be written to it.
        unsafe { prefault::populate(self.base, self.len_bytes, page_bytes, threads) }
            .map_err(|source| MapError { call: "madvise(MADV_POPULATE_WRITE)", source })
    }

    /// Makes the pages that a file has there already known to this process, and gives it those that it lacks: an error
    /// now instead of SIGBUS later. Writes nothing: others use these bytes.
    #[cfg(target_os = "linux")]
    pub(super) fn look_up(&self, rights: Rights) -> Result<(), MapError> {
        let (advice, call) = match rights {
            Rights::Read => (rustix::mm::Advice::LinuxPopulateRead, "madvise(MADV_POPULATE_READ)"),
            Rights::ReadWrite => (rustix::mm::Advice::LinuxPopulateWrite, "madvise(MADV_POPULATE_WRITE)"),
        };
        loop {
            // SAFETY: the range is this mapping's; the advice changes nothing in it.
            match unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.len_bytes, advice) } {
                Err(Errno::INTR | Errno::AGAIN) => {}
                // Kernels before 5.14 do not know this advice; then pages are looked up as they are touched.
                Ok(()) | Err(Errno::INVAL) => return Ok(()),
                Err(source) => return Err(MapError { call, source }),
            }
        }
    }

    /// Locks the pages in memory. With `faulted_in` false the pages are locked as they are touched.
    pub(super) fn lock(&self, faulted_in: bool) -> Result<(), Errno> {
        fault::check(Step::Lock)?;
        let start = self.base.as_ptr().cast();
        #[cfg(target_os = "linux")]
        if !faulted_in {
            // SAFETY: the range is this mapping's; locking changes whether its pages may be swapped, nothing else.
            return unsafe { rustix::mm::mlock_with(start, self.len_bytes, rustix::mm::MlockFlags::ONFAULT) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = faulted_in;
        // SAFETY: as above.
        let result = unsafe { rustix::mm::mlock(start, self.len_bytes) };
        if result.is_err() {
            // A lock that failed half-way leaves its first half locked, and charged.
            // SAFETY: as above, the other way.
            let _ = unsafe { rustix::mm::munlock(start, self.len_bytes) };
        }
        result
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // In a child of a fork these addresses are free (MADV_DONTFORK), and the child may have put something else
        // there since.
        if self.process != rustix::process::getpid() {
            return;
        }
        // SAFETY: the range was mapped by `map` and never remapped (I4); every handle keeps this value alive, so when it
        // is dropped none is left (I2).
        if let Err(error) = unsafe { unmap(self.outer, self.outer_bytes) } {
            tracing::error!(bytes = self.outer_bytes, %error, "memory could not be unmapped and stays");
        }
    }
}

/// The address `offset` bytes further.
fn at(start: NonNull<u8>, offset: usize) -> NonNull<u8> {
    start.map_addr(|address| address.saturating_add(offset))
}

/// # Safety
///
/// The range is mapped, the caller's own, and nothing uses it any more.
unsafe fn unmap(start: NonNull<u8>, len_bytes: usize) -> Result<(), Errno> {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that unmaps memory")]
    // SAFETY: by this function's contract nothing uses the range.
    unsafe {
        rustix::mm::munmap(start.as_ptr().cast(), len_bytes)
    }
}

/// A system call that failed on the way to a mapping.
#[derive(Debug, Clone, Copy)]
pub(super) struct MapError {
    pub(super) call: &'static str,
    pub(super) source: Errno,
}

impl MapError {
    pub(super) fn into_io(self) -> io::Error {
        self.source.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_is_aligned_as_asked_and_zero() {
        for align_bytes in [1 << 16, 1 << 21, 1 << 24] {
            let mapping = Mapping::new(3 << 16, Pages::Base { align_bytes }).unwrap();
            assert_eq!(mapping.base().addr().get() % align_bytes, 0);
            // SAFETY: mapped readable above; no one writes.
            let bytes = unsafe { std::slice::from_raw_parts(mapping.base().as_ptr(), mapping.len_bytes()) };
            assert!(bytes.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn more_than_the_address_space_is_an_error() {
        let error = Mapping::new(usize::MAX & !0xffff, Pages::Base { align_bytes: 1 << 16 }).unwrap_err();
        assert_eq!(error.source, Errno::NOMEM);
        let error = Mapping::new(1 << 62, Pages::Base { align_bytes: 1 << 16 }).unwrap_err();
        assert_eq!(error.source, Errno::NOMEM);
    }

    #[test]
    fn another_process_does_not_unmap() {
        let mut mapping = Mapping::new(1 << 16, Pages::Base { align_bytes: 1 << 16 }).unwrap();
        let (base, mine) = (mapping.base(), mapping.process);
        let again = Mapping { ..mapping };
        mapping.process = rustix::process::Pid::INIT;
        drop(mapping);
        // SAFETY: still mapped by `again`, which is the point; a fault here would end the test.
        unsafe { base.as_ptr().write_volatile(1) };
        assert_eq!(again.process, mine);
    }
}
