//! The region: the memory of one pool and one ring, as this process has it.

use std::{fmt, io, os::fd::OwnedFd, sync::Arc};

use super::{
    builder::SharedRegionBuilder,
    error::SharedError,
    geometry::{CONTROL_LINES, Geometry, LINE_BYTES, Layout, SLEEPER_LINES},
    header::Header,
    locks::{Locks, reopen},
    member_error::OutOfBuffer,
    named,
    provided::{self, SharedStorage},
    storage,
    words::{FutexWords, Memory, Words},
};
use crate::{
    fork::ForkedChild,
    memory::{Placement, Slab},
    region::{Access, Region, RegisterError, Registrar},
};

/// Memory that processes share: the buffers of one pool, and the words by which processes agree who has which.
///
/// A clone is another handle on the same. Handles of one process may be used on any thread; a forked child does not have
/// the memory, and its handles answer [`ForkedChild`].
#[derive(Clone)]
pub struct SharedRegion {
    inner: Arc<Inner>,
}

struct Inner {
    geometry: Geometry,
    layout: Layout,
    id: u128,
    is_sealed: bool,
    memory: Memory,
    slab: Slab,
    locks: Locks,
}

/// What a region is put together from: memory whose header was written, or checked.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) header: Header,
    pub(super) memory: Memory,
    /// Where the buffers are, if not in `memory`.
    pub(super) buffers: Option<Memory>,
    pub(super) placement: Placement,
}

impl SharedRegion {
    /// Starts a region of `buffer_count` buffers of `buffer_size` bytes.
    pub fn builder(buffer_count: usize, buffer_size: usize) -> SharedRegionBuilder {
        SharedRegionBuilder::new(buffer_count, buffer_size)
    }

    /// Opens a region that another process made, by a descriptor that it handed over. Nothing of it is believed that can be
    /// checked, and nothing is looked at twice.
    ///
    /// The file is opened anew through `/proc/self/fd`, for locks of its own. Where that cannot be, without `/proc` or
    /// because the file is another user's, the descriptor itself has to be one that nobody else has: such as
    /// [`file_for_peer`](SharedRegion::file_for_peer) makes.
    ///
    /// # Errors
    ///
    /// - [`SharedError::NotAFile`], [`SharedError::Unsealed`], [`SharedError::Length`]: it is no sealed file of the right
    ///   length. One that anybody could cut off is not opened.
    /// - [`SharedError::NotReady`], [`SharedError::OtherByteOrder`], [`SharedError::LayoutVersion`],
    ///   [`SharedError::Features`], [`SharedError::Header`], and the errors of the numbers: what its header says.
    /// - [`SharedError::Memory`]: it could not be mapped, or its pages are not to be had.
    /// - [`SharedError::Os`]: any other refusal.
    ///
    /// # Examples
    ///
    /// ```
    /// use transload::shared::{SharedError, SharedRegion};
    ///
    /// let made = SharedRegion::builder(16, 4096).create()?;
    /// // Sent to another process, by SCM_RIGHTS or to a child.
    /// let descriptor = made.file_for_peer().expect("a descriptor");
    /// let opened = SharedRegion::open(descriptor)?;
    /// assert_eq!((opened.id(), opened.buffer_count()), (made.id(), 16));
    ///
    /// let null = std::fs::File::open("/dev/null").expect("a device");
    /// assert!(matches!(SharedRegion::open(null.into()), Err(SharedError::NotAFile { .. })));
    /// # Ok::<(), SharedError>(())
    /// ```
    pub fn open(file: OwnedFd) -> Result<SharedRegion, SharedError> {
        storage::open(file)
    }

    /// Opens a region of this user by its name in `/dev/shm`. It is not sealed, see
    /// [`SharedRegionBuilder::create_named`].
    ///
    /// # Errors
    ///
    /// [`SharedError::Name`]; [`SharedError::Os`], with `ENOENT` where there is none; [`SharedError::Foreign`] if what has
    /// the name is not of this user, has other names, may be touched by others than its group, or is no file; and as
    /// [`open`](SharedRegion::open).
    pub fn open_named(name: &str) -> Result<SharedRegion, SharedError> {
        named::open(name, named::this_user())
    }

    /// Opens a region of another user by its name, if that user has let this one's group write it.
    ///
    /// # Errors
    ///
    /// As [`open_named`](SharedRegion::open_named).
    pub fn open_named_of(name: &str, owner: u32) -> Result<SharedRegion, SharedError> {
        named::open(name, owner)
    }

