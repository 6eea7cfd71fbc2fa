//! Shared regions from outside: what both sides see, and what is refused.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod forking;
mod reserving;
mod unprivileged;

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::fs::{FileExt, MetadataExt},
    },
};

use forking::fork;
use reserving::{reserve, two_mib_pool};
use rustix::fs::{MemfdFlags, SealFlags};
use transload::{
    device::host::HostDevice,
    memory::{HugePagePool, Lock, Policy, Slab, SlabError, Source},
    pool::{BufferPool, PoolError},
    region::{Access, RegisterError},
    shared::{ForkedChild, SharedError, SharedRegion, shared_storage_size, unlink_named},
};
use unprivileged::Nobody;

const MIB: usize = 1 << 20;
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
const HEADER_WORDS: usize = 64;

fn region() -> SharedRegion {
    SharedRegion::builder(5, 1000).ring_slots(16).members(3).create().expect("a region")
}

fn file_of(region: &SharedRegion) -> File {
    region.file_for_peer().expect("a descriptor").into()
}

/// Where the buffers are, by the way that devices get them.
fn buffers(region: &SharedRegion) -> *mut u8 {
    region.register(&HostDevice::new(), Access::READ_WRITE).expect("registered").slab().as_ptr()
}

/// A copy of a region in a file of its own, as long, with these seals.
fn forged(region: &SharedRegion, extra_bytes: i64, seals: SealFlags) -> File {
    let original = file_of(region);
    let file: File = rustix::fs::memfd_create("forged", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .expect("a file")
        .into();
    let len = original.metadata().expect("status").len();
    let mut bytes = vec![0; usize::try_from(len).expect("a length")];
    original.read_exact_at(&mut bytes, 0).expect("read");
    file.write_all_at(&bytes, 0).expect("written");
    file.set_len(len.checked_add_signed(extra_bytes).expect("a length")).expect("set");
    rustix::fs::fcntl_add_seals(&file, seals).expect("sealed");
    file
}

fn open(file: &File) -> Result<SharedRegion, SharedError> {
    SharedRegion::open(file.try_clone().expect("a descriptor").into())
}

fn numbers(region: &SharedRegion) -> (usize, usize, usize, u16, u128) {
    (region.buffer_count(), region.buffer_size(), region.ring_slots(), region.members(), region.id())
}

#[test]
fn both_sides_see_the_same_bytes() {
    let one = region();
    let two = SharedRegion::open(one.file_for_peer().unwrap()).unwrap();
    assert_eq!(numbers(&one), numbers(&two));
    assert_eq!((one.placement().source, two.placement().source), (Source::Shared, Source::Shared));
    let (written, read) = (buffers(&one), buffers(&two));
    assert_ne!(written, read);
    let pattern = || (0..5000).zip((0..=u8::MAX).cycle());
    for (offset, value) in pattern() {
        // SAFETY: within the buffers of a region that only this test has; by copies only.
        unsafe { written.wrapping_add(offset).write_volatile(value) };
    }
    for (offset, value) in pattern() {
        // SAFETY: as above.
        assert_eq!(unsafe { read.wrapping_add(offset).read_volatile() }, value);
    }
    assert_ne!(region().id(), one.id());
}

#[test]
fn what_is_registered_outlives_the_region_and_holds_no_lock() {
    let one = region();
    let held = one.register(&HostDevice::new(), Access::READ).unwrap();
    let two = SharedRegion::open(one.file_for_peer().unwrap()).unwrap();
    drop((one, two));
    // SAFETY: within the buffers, which the registration keeps; by a copy.
    assert_eq!(unsafe { held.slab().as_ptr().wrapping_add(4999).read_volatile() }, 0);
}

/// They would give out references to bytes that other processes write.
#[test]
fn no_ring_and_no_pool_can_be_built_on_the_buffers() {
    let region = region();
    let registered = region.register(&HostDevice::new(), Access::READ_WRITE).unwrap();
    let refused = BufferPool::new(&registered).unwrap_err();
    assert!(matches!(refused, PoolError::Slab(SlabError::Occupied { .. })), "{refused:?}");
    drop(region);
    assert!(BufferPool::new(&registered).is_err(), "not even when the region is gone");
    let slab = Slab::builder(5, 1000).build().unwrap();
    let plain =
        transload::region::Registrar::register(&HostDevice::new(), &slab, Access::READ_WRITE).unwrap();
    BufferPool::new(&plain).unwrap();
}

#[test]
fn numbers_that_make_no_region_are_named_with_their_limits() {
    let texts = |builder: transload::shared::SharedRegionBuilder| builder.create().unwrap_err().to_string();
    let most = (1 << 24) + 1;
    for (builder, found, limit) in [
        (SharedRegion::builder(0, 1), "0 buffers", "1 to 16777216"),
        (SharedRegion::builder(most, 1), "16777217 buffers", "16777216"),
        (SharedRegion::builder(1, 0), "0 bytes in a buffer", "1 to 4294967295"),
        (SharedRegion::builder(1, 1 << 32), "4294967296 bytes in a buffer", "4294967295"),
        (SharedRegion::builder(1, 1).ring_slots(0), "0 slots", "1 to 16777216"),
        (SharedRegion::builder(1, 1).ring_slots(1 << 25), "33554432 slots", "16777216"),
        (SharedRegion::builder(1, 1).ring_slots(12), "12 slots", "the next is 16"),
        (SharedRegion::builder(1, 1).members(0), "0 members", "1 to 1023"),
        (SharedRegion::builder(1, 1).members(1024), "1024 members", "1023"),
    ] {
        let text = texts(builder);
        assert!(text.contains(found) && text.contains(limit), "{text}");
    }
    // The most of each are numbers, at least.
    let largest = SharedRegion::builder(1 << 24, u32::MAX as usize).members(1023);
    assert_eq!(largest.buffers_bytes().unwrap(), (1 << 24) * (u32::MAX as usize));
    let error = largest.create().unwrap_err();
    assert!(matches!(error, SharedError::Memory(SlabError::OutOfMemory { .. })), "{error:?}");
    assert_eq!(SharedRegion::builder(5, 1).create().unwrap().ring_slots(), 8);
    assert_eq!(SharedRegion::builder(5, 1).create().unwrap().members(), 64);
}

#[test]
fn the_storage_size_is_what_a_region_takes() {
    for buffer_count in [1, 3, 1000, 4096] {
        let bytes = shared_storage_size(buffer_count).unwrap();
        let builder = SharedRegion::builder(buffer_count, 100);
        assert_eq!(builder.metadata_bytes().unwrap(), bytes);
        assert_eq!(builder.buffers_bytes().unwrap(), buffer_count * 100);
        let total = builder.total_bytes().unwrap();
        assert_eq!(total, (bytes.next_multiple_of(65_536) + buffer_count * 100).next_multiple_of(65_536));
        assert_eq!(file_of(&builder.create().unwrap()).metadata().unwrap().len(), total as u64);
    }
    assert!(shared_storage_size(0).is_err());
    assert!(shared_storage_size((1 << 24) + 1).is_err());
}

#[test]
fn nobody_can_change_the_length() {
    let region = region();
    let file = file_of(&region);
    let len = file.metadata().unwrap().len();
    assert!(region.is_sealed());
    for other in [0, 4096, len - 1, len + 1, len * 2] {
        assert_eq!(file.set_len(other).unwrap_err().raw_os_error(), Some(libc::EPERM), "{other} bytes");
    }
    assert_eq!(file.metadata().unwrap().len(), len);
    assert_eq!(file.metadata().unwrap().blocks() * 512, len, "all of it is there");
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    assert!(rustix::fs::fcntl_get_seals(&file).unwrap().contains(SEALS));
    // A hole reads as zeroes, and ends nobody.
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, flags, 0, len).unwrap();
    // SAFETY: within the buffers; by a copy.
    assert_eq!(unsafe { buffers(&region).read_volatile() }, 0);
}

