//! Memory that an operation owns while it is in flight.

use std::ops::Range;

use super::backend::Piece;
use super::registration::slot_of;
use crate::pool::{FrozenLease, Lease};
use crate::region::{Access, Region, Span};
#[cfg(target_os = "linux")]
use crate::shared::{SharedLease, SharedLent};

/// What is to be sent or written: one part or several, read in order.
///
/// Made of a [`Lease`] (as many bytes as it dereferences to), a [`FrozenLease`], or a `Vec` of [`Part`]s. The operation
/// owns it until the kernel has let go, and gives it back then.
#[derive(Debug)]
pub struct Outgoing(Parts);

/// Where received or read bytes go: one part or several, filled in order.
///
/// Made of a [`Lease`], or a `Vec` of them; or of a shared buffer.
#[derive(Debug)]
pub struct Incoming(Parts);

/// One part of what is to be sent.
#[derive(Debug)]
pub struct Part {
    owner: Owner,
    /// Which of the owner's bytes.
    range: Range<usize>,
}

#[derive(Debug)]
enum Owner {
    Lease(Lease),
    Frozen(FrozenLease),
    #[cfg(target_os = "linux")]
    Shared(SharedLent),
    Span(Span),
}

/// One without an allocation, or several.
#[derive(Debug)]
enum Parts {
    One(Part),
    Many(Vec<Part>),
}

impl Part {
    /// Some of a lease's bytes; what reaches beyond them is left out.
    pub fn of_lease(lease: Lease, range: Range<usize>) -> Self {
        let range = clip(range, lease.len());
        Self { owner: Owner::Lease(lease), range }
    }

    /// Some of a frozen lease's bytes; what reaches beyond them is left out.
    pub fn of_frozen(lease: FrozenLease, range: Range<usize>) -> Self {
        let range = clip(range, lease.len());
        Self { owner: Owner::Frozen(lease), range }
    }

    /// The lease, if it is of one.
    pub fn into_lease(self) -> Option<Lease> {
        match self.owner {
            Owner::Lease(lease) => Some(lease),
            _ => None,
        }
    }

    /// Some of the bytes of a buffer that processes share; what reaches beyond it is left out.
    #[cfg(target_os = "linux")]
    pub fn of_shared(lent: SharedLent, range: Range<usize>) -> Self {
        let range = clip(range, lent.lease().capacity());
        Self { owner: Owner::Shared(lent), range }
    }

    /// The lease of a shared buffer, if it is of one: nobody else accesses the buffer any more.
    #[cfg(target_os = "linux")]
    pub fn into_shared(self) -> Option<SharedLease> {
        match self.owner {
            Owner::Shared(lent) => Some(lent.take_back()),
            _ => None,
        }
    }

    /// How many bytes it has.
    pub fn len_bytes(&self) -> usize {
        self.range.len()
    }

    fn region(&self) -> &Region {
        match &self.owner {
            Owner::Lease(lease) => lease.region(),
            Owner::Frozen(lease) => lease.lease().region(),
            #[cfg(target_os = "linux")]
            Owner::Shared(lent) => lent.region(),
            Owner::Span(span) => span.region(),
        }
    }

    fn piece(&self, proactor: u64) -> Piece {
        let start = match &self.owner {
            Owner::Lease(lease) => lease.as_ptr(),
            Owner::Frozen(lease) => lease.lease().as_ptr(),
            #[cfg(target_os = "linux")]
            Owner::Shared(lent) => lent.lease().as_ptr(),
            Owner::Span(span) => span.as_ptr(),
        };
        let region = self.region();
        let address = start.wrapping_add(self.range.start);
        Piece {
            address,
            len_bytes: self.range.len(),
            slot: slot_of(region, proactor, address, self.range.len()),
        }
    }
}

fn clip(range: Range<usize>, len: usize) -> Range<usize> {
    range.start.min(len)..range.end.clamp(range.start.min(len), len)
}

impl Parts {
    fn as_slice(&self) -> &[Part] {
        match self {
            Self::One(part) => std::slice::from_ref(part),
            Self::Many(parts) => parts,
        }
    }

    fn len_bytes(&self) -> usize {
        self.as_slice().iter().map(Part::len_bytes).sum()
    }

    /// What is left after `done` bytes, as pieces for a back end.
    fn pieces(&self, proactor: u64, mut done: usize, pieces: &mut Vec<Piece>) {
        for part in self.as_slice() {
            let skipped = done.min(part.len_bytes());
            done -= skipped;
            if skipped < part.len_bytes() {
                pieces.push(part.piece(proactor).after(skipped));
            }
        }
    }

