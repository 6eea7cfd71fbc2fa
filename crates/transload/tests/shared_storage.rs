//! Regions in memory of the caller's.
#![cfg(target_os = "linux")]

mod forking;

use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
    ptr::NonNull,
};

use rustix::fs::MemfdFlags;
use transload::{
    device::host::HostDevice,
    memory::Source,
    region::Access,
    shared::{SharedError, SharedRegion, SharedRegionBuilder, SharedStorage},
};

/// A mapping of a file, as a caller makes it, and the file.
struct Mapped {
    base: NonNull<u8>,
    len_bytes: usize,
    file: File,
}

impl Mapped {
    fn new(len_bytes: usize) -> Mapped {
        let file: File = rustix::fs::memfd_create("provided", MemfdFlags::CLOEXEC).expect("a file").into();
        file.set_len(len_bytes as u64).expect("a length");
        Mapped::of(file, len_bytes)
    }

    fn of(file: File, len_bytes: usize) -> Mapped {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, where the kernel likes.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len_bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(base, libc::MAP_FAILED);
        Mapped { base: NonNull::new(base.cast()).expect("not null"), len_bytes, file }
    }

    /// The same memory at another address, as another process has it.
    fn again(&self) -> Mapped {
        Mapped::of(self.file.try_clone().expect("a descriptor"), self.len_bytes)
    }

    fn piece(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.base, self.len_bytes)
    }

    fn storage(&self) -> SharedStorage {
        SharedStorage::new(self.piece(), self.lock_file())
    }

    fn lock_file(&self) -> OwnedFd {
        self.file.try_clone().expect("a descriptor").into()
    }

    fn fill(&self, value: u8) {
        // SAFETY: all of a mapping that only this test has, and no region.
        unsafe { self.base.as_ptr().write_bytes(value, self.len_bytes) };
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped above; regions on it have ended, for their tests declare them later.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len_bytes) };
    }
}

fn builder() -> SharedRegionBuilder {
    SharedRegion::builder(5, 1000).ring_slots(16).members(3)
}

fn create(storage: SharedStorage) -> Result<SharedRegion, SharedError> {
    // SAFETY: mappings of this test, which outlive the region and are used as a region only.
    unsafe { builder().create_in(storage) }
}

fn open(storage: SharedStorage) -> Result<SharedRegion, SharedError> {
    // SAFETY: as above.
    unsafe { SharedRegion::open_in(storage) }
}

fn buffers(region: &SharedRegion) -> *mut u8 {
    region.register(&HostDevice::new(), Access::READ_WRITE).expect("registered").slab().as_ptr()
}

fn assert_same(one: &SharedRegion, two: &SharedRegion) {
    assert_eq!(one.id(), two.id());
    for (offset, value) in [(0, 1), (4999, 2)] {
        // SAFETY: within the buffers of a region that only this test has; by copies.
        unsafe { buffers(one).wrapping_add(offset).write_volatile(value) };
        // SAFETY: as above.
        assert_eq!(unsafe { buffers(two).wrapping_add(offset).read_volatile() }, value);
    }
}

#[test]
fn one_piece_of_any_content_becomes_a_region() {
    let mapped = Mapped::new(builder().total_bytes().unwrap());
    let other = mapped.again();
    mapped.fill(0xa5);
    let error = open(other.storage()).unwrap_err();
    assert!(matches!(error, SharedError::Header { field: "magic number", .. }), "{error:?}");
    let one = create(mapped.storage()).unwrap();
    let two = open(other.storage()).unwrap();
    assert_same(&one, &two);
    assert!(!one.is_sealed() && !two.is_sealed());
    assert_eq!(one.placement().source, Source::Shared);
    assert_ne!(buffers(&one), buffers(&two));
    assert_eq!((two.buffer_count(), two.buffer_size(), two.ring_slots(), two.members()), (5, 1000, 16, 3));
}

#[test]
fn two_pieces_stay_two() {
    let metadata = Mapped::new(builder().metadata_bytes().unwrap());
    let buffers = Mapped::new(builder().buffers_bytes().unwrap());
    let (metadata_too, buffers_too) = (metadata.again(), buffers.again());
    let two_pieces = |metadata: &Mapped, buffers: &Mapped| metadata.storage().with_buffers(buffers.piece());
    let one = create(two_pieces(&metadata, &buffers)).unwrap();
    let two = open(two_pieces(&metadata_too, &buffers_too)).unwrap();
    assert_same(&one, &two);
    assert!(matches!(open(metadata_too.storage()), Err(SharedError::BuffersApart)));
    let file = SharedRegion::open(two.file_for_peer().unwrap()).unwrap_err();
    assert!(matches!(file, SharedError::Unsealed { .. }), "{file:?}");

    let whole = Mapped::new(builder().total_bytes().unwrap());
    let _region = create(whole.storage()).unwrap();
    assert!(matches!(open(two_pieces(&whole, &buffers)), Err(SharedError::BuffersBehind)));
}

