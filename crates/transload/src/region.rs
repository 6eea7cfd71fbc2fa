//! A slab made known to something that does I/O, and checked parts of it.
//!
//! A [`Slab`] is memory. A [`Region`] is that memory registered with one device or one proactor, which says in
//! [`Registration`] what it made of it. Page-locking is the kernel's business and stands in the slab's
//! [`Placement`](crate::memory::Placement): memory can be locked and not pinned for a device, and the reverse.

use std::any::Any;
use std::fmt;
use std::ops::{BitOr, Range};
use std::sync::Arc;

use crate::memory::Slab;

/// What I/O may do with a region: flags, to be combined with `|`.
///
/// ```
/// use transload::region::Access;
///
/// assert_eq!(Access::READ | Access::WRITE, Access::READ_WRITE);
/// assert!(!Access::READ.writes());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access(u8);

impl Access {
    /// I/O reads the memory: it is the source of sends, file writes and uploads.
    pub const READ: Access = Access(1);
    /// I/O writes the memory: it is the target of receives, file reads and downloads.
    pub const WRITE: Access = Access(2);
    /// Both.
    pub const READ_WRITE: Access = Access(3);
    /// A remote machine reads the memory. Kept for RDMA: nothing here can register it yet.
    pub const REMOTE_READ: Access = Access(4);
    /// A remote machine writes the memory. Kept for RDMA: nothing here can register it yet.
    pub const REMOTE_WRITE: Access = Access(8);

    /// Whether local I/O may read the memory.
    pub fn reads(self) -> bool {
        self.0 & Self::READ.0 != 0
    }

    /// Whether local I/O may write the memory.
    pub fn writes(self) -> bool {
        self.0 & Self::WRITE.0 != 0
    }

    /// Whether a remote machine may read or write the memory.
    pub fn is_remote(self) -> bool {
        self.0 & (Self::REMOTE_READ.0 | Self::REMOTE_WRITE.0) != 0
    }

    /// Refuses remote access, for registrars that know none: all of them, so far.
    pub(crate) fn local_only(self, registrar: &str) -> Result<Self, RegisterError> {
        if self.is_remote() {
            Err(RegisterError::Unsupported { registrar: registrar.to_owned(), access: self })
        } else {
            Ok(self)
        }
    }
}

impl BitOr for Access {
    type Output = Access;

    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

impl fmt::Debug for Access {
    /// As it is written in a program: `READ | WRITE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [
            (Self::READ, "READ"),
            (Self::WRITE, "WRITE"),
            (Self::REMOTE_READ, "REMOTE_READ"),
            (Self::REMOTE_WRITE, "REMOTE_WRITE"),
        ];
        let mut separator = "";
        for (_, name) in flags.into_iter().filter(|(flag, _)| self.0 & flag.0 != 0) {
            write!(f, "{separator}{name}")?;
            separator = " | ";
        }
        Ok(())
    }
}

/// How a slab was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Registration {
    /// The device reads or writes the pages themselves by DMA; they stay where they are while the region exists.
    Pinned,
    /// The memory is the device's own, or is mapped into its address space: no transfer is needed to reach it.
    Mapped,
    /// The driver copies through memory of its own.
    Staged {
        /// Why it is not pinned.
        reason: String,
    },
    /// Nothing is registered: each operation on the memory pins it anew, or copies.
    Copy {
        /// What was wanted, what there is, and what to do.
        reason: String,
    },
}

impl fmt::Display for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned => f.write_str("pinned"),
            Self::Mapped => f.write_str("mapped"),
            Self::Staged { reason } => write!(f, "staged ({reason})"),
            Self::Copy { reason } => write!(f, "copied ({reason})"),
        }
    }
}

/// Something that slabs are registered with: a device, a proactor.
pub trait Registrar {
    /// Registers the whole slab. The region keeps it alive: the caller may drop its handle.
    ///
    /// # Errors
    ///
    /// [`RegisterError`] if the driver refuses and cannot stage the memory either.
    fn register(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError>;

    /// As [`register`](Registrar::register), for whoever would rather have an error than slower transfers: the region is
    /// [`Pinned`](Registration::Pinned) or [`Mapped`](Registration::Mapped).
    ///
    /// # Errors
    ///
    /// [`RegisterError::NotDirect`] if it would be neither, and then nothing stays registered; else as
    /// [`register`](Registrar::register).
    fn register_pinned(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        let region = self.register(slab, access)?;
        match region.registration() {
            Registration::Pinned | Registration::Mapped => Ok(region),
            slower => {
                Err(RegisterError::NotDirect { len_bytes: slab.len_bytes(), registration: slower.clone() })
            }
        }
    }
}

/// A slab was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The driver or the kernel refuses.
    #[error("{registrar} refuses to register {len_bytes} bytes: {reason}")]
    Refused {
        /// Who refused.
        registrar: String,
        /// How much memory it was.
        len_bytes: usize,
        /// Why, and what to do.
        reason: String,
    },
    /// Some of the memory is registered already, as part of another range: a driver pins a page once.
    #[error(
        "{registrar} cannot register the pages {wanted:#x?}: they overlap {registered:#x?}, which are registered; register \
         the whole of it once, or memory that shares no page with it"
    )]
    Overlaps {
        /// Who was asked.
        registrar: String,
        /// The addresses of the pages that were to be registered.
        wanted: Range<usize>,
        /// The addresses of those that are.
        registered: Range<usize>,
    },
    /// The memory would not be reached directly, which was required.
    #[error("{len_bytes} bytes were to be pinned, and would be {registration}")]
    NotDirect {
        /// How much memory it was.
        len_bytes: usize,
        /// How it would be registered, and why.
        registration: Registration,
    },
    /// Nobody here can give that access.
    #[error(
        "{registrar} cannot register memory for {access:?}: remote access needs RDMA, which is not supported; use READ, WRITE or both"
    )]
    Unsupported {
        /// Who was asked.
        registrar: String,
        /// For what.
        access: Access,
    },
}