    /// What the first region that does not allow an access was registered for.
    fn refuses(&self, allows: impl Fn(Access) -> bool) -> Option<Access> {
        self.as_slice().iter().map(|part| part.region().access()).find(|&access| !allows(access))
    }

    fn into_parts(self) -> Vec<Part> {
        match self {
            Self::One(part) => vec![part],
            Self::Many(parts) => parts,
        }
    }

    fn into_lease(self) -> Option<Lease> {
        match self {
            Self::One(part) => part.into_lease(),
            Self::Many(_) => None,
        }
    }
}

impl Outgoing {
    /// Parts of regions, by place alone.
    ///
    /// # Safety
    ///
    /// Until the operation gives the parts back nobody writes those bytes.
    pub unsafe fn from_spans(spans: Vec<Span>) -> Self {
        Self(of_spans(spans))
    }

    /// How many bytes it has in all.
    pub fn len_bytes(&self) -> usize {
        self.0.len_bytes()
    }

    /// Its lease, if it was made of one.
    pub fn into_lease(self) -> Option<Lease> {
        self.0.into_lease()
    }

    /// Its parts.
    pub fn into_parts(self) -> Vec<Part> {
        self.0.into_parts()
    }

    /// What the first region that I/O may not read was registered for.
    pub(super) fn refuses_reads(&self) -> Option<Access> {
        self.0.refuses(Access::reads)
    }

    pub(super) fn pieces(&self, proactor: u64, done: usize, pieces: &mut Vec<Piece>) {
        self.0.pieces(proactor, done, pieces);
    }
}

impl Incoming {
    /// Parts of regions, by place alone.
    ///
    /// # Safety
    ///
    /// Until the operation gives the parts back nobody reads or writes those bytes, and no reference to them exists. No
    /// two of the spans overlap.
    pub unsafe fn from_spans(spans: Vec<Span>) -> Self {
        Self(of_spans(spans))
    }

    /// How many bytes it has in all.
    pub fn len_bytes(&self) -> usize {
        self.0.len_bytes()
    }

    /// Its lease, if it was made of one.
    pub fn into_lease(self) -> Option<Lease> {
        self.0.into_lease()
    }

    /// Its parts.
    pub fn into_parts(self) -> Vec<Part> {
        self.0.into_parts()
    }

    /// What the first region that I/O may not write was registered for.
    pub(super) fn refuses_writes(&self) -> Option<Access> {
        self.0.refuses(Access::writes)
    }

    pub(super) fn pieces(&self, proactor: u64, done: usize, pieces: &mut Vec<Piece>) {
        self.0.pieces(proactor, done, pieces);
    }
}

fn of_spans(spans: Vec<Span>) -> Parts {
    let part = |span: Span| Part { range: 0..span.len_bytes(), owner: Owner::Span(span) };
    Parts::Many(spans.into_iter().map(part).collect())
}

impl From<Lease> for Part {
    fn from(lease: Lease) -> Self {
        let range = 0..lease.len();
        Self { owner: Owner::Lease(lease), range }
    }
}

impl From<FrozenLease> for Part {
    fn from(lease: FrozenLease) -> Self {
        let range = 0..lease.len();
        Self { owner: Owner::Frozen(lease), range }
    }
}

impl From<Lease> for Outgoing {
    fn from(lease: Lease) -> Self {
        Self(Parts::One(lease.into()))
    }
}

impl From<FrozenLease> for Outgoing {
    fn from(lease: FrozenLease) -> Self {
        Self(Parts::One(lease.into()))
    }
}

impl From<Part> for Outgoing {
    fn from(part: Part) -> Self {
        Self(Parts::One(part))
    }
}

impl From<Vec<Part>> for Outgoing {
    fn from(parts: Vec<Part>) -> Self {
        Self(Parts::Many(parts))
    }
}

impl From<Lease> for Incoming {
    fn from(lease: Lease) -> Self {
        Self(Parts::One(lease.into()))
    }
}

impl From<Vec<Lease>> for Incoming {
    fn from(leases: Vec<Lease>) -> Self {
        Self(Parts::Many(leases.into_iter().map(Part::from).collect()))
    }
}

/// All of the buffer.
#[cfg(target_os = "linux")]
impl From<SharedLent> for Incoming {
    fn from(lent: SharedLent) -> Self {
        Self(Parts::One(Part::of_shared(lent, 0..usize::MAX)))
    }
}