#[test]
fn every_changed_byte_of_the_header_is_noticed() {
    let made = region();
    let file = file_of(&made);
    let mut header = [0; HEADER_WORDS * 8];
    file.read_exact_at(&mut header, 0).unwrap();
    for at in 0..header.len() {
        for mask in [0x01, 0x80, 0xff] {
            file.write_all_at(&[header[at] ^ mask], at as u64).unwrap();
            let refused = open(&file);
            assert!(refused.is_err(), "byte {at} ^ {mask:#x}: {refused:?}");
            file.write_all_at(&header[at..=at], at as u64).unwrap();
        }
    }
    assert_eq!(numbers(&open(&file).unwrap()), numbers(&made), "and the true one is not refused");
}

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }
}

#[test]
fn ten_thousand_mutations_are_refused_or_change_nothing() {
    let made = region();
    let file = file_of(&made);
    let mut header = [0; HEADER_WORDS * 8];
    file.read_exact_at(&mut header, 0).unwrap();
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut refused = 0;
    for round in 0..10_000 {
        let mut mutated = header;
        for _ in 0..=random.below(3) {
            match random.below(3) {
                0 => mutated[random.below(HEADER_WORDS * 8)] = random.next().to_ne_bytes()[0],
                1 => {
                    let at = random.below(24) * 8;
                    let shift = random.below(64);
                    let value = [0, 1, u64::MAX, 1 << 24, (1 << 24) + 1, 1 << 63, random.next() >> shift];
                    mutated[at..at + 8].copy_from_slice(&value[random.below(value.len())].to_ne_bytes());
                }
                _ => mutated.copy_within(random.below(192)..192, random.below(320)),
            }
        }
        file.write_all_at(&mutated, 0).unwrap();
        match open(&file) {
            Ok(opened) => assert_eq!(numbers(&opened), numbers(&made), "round {round}"),
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
                assert!(!matches!(error, SharedError::Os { .. } | SharedError::Memory(_)), "{error:?}");
            }
        }
    }
    assert!(refused > 9_000, "{refused}");
}

