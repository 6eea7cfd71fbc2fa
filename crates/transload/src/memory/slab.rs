//! The slab: `buffer_count` buffers of `buffer_size` bytes in one piece of memory.

use std::{any::Any, ptr::NonNull, sync::Arc};

use rustix::process::Pid;
use transload_core::Flag;

use super::{
    builder::SlabBuilder,
    error::SlabError,
    mapping::Mapping,
    placement::{Placement, Source},
};

/// One piece of memory of `buffer_count` x `buffer_size` bytes, zero-filled, made whole at once and never changed.
///
/// A clone is another handle on the same memory; the memory goes when the last handle does. Handles may be kept and
/// dropped on any thread. A slab gives out no references to its bytes, only the address: who may write where is the
/// business of the rings and pools that are built on it.
///
/// Buffers lie densely, buffer `i` at `as_ptr() + i * buffer_size`.
///
/// ```
/// use transload::memory::Slab;
///
/// let slab = Slab::new(4096, 256)?;
/// assert_eq!(slab.len_bytes(), 4096 * 256);
/// assert_eq!(slab.as_ptr().addr() % 65536, 0);
///
/// let other = slab.clone();
/// assert!(other.same_memory(&slab));
/// # Ok::<(), transload::memory::SlabError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Slab {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    base: NonNull<u8>,
    buffer_count: usize,
    buffer_size: usize,
    mapped_bytes: usize,
    placement: Placement,
    /// Raised while somebody hands out parts of the memory (I1).
    occupied: Flag,
    /// Held for its `Drop` only.
    _backing: Backing,
}

// SAFETY: `base` is an address; no method reads or writes through it or gives a reference to what is there (I3), so
// sharing or sending handles shares and sends no bytes. What the backing holds is `Send` by its own type.
unsafe impl Send for Inner {}
// SAFETY: as above; the fields do not change after construction, and the backing is `Sync` by its own type.
unsafe impl Sync for Inner {}