    /// Opens the region that is in memory of the caller's, made by
    /// [`SharedRegionBuilder::create_in`] in this process or another.
    ///
    /// # Errors
    ///
    /// [`SharedError`]: as [`open`](SharedRegion::open); [`SharedError::BuffersApart`] or
    /// [`SharedError::BuffersBehind`] if it was made with another number of pieces; [`SharedError::Misaligned`],
    /// [`SharedError::TooSmall`].
    ///
    /// # Safety
    ///
    /// As [`SharedRegionBuilder::create_in`].
    pub unsafe fn open_in(storage: SharedStorage) -> Result<SharedRegion, SharedError> {
        // SAFETY: this function's contract.
        unsafe { provided::open(storage) }
    }

    pub(super) fn new(parts: Parts, locks: Locks, is_sealed: bool) -> SharedRegion {
        let Parts { header, memory, buffers, placement } = parts;
        let (geometry, layout) = (header.geometry, header.layout());
        let holder = buffers.as_ref().unwrap_or(&memory);
        let base = holder.base().map_addr(|address| address.saturating_add(layout.buffers.unwrap_or(0)));
        let Geometry { buffer_count, buffer_size, .. } = geometry;
        // SAFETY: the layout puts that many bytes there, and they lie within the memory, which was checked when that was
        // mapped or lent.
        let slab =
            unsafe { Slab::of_shared(base, holder.mapping().cloned(), buffer_count, buffer_size, placement) };
        let inner = Inner { geometry, layout, id: header.id, is_sealed, memory, slab, locks };
        SharedRegion { inner: Arc::new(inner) }
    }

    /// A descriptor for one peer, to be sent to it and dropped: its locks are its own. Of a region in the caller's memory
    /// it is one of the lock file.
    ///
    /// # Errors
    ///
    /// Where the file cannot be opened anew: without `/proc`, or if it belongs to another user.
    pub fn file_for_peer(&self) -> io::Result<OwnedFd> {
        reopen(self.inner.locks.file())
    }

    /// How many buffers there are.
    pub fn buffer_count(&self) -> usize {
        self.inner.geometry.buffer_count
    }

    /// Bytes in one buffer.
    pub fn buffer_size(&self) -> usize {
        self.inner.geometry.buffer_size
    }

    /// How many messages the ring holds.
    pub fn ring_slots(&self) -> usize {
        self.inner.geometry.ring_slots
    }

    /// How many members there can be at a time.
    pub fn members(&self) -> u16 {
        // At most 1023.
        u16::try_from(self.inner.geometry.members).unwrap_or(u16::MAX)
    }

    /// The number that this region was given at random when it was made: no other has it.
    pub fn id(&self) -> u128 {
        self.inner.id
    }

    /// The word that the application gave to it when it was made.
    pub fn user_word(&self) -> u64 {
        self.inner.geometry.user_word
    }

    /// Whether nobody can change the length of the memory any more.
    pub fn is_sealed(&self) -> bool {
        self.inner.is_sealed
    }

    /// What this process obtained: the pages, and whether they are locked.
    pub fn placement(&self) -> &Placement {
        self.inner.slab.placement()
    }

    /// Registers the buffers with a device or a proactor of this process.
    ///
    /// # Errors
    ///
    /// [`RegisterError`], and so in a child of a fork.
    pub fn register(&self, registrar: &dyn Registrar, access: Access) -> Result<Region, RegisterError> {
        self.check_process().map_err(|error| RegisterError::Refused {
            registrar: "the region".to_owned(),
            len_bytes: self.inner.slab.len_bytes(),
            reason: error.to_string(),
        })?;
        registrar.register(&self.inner.slab, access)
    }

    /// The buffers: known to devices, and occupied for ever, so that nobody gives out references to them.
    pub(crate) fn slab(&self) -> &Slab {
        &self.inner.slab
    }

    /// The words of the slots, one a buffer.
    pub(super) fn slots(&self) -> Words {
        self.inner.memory.words(self.inner.layout.slots, self.inner.geometry.buffer_count)
    }

    /// The cells of the ring.
    pub(super) fn cells(&self) -> Words {
        self.inner.memory.words(self.inner.layout.cells, self.inner.geometry.ring_slots)
    }

    /// The control lines, of 16 words each.
    pub(super) fn control(&self) -> Words {
        let count = CONTROL_LINES * LINE_BYTES / size_of::<u64>();
        self.inner.memory.words(self.inner.layout.control, count)
    }

    /// The entries of the members, of 16 words each. The first is nobody's.
    pub(super) fn members_table(&self) -> Words {
        let count = (self.inner.geometry.members + 1) * LINE_BYTES / size_of::<u64>();
        self.inner.memory.words(self.inner.layout.members, count)
    }