#[test]
fn memory_that_is_askew_or_too_small_is_refused_in_numbers() {
    let total = builder().total_bytes().unwrap();
    let mapped = Mapped::new(total + 128);
    let storage = |offset: usize, len_bytes: usize| {
        let start = mapped.base.map_addr(|address| address.saturating_add(offset));
        SharedStorage::new(NonNull::slice_from_raw_parts(start, len_bytes), mapped.lock_file())
    };
    for offset in [1, 8, 64, 127] {
        let error = create(storage(offset, total)).unwrap_err();
        assert!(matches!(error, SharedError::Misaligned { alignment: 128, .. }), "{error:?}");
        assert!(matches!(open(storage(offset, total)), Err(SharedError::Misaligned { .. })));
    }
    for len_bytes in [0, 4096, total - 1] {
        let error = create(storage(0, len_bytes)).unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, SharedError::TooSmall { found, wanted, .. } if found == len_bytes && wanted == total)
        );
        assert!(text.contains(&format!("{len_bytes} bytes")) && text.contains(&total.to_string()), "{text}");
    }
    let made = create(storage(128, total)).unwrap();
    assert!(matches!(open(storage(128, total - 1)), Err(SharedError::TooSmall { .. })));
    assert!(matches!(open(storage(128, 4095)), Err(SharedError::TooSmall { wanted: 4096, .. })));
    assert_eq!(open(storage(128, total)).unwrap().id(), made.id());

    let metadata = Mapped::new(builder().metadata_bytes().unwrap());
    let buffers = Mapped::new(builder().buffers_bytes().unwrap());
    let shorter = NonNull::slice_from_raw_parts(buffers.base, buffers.len_bytes - 1);
    let error = create(metadata.storage().with_buffers(shorter)).unwrap_err();
    assert!(
        matches!(error, SharedError::TooSmall { what: "buffers", found: 4999, wanted: 5000 }),
        "{error:?}"
    );
    let askew =
        NonNull::slice_from_raw_parts(buffers.base.map_addr(|a| a.saturating_add(8)), buffers.len_bytes);
    let error = create(metadata.storage().with_buffers(askew)).unwrap_err();
    assert!(matches!(error, SharedError::Misaligned { what: "buffers", .. }), "{error:?}");
}

#[test]
fn a_live_region_is_not_overwritten_and_a_dead_one_is() {
    let mapped = Mapped::new(builder().total_bytes().unwrap());
    let other = mapped.again();
    let first = create(mapped.storage()).unwrap();
    let id = first.id();
    for _ in 0..3 {
        let error = create(other.storage()).unwrap_err();
        assert!(matches!(error, SharedError::InUse), "{error:?}");
    }
    let opened = open(other.storage()).unwrap();
    drop(first);
    assert!(matches!(create(mapped.storage()), Err(SharedError::InUse)), "the other has it open");
    assert_eq!(opened.id(), id);
    drop(opened);
    let second = create(mapped.storage()).unwrap();
    assert_ne!(second.id(), id);
    assert_same(&second, &open(other.storage()).unwrap());
}

#[test]
fn a_region_whose_only_process_was_killed_is_dead() {
    let mapped = Mapped::new(builder().total_bytes().unwrap());
    let other = mapped.again();
    let status = forking::fork(|| {
        let _region = create(mapped.storage()).unwrap();
        assert!(matches!(create(other.storage()), Err(SharedError::InUse)));
        // SAFETY: ends this process, with the region.
        unsafe { libc::raise(libc::SIGKILL) };
    });
    assert_eq!(status.terminating_signal(), Some(libc::SIGKILL));
    // What the dead left can be opened, and made anew when nobody has it open.
    let left = open(mapped.storage()).unwrap();
    assert!(matches!(create(other.storage()), Err(SharedError::InUse)));
    let id = left.id();
    drop(left);
    assert_ne!(create(other.storage()).unwrap().id(), id);
}

/// The creator died before the last word was there.
#[test]
fn a_half_made_region_is_not_ready() {
    let mapped = Mapped::new(builder().total_bytes().unwrap());
    let error = open(mapped.storage()).unwrap_err();
    assert!(matches!(error, SharedError::NotReady { magic: 0, .. }), "{error:?}");
    let region = create(mapped.storage()).unwrap();
    drop(region);
    // SAFETY: the last word of the header, in a mapping that only this test has.
    unsafe { mapped.base.as_ptr().wrapping_add(22 * 8).write_bytes(0, 8) };
    let error = open(mapped.storage()).unwrap_err();
    assert!(matches!(error, SharedError::NotReady { .. }), "{error:?}");
    create(mapped.storage()).unwrap();
}