fn with_word(at: usize, change: impl FnOnce(u64) -> u64) -> SharedError {
    let region = region();
    let file = file_of(&region);
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at as u64 * 8).unwrap();
    file.write_all_at(&change(u64::from_ne_bytes(bytes)).to_ne_bytes(), at as u64 * 8).unwrap();
    open(&file).unwrap_err()
}

#[test]
fn errors_name_both_values() {
    let error = with_word(2, |_| 3);
    assert!(matches!(error, SharedError::LayoutVersion { found: 3, known: 1 }), "{error:?}");
    assert!(error.to_string().starts_with("layout version 3, this program knows 1"), "{error}");
    let error = with_word(4, |features| features | 1 << 63);
    assert!(matches!(error, SharedError::Features { known: 0, .. }), "{error:?}");
    assert!(error.to_string().contains("0x8000000000000000, this program knows 0x0"), "{error}");
    let error = with_word(5, |count| count + 1);
    assert!(matches!(error, SharedError::Header { .. }), "{error:?}");
    let error = with_word(5, |_| 1 << 60);
    assert!(matches!(error, SharedError::OutOfRange { what: "buffers", .. }), "{error:?}");
    assert!(error.to_string().contains("1152921504606846976 buffers: a region has 1 to 16777216"), "{error}");
    let error = with_word(7, |_| 12);
    assert!(matches!(error, SharedError::NoPowerOfTwo { ring_slots: 12, next: 16 }), "{error:?}");
    let error = with_word(12, |offset| offset + 8);
    let SharedError::Header { field, found, expected } = error else { panic!("{error:?}") };
    assert_eq!((field, found - expected), ("offset of the members", 8));
    let error = with_word(18, |id| id ^ 1);
    assert!(matches!(error, SharedError::Header { field: "checksum", .. }), "{error:?}");
    let error = with_word(0, |_| 0x1234);
    assert!(error.to_string().contains("magic number is 0x1234, must be 0x"), "{error}");
    let error = with_word(22, |_| 0);
    assert!(matches!(error, SharedError::NotReady { .. }), "{error:?}");
}