/// A slab registered with one device or proactor. Reference counted; the last handle, on any thread, ends the
/// registration, and does so where the kernel or driver demands.
///
/// Whoever has an operation in flight on the memory holds a handle, so a region outlives every such operation.
#[derive(Clone)]
pub struct Region {
    inner: Arc<Inner>,
}

struct Inner {
    /// Ends the registration when dropped: before the slab, as fields are dropped in order.
    guard: Box<dyn Any + Send + Sync>,
    slab: Slab,
    access: Access,
    registration: Registration,
}

impl Region {
    /// What a device returns: `guard` ends the registration when it is dropped, and is there for the device's own use.
    pub fn new(
        slab: Slab,
        access: Access,
        registration: Registration,
        guard: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self { inner: Arc::new(Inner { guard, slab, access, registration }) }
    }

    /// The memory.
    pub fn slab(&self) -> &Slab {
        &self.inner.slab
    }

    /// What I/O may do with it.
    pub fn access(&self) -> Access {
        self.inner.access
    }

    /// How it was registered.
    pub fn registration(&self) -> &Registration {
        &self.inner.registration
    }

    /// What the device keeps with the registration.
    pub fn guard(&self) -> &(dyn Any + Send + Sync) {
        &*self.inner.guard
    }

    /// Keeps registration and memory for ever: a device may access it of which nobody will know when it is done.
    pub(crate) fn leak(&self) {
        let _never_dropped = std::mem::ManuallyDrop::new(self.clone());
    }

    /// A part of the region.
    ///
    /// # Errors
    ///
    /// [`SpanError`] if it does not lie within the slab.
    pub fn span(&self, offset: usize, len_bytes: usize) -> Result<Span, SpanError> {
        let available = self.inner.slab.len_bytes();
        match offset.checked_add(len_bytes) {
            Some(end) if end <= available => Ok(Span { region: self.clone(), offset, len_bytes }),
            _ => Err(SpanError { offset, len_bytes, available }),
        }
    }

    /// A part that is known to lie within the slab: a buffer's.
    pub(crate) fn part(&self, offset: usize, len_bytes: usize) -> Span {
        debug_assert!(offset + len_bytes <= self.inner.slab.len_bytes(), "beyond the slab");
        Span { region: self.clone(), offset, len_bytes }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("slab", &self.inner.slab)
            .field("access", &self.inner.access)
            .field("registration", &self.inner.registration)
            .finish_non_exhaustive()
    }
}

/// A part of a region: what an operation is about. Holding one keeps the registration alive; it gives no right to the
/// bytes, which belongs to a lease, a batch or a reservation.
#[derive(Clone, Debug)]
pub struct Span {
    region: Region,
    offset: usize,
    len_bytes: usize,
}

impl Span {
    /// The region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Where the part begins, in bytes from the start of the slab.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// How long it is.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Its address, valid for [`len_bytes`](Span::len_bytes) while the span exists.
    pub fn as_ptr(&self) -> *mut u8 {
        self.region.slab().as_ptr().wrapping_add(self.offset)
    }
}

/// A span would reach beyond its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{len_bytes} bytes at offset {offset} reach beyond the region's {available} bytes")]
pub struct SpanError {
    /// Where it should begin.
    pub offset: usize,
    /// How long it should be.
    pub len_bytes: usize,
    /// How long the region is.
    pub available: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Policy;

    #[test]
    fn access_is_shown_by_name() {
        let access = Access::READ_WRITE | Access::REMOTE_WRITE;
        let error = access.local_only("a test").unwrap_err().to_string();
        assert!(error.contains("for READ | WRITE | REMOTE_WRITE:"), "{error}");
    }

    #[test]
    fn spans_stay_within_the_region() {
        let slab = Slab::builder(4, 256).lock(Policy::Never).build().unwrap();
        let region = Region::new(slab.clone(), Access::READ, Registration::Pinned, Box::new(()));
        let span = region.span(256, 768).unwrap();
        assert_eq!(span.as_ptr(), slab.as_ptr().wrapping_add(256));
        for (offset, len_bytes) in [(0, 1025), (1024, 1), (usize::MAX, 2), (2, usize::MAX)] {
            let error = region.span(offset, len_bytes).unwrap_err();
            assert_eq!(error, SpanError { offset, len_bytes, available: 1024 });
        }
    }

    #[test]
    fn the_registration_ends_with_the_last_span_and_before_the_memory() {
        struct Guard(std::sync::mpsc::Sender<()>);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.send(()).unwrap();
            }
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let slab = Slab::builder(1, 64).lock(Policy::Never).build().unwrap();
        let region = Region::new(slab, Access::READ_WRITE, Registration::Mapped, Box::new(Guard(sender)));
        let span = region.span(0, 64).unwrap();
        drop(region);
        assert!(receiver.try_recv().is_err());
        drop(span);
        receiver.try_recv().unwrap();
    }
}