    /// The words to sleep on: the first of each line of 32.
    pub(super) fn sleepers(&self) -> FutexWords {
        let count = SLEEPER_LINES * LINE_BYTES / size_of::<u32>();
        self.inner.memory.futex_words(self.inner.layout.sleepers, count)
    }

    pub(super) fn locks(&self) -> &Locks {
        &self.inner.locks
    }

    /// Where a buffer begins. One that is not there has no address.
    pub(super) fn address(&self, index: u32) -> *mut u8 {
        let index = index as usize;
        assert!(index < self.buffer_count(), "an index that was checked");
        self.inner.slab.as_ptr().wrapping_add(index * self.buffer_size())
    }

    #[inline]
    pub(super) fn check_process(&self) -> Result<(), ForkedChild> {
        self.inner.locks.check_process()
    }

    /// Asks for the beginning of a buffer, which is read soon. A hint.
    #[inline]
    pub(super) fn expect(&self, index: u32) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch of any address has no effect that a program sees.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.address(index).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = index;
    }

    /// Copies bytes into a buffer.
    pub(super) fn write(&self, index: u32, offset: usize, bytes: &[u8]) -> Result<(), OutOfBuffer> {
        let to = self.bytes_of(index, offset, bytes.len())?;
        // SAFETY: the range lies in a buffer of this region, which is mapped as long as it exists (I2); `bytes` are
        // private memory, so the two do not overlap. Bytes that processes share are copied only (I7).
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Copies bytes out of a buffer.
    pub(super) fn read(&self, index: u32, offset: usize, bytes: &mut [u8]) -> Result<(), OutOfBuffer> {
        let from = self.bytes_of(index, offset, bytes.len())?;
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn bytes_of(&self, index: u32, offset: usize, len_bytes: usize) -> Result<*mut u8, OutOfBuffer> {
        // A child of a fork has nothing there, or what it has mapped there since. Of a message anybody may make a copy,
        // and change it.
        let is_there = self.check_process().is_ok() && (index as usize) < self.buffer_count();
        let available = if is_there { self.buffer_size() } else { 0 };
        match offset.checked_add(len_bytes) {
            Some(end) if end <= available => Ok(self.address(index).wrapping_add(offset)),
            _ => Err(OutOfBuffer { offset, len_bytes, available }),
        }
    }
}

impl fmt::Debug for SharedRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRegion")
            .field("id", &format_args!("{:032x}", self.inner.id))
            .field("geometry", &self.inner.geometry)
            .field("placement", self.placement())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(region: &SharedRegion) -> SharedRegion {
        SharedRegion::open(region.file_for_peer().unwrap()).unwrap()
    }

    #[test]
    fn two_attaches_see_the_same_words_and_bytes() {
        let one = SharedRegion::builder(5, 1000).ring_slots(16).members(3).user_word(1 << 63 | 5);
        let one = one.create().unwrap();
        let two = other(&one);
        assert_eq!((two.buffer_count(), two.buffer_size()), (5, 1000));
        assert_eq!((two.ring_slots(), two.members(), two.id()), (16, 3, one.id()));
        assert!(one.is_sealed() && two.is_sealed());
        assert_eq!((one.user_word(), two.user_word()), (1 << 63 | 5, 1 << 63 | 5));
        let parts = |region: &SharedRegion| {
            [region.slots(), region.cells(), region.control(), region.members_table()]
        };
        let mut value = 0;
        for (written, read) in parts(&one).iter().zip(&parts(&two)) {
            assert_eq!(written.as_ref().len(), read.as_ref().len());
            for (written, read) in written.as_ref().iter().zip(read.as_ref()) {
                assert_eq!(read.load(), 0, "the parts do not overlap");
                value += 1;
                written.store(value);
                assert_eq!(read.load(), value);
            }
        }
        assert_eq!(value, 5 + 16 + 8 * 16 + 4 * 16);
        assert!(
            two.sleepers()
                .as_ref()
                .iter()
                .all(|word| word.as_atomic().load(std::sync::atomic::Ordering::Acquire) == 0)
        );
        assert_eq!(two.sleepers().as_ref().len(), 64);
        for (index, value) in (0..5).zip(1u8..) {
            assert_ne!(one.address(index), two.address(index));
            // SAFETY: the last byte of a buffer of a region that only this test has; by copies only (I7).
            unsafe { one.address(index).wrapping_add(999).write_volatile(value) };
            // SAFETY: as above.
            assert_eq!(unsafe { two.address(index).wrapping_add(999).read_volatile() }, value);
        }
    }
}