#[test]
fn the_other_byte_order_is_told() {
    let region = region();
    let file = file_of(&region);
    let mut header = [0; HEADER_WORDS * 8];
    file.read_exact_at(&mut header, 0).unwrap();
    header.chunks_exact_mut(8).for_each(<[u8]>::reverse);
    file.write_all_at(&header, 0).unwrap();
    let error = open(&file).unwrap_err();
    assert!(matches!(error, SharedError::OtherByteOrder { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("0x0807060504030201") && text.contains("0x0102030405060708"), "{text}");
}

#[test]
fn what_is_no_sealed_file_of_the_right_length_is_refused() {
    let region = region();
    let same = open(&forged(&region, 0, SEALS)).unwrap();
    assert_eq!(numbers(&same), numbers(&region), "a forgery that is as good as the original");
    for seals in [
        SealFlags::empty(),
        SealFlags::GROW | SealFlags::SEAL,
        SealFlags::SHRINK | SealFlags::SEAL,
        SealFlags::SHRINK | SealFlags::GROW,
        SEALS | SealFlags::WRITE,
        SEALS | SealFlags::FUTURE_WRITE,
    ] {
        let error = open(&forged(&region, 0, seals)).unwrap_err();
        assert!(
            matches!(error, SharedError::Unsealed { found, .. } if found == seals.bits()),
            "{seals:?}: {error:?}"
        );
    }
    for extra_bytes in [-4096, -1, 1, 4096, 1 << 20] {
        let error = open(&forged(&region, extra_bytes, SEALS)).unwrap_err();
        let SharedError::Length { found, expected, .. } = error else { panic!("{error:?}") };
        assert_eq!(found, expected.checked_add_signed(extra_bytes).unwrap());
    }
    let tiny: File =
        rustix::fs::memfd_create("tiny", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap().into();
    tiny.set_len(511).unwrap();
    rustix::fs::fcntl_add_seals(&tiny, SEALS).unwrap();
    let error = open(&tiny).unwrap_err();
    assert!(matches!(error, SharedError::Length { found: 511, .. }), "{error:?}");

    let (reader, _writer) = io::pipe().unwrap();
    assert!(matches!(SharedRegion::open(reader.into()), Err(SharedError::NotAFile { .. })));
    assert!(matches!(open(&File::open("/").unwrap()), Err(SharedError::NotAFile { .. })));
    assert!(matches!(open(&File::open("/dev/null").unwrap()), Err(SharedError::NotAFile { .. })));
    let disk = File::open(std::env::current_exe().unwrap()).unwrap();
    assert!(matches!(open(&disk), Err(SharedError::Unsealed { found: 0, .. })));
}

#[test]
fn a_region_of_huge_pages() {
    let Some(_reserved) = reserve("a_region_of_huge_pages", 4) else { return };
    let free = || two_mib_pool().unwrap().usable_pages();
    let before = free();
    let one = SharedRegion::builder(3, MIB).pages_2m(Policy::Require).numa_node(0).create().unwrap();
    assert_eq!((one.placement().page_bytes, &one.placement().lock), (2 * MIB, &Lock::Locked));
    assert_eq!(one.placement().numa_node, Some(0));
    assert_eq!(free(), before - 3);
    let two = SharedRegion::open(one.file_for_peer().unwrap()).unwrap();
    assert_eq!((two.placement().page_bytes, &two.placement().lock), (2 * MIB, &Lock::Locked));
    assert_eq!(free(), before - 3);
    // SAFETY: within the buffers of a region that only this test has; by copies.
    unsafe { buffers(&one).wrapping_add(3 * MIB - 1).write_volatile(7) };
    // SAFETY: as above.
    assert_eq!(unsafe { buffers(&two).wrapping_add(3 * MIB - 1).read_volatile() }, 7);
    assert!(rustix::fs::fcntl_get_seals(file_of(&two)).unwrap().contains(SEALS));
    drop(one);
    assert_eq!(free(), before - 3, "the other has them");
    drop(two);
    assert_eq!(free(), before);

    let wanted = usize::try_from(before).unwrap() + 1;
    let too_many = |policy| SharedRegion::builder(wanted, 2 * MIB).pages_2m(policy);
    let error = too_many(Policy::Require).create().unwrap_err();
    assert!(matches!(error, SharedError::Memory(SlabError::NoHugePages { .. })), "{error:?}");
    let plain = too_many(Policy::Prefer).create().unwrap();
    assert_eq!(plain.placement().page_bytes, rustix::param::page_size());
    assert_eq!(free(), before);
}

#[test]
fn huge_pages_that_nobody_reserved() {
    if HugePagePool::all().iter().any(|pool| pool.page_bytes == 1 << 30 && pool.usable_pages() > 0) {
        eprintln!("SKIPPED huge_pages_that_nobody_reserved: there are pages of 1 GiB");
        return;
    }
    let error = SharedRegion::builder(1, 1).pages_1g(Policy::Require).create().unwrap_err();
    assert!(matches!(error, SharedError::Memory(SlabError::NoHugePages { .. })), "{error:?}");
    SharedRegion::builder(1, 1).pages_1g(Policy::Prefer).create().unwrap();
}

/// What is in brackets in a file of the kernel, put back at the end.
struct Mode(&'static str, String);

impl Drop for Mode {
    fn drop(&mut self) {
        fs::write(self.0, &self.1).expect("as it was");
    }
}

#[test]
fn transparent_pages_are_there_or_the_error_says_how_to_allow_them() {
    const FILE: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    const NAME: &str = "transparent_pages_are_there_or_the_error_says_how_to_allow_them";
    let build = || SharedRegion::builder(4, 2 * MIB).transparent_pages(Policy::Require).create();
    let text = fs::read_to_string(FILE).unwrap_or_default();
    let before = text.split(['[', ']']).nth(1).unwrap_or_default().to_owned();
    let _before = Mode(FILE, before);
    if fs::write(FILE, "never").is_err() {
        eprintln!("SKIPPED {NAME}: only root may set {FILE}");
        return;
    }
    let error = build().unwrap_err();
    assert!(matches!(error, SharedError::Memory(SlabError::NoTransparentPages { .. })), "{error:?}");
    assert!(error.to_string().contains(&format!("echo advise > {FILE}")), "{error}");
    fs::write(FILE, "advise").unwrap();
    assert!(build().unwrap().placement().transparent);
    // Ordinary pages are wanted where nobody asks.
    assert!(!SharedRegion::builder(4, 2 * MIB).create().unwrap().placement().transparent);
}

#[test]
fn as_nobody_all_the_same() {
    const NAME: &str = "as_nobody_all_the_same";
    const LENT: &str = "TRANSLOAD_TEST_LENT";
    if let Ok(lent) = std::env::var(LENT) {
        // SAFETY: the descriptor that the parent lets this process inherit.
        let lent: File = unsafe { OwnedFd::from_raw_fd(lent.parse().unwrap()) }.into();
        let path = format!("/proc/self/fd/{}", lent.as_raw_fd());
        let again = fs::OpenOptions::new().read(true).write(true).open(path);
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::PermissionDenied, "it is root's");
        let region = SharedRegion::open(lent.into()).unwrap();
        assert_eq!(region.buffer_count(), 5);
        assert!(region.file_for_peer().is_err());
        let own = crate::region();
        assert_eq!(numbers(&own), numbers(&SharedRegion::open(own.file_for_peer().unwrap()).unwrap()));
        let name = format!("nobody-{}", std::process::id());
        let named = SharedRegion::builder(2, 2).create_named(&name, 0o600).unwrap();
        assert_eq!(numbers(&named), numbers(&SharedRegion::open_named(&name).unwrap()));
        unlink_named(&name).unwrap();
        return;
    }
    let Some(mut nobody) = Nobody::running(NAME, &[]) else { return };
    let region = region();
    let lent = region.file_for_peer().unwrap();
    rustix::io::fcntl_setfd(&lent, rustix::io::FdFlags::empty()).unwrap();
    nobody.command.env(LENT, lent.as_raw_fd().to_string());
    nobody.succeeds();
}

#[test]
fn a_forked_child_is_told_and_leaves_the_parent_alone() {
    let region = region();
    let mut mine = Some(region.clone());
    let status = fork(|| {
        let region = mine.take().unwrap();
        let refused = region.register(&HostDevice::new(), Access::READ).unwrap_err();
        let RegisterError::Refused { reason, .. } = refused else { panic!("{refused:?}") };
        assert_eq!(reason, ForkedChild.to_string());
        assert!(reason.contains("forked"));
        // What the child opens or makes itself is its own.
        let own = SharedRegion::open(region.file_for_peer().unwrap()).unwrap();
        assert_eq!(numbers(&own), numbers(&region));
        drop(region);
        buffers(&own);
        buffers(&crate::region());
    });
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
    // SAFETY: within the buffers; by a copy.
    assert_eq!(unsafe { buffers(&region).read_volatile() }, 0);
}

#[test]
fn a_forked_child_does_not_have_the_memory() {
    let region = region();
    let start = buffers(&region);
    // SAFETY: within the buffers; by a copy. In the child nothing is mapped there, which ends it.
    let read = || unsafe { start.read_volatile() };
    assert_eq!(read(), 0);
    let status = fork(|| {
        read();
    });
    assert_eq!(status.terminating_signal(), Some(libc::SIGSEGV), "{status:?}");
    assert_eq!(read(), 0);
}