/// What keeps the memory there (I2).
#[derive(Debug)]
enum Backing {
    Mapped(#[expect(dead_code, reason = "held for its Drop, which unmaps")] Mapping),
    #[cfg(target_os = "linux")]
    Shared(#[expect(dead_code, reason = "held for its Drop, which unmaps")] Arc<Mapping>),
    Lent,
    Owned(#[expect(dead_code, reason = "held for its Drop, which ends the owner")] Owner),
}

const _: () = {
    const fn sound<T: Send + Sync>() {}
    // The two promises above rest on this.
    sound::<Backing>();
};

/// Somebody else's owner of the memory. A child of a fork forgets it: the parent still uses what it owns.
#[derive(Debug)]
struct Owner {
    owner: Option<Box<dyn Any + Send + Sync>>,
    process: Pid,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let owner = self.owner.take();
        if self.process == rustix::process::getpid() {
            drop(owner);
        } else {
            let _forgotten = std::mem::ManuallyDrop::new(owner);
        }
    }
}

impl Slab {
    /// Makes a slab with the defaults of [`SlabBuilder`]: ordinary pages, faulted in, page-locked if allowed.
    ///
    /// # Errors
    ///
    /// As [`SlabBuilder::build`].
    pub fn new(buffer_count: usize, buffer_size: usize) -> Result<Slab, SlabError> {
        Slab::builder(buffer_count, buffer_size).build()
    }

    /// Starts a slab whose pages, lock and place are to be chosen.
    ///
    /// ```
    /// use transload::memory::{Policy, Slab};
    ///
    /// let slab = Slab::builder(1024, 4096).transparent_pages(Policy::Prefer).lock(Policy::Never).build()?;
    /// println!("{:?}", slab.placement());
    /// # Ok::<(), transload::memory::SlabError>(())
    /// ```
    pub fn builder(buffer_count: usize, buffer_size: usize) -> SlabBuilder {
        SlabBuilder::new(buffer_count, buffer_size)
    }

    /// Makes a slab of memory that is there already. It is neither locked nor unmapped. Its NUMA node is asked for, which may make the kernel fault a page in.
    ///
    /// Any alignment is accepted here; a device may want more when the slab is registered with it.
    ///
    /// # Errors
    ///
    /// [`SlabError::ZeroSize`], [`SlabError::TooLarge`], [`SlabError::BeyondAddressSpace`].
    ///
    /// # Safety
    ///
    /// Until the last handle on the slab has ended, and whatever was registered with it or quarantined on it too:
    ///
    /// - `base` is valid for reads and writes of `buffer_count * buffer_size` bytes, which are initialised and belong
    ///   to one allocation or mapping;
    /// - nobody else reads or writes them, and no reference to them exists;
    /// - they are not unmapped, remapped or punched.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ptr::NonNull;
    /// use transload::memory::Slab;
    ///
    /// let mut bytes = vec![0u8; 16 * 64];
    /// let base = NonNull::new(bytes.as_mut_ptr()).unwrap();
    /// // SAFETY: `bytes` is initialised, outlives the slab and is not used before it ends.
    /// let slab = unsafe { Slab::wrap(base, 16, 64) }?;
    /// assert_eq!(slab.as_ptr(), base.as_ptr());
    /// drop(slab);
    /// drop(bytes);
    /// # Ok::<(), transload::memory::SlabError>(())
    /// ```
    pub unsafe fn wrap(
        base: NonNull<u8>,
        buffer_count: usize,
        buffer_size: usize,
    ) -> Result<Slab, SlabError> {
        Slab::foreign(base, buffer_count, buffer_size, || (Backing::Lent, Source::Wrapped))
    }

    /// Makes a slab of memory that `owner` keeps there, for instance memory that a driver allocated.
    ///
    /// The owner is dropped after the last handle, on the thread that drops it; at once if this fails; and never in a
    /// child of a fork.
    ///
    /// # Errors
    ///
    /// As [`Slab::wrap`].
    ///
    /// # Safety
    ///
    /// As [`Slab::wrap`], for as long as `owner` exists.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ptr::NonNull;
    /// use transload::memory::{Slab, Source};
    ///
    /// struct Owned(NonNull<[u8]>);
    /// // SAFETY: the only owner of a boxed slice.
    /// unsafe impl Send for Owned {}
    /// // SAFETY: has no methods.
    /// unsafe impl Sync for Owned {}
    /// impl Drop for Owned {
    ///     fn drop(&mut self) {
    ///         // SAFETY: made by `Box::leak` below, dropped once.
    ///         drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    ///     }
    /// }
    ///
    /// let bytes = NonNull::from(Box::leak(vec![0u8; 1024].into_boxed_slice()));
    /// // SAFETY: initialised, ours alone, and kept by the owner.
    /// let slab = unsafe { Slab::from_owner(bytes.cast(), 4, 256, Box::new(Owned(bytes))) }?;
    /// assert_eq!(slab.placement().source, Source::Owned);
    /// # Ok::<(), transload::memory::SlabError>(())
    /// ```
    pub unsafe fn from_owner(
        base: NonNull<u8>,
        buffer_count: usize,
        buffer_size: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Slab, SlabError> {
        let owner = Owner { owner: Some(owner), process: rustix::process::getpid() };
        Slab::foreign(base, buffer_count, buffer_size, || (Backing::Owned(owner), Source::Owned))
    }

    /// A slab of a mapping that is made whole.
    pub(super) fn of_mapping(
        mapping: Mapping,
        buffer_count: usize,
        buffer_size: usize,
        placement: Placement,
    ) -> Slab {
        let (base, mapped_bytes) = (mapping.base(), mapping.len_bytes());
        let backing = Backing::Mapped(mapping);
        let occupied = Flag::new();
        let inner =
            Inner { base, buffer_count, buffer_size, mapped_bytes, placement, occupied, _backing: backing };
        Slab { inner: Arc::new(inner) }
    }

    /// A slab of memory that other processes write too. Nobody can ever be the owner of its parts (I7), so it is
    /// occupied from the beginning, for ever.
    ///
    /// # Safety
    ///
    /// `base` is valid for reads and writes of `buffer_count * buffer_size` bytes, which do not reach past the end of the
    /// address space, for as long as `mapping` exists, or, without one, until the last handle has ended.
    #[cfg(target_os = "linux")]
    pub(crate) unsafe fn of_shared(
        base: NonNull<u8>,
        mapping: Option<Arc<Mapping>>,
        buffer_count: usize,
        buffer_size: usize,
        placement: Placement,
    ) -> Slab {
        let occupied = Flag::new();
        occupied.raise();
        let mapped_bytes = buffer_count * buffer_size;
        let backing = mapping.map_or(Backing::Lent, Backing::Shared);
        let inner =
            Inner { base, buffer_count, buffer_size, mapped_bytes, placement, occupied, _backing: backing };
        Slab { inner: Arc::new(inner) }
    }

    fn foreign(
        base: NonNull<u8>,
        buffer_count: usize,
        buffer_size: usize,
        backing: impl FnOnce() -> (Backing, Source),
    ) -> Result<Slab, SlabError> {
        let len_bytes = checked_len(buffer_count, buffer_size, 1)?;
        let address = base.addr().get();
        if address.checked_add(len_bytes).is_none() {
            return Err(SlabError::BeyondAddressSpace { address, len_bytes });
        }
        let (backing, source) = backing();
        let placement = Placement::of_foreign(base, len_bytes, source);
        let inner = Inner {
            base,
            buffer_count,
            buffer_size,
            mapped_bytes: len_bytes,
            placement,
            occupied: Flag::new(),
            _backing: backing,
        };
        Ok(Slab { inner: Arc::new(inner) })
    }

    /// Where the memory starts. Valid for [`len_bytes`](Slab::len_bytes) bytes for as long as a handle exists.
    pub fn as_ptr(&self) -> *mut u8 {
        self.inner.base.as_ptr()
    }

    /// Bytes in all buffers: `buffer_count * buffer_size`.
    pub fn len_bytes(&self) -> usize {
        // Checked when the slab was made.
        self.inner.buffer_count * self.inner.buffer_size
    }

    /// Bytes that the slab occupies: `len_bytes` rounded up to whole 64 KiB or whole huge pages.
    ///
    /// All of them are readable and writable, so a whole slab can be handed to a device that wants whole pages.
    /// Foreign memory is not rounded.
    pub fn mapped_bytes(&self) -> usize {
        self.inner.mapped_bytes
    }

    /// How many buffers there are.
    pub fn buffer_count(&self) -> usize {
        self.inner.buffer_count
    }

    /// Bytes in one buffer.
    pub fn buffer_size(&self) -> usize {
        self.inner.buffer_size
    }

    /// What was really obtained.
    pub fn placement(&self) -> &Placement {
        &self.inner.placement
    }

    /// Takes the exclusive right to hand out parts of the memory. Rings and pools do this; nobody else may then.
    ///
    /// # Errors
    ///
    /// [`SlabError::Occupied`] while another ring or pool has that right.
    pub(crate) fn occupy(&self) -> Result<Tenancy, SlabError> {
        if self.inner.occupied.raise_first() {
            Ok(Tenancy(self.clone()))
        } else {
            Err(SlabError::Occupied { len_bytes: self.len_bytes() })
        }
    }

    /// Whether `other` is a handle on the same memory.
    pub fn same_memory(&self, other: &Slab) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

/// The exclusive right to hand out parts of a slab (I1); ends when it is dropped. Keeps the memory there (I2).
#[derive(Debug)]
pub(crate) struct Tenancy(Slab);

impl Tenancy {
    pub(crate) fn slab(&self) -> &Slab {
        &self.0
    }
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        self.0.inner.occupied.take();
    }
}

/// The bytes of `buffer_count` x `buffer_size`, if they can be rounded up to `unit_bytes` and still be addressed.
pub(crate) fn checked_len(
    buffer_count: usize,
    buffer_size: usize,
    unit_bytes: usize,
) -> Result<usize, SlabError> {
    // No object in Rust is longer than `isize::MAX` bytes.
    const MOST: usize = usize::MAX / 2;
    if buffer_count == 0 || buffer_size == 0 {
        return Err(SlabError::ZeroSize { buffer_count, buffer_size });
    }
    let max_bytes = MOST / unit_bytes * unit_bytes;
    match buffer_count.checked_mul(buffer_size) {
        Some(len_bytes) if len_bytes <= max_bytes => Ok(len_bytes),
        _ => Err(SlabError::TooLarge { buffer_count, buffer_size, max_bytes }),
    }
}
