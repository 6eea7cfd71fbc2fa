//! What a proactor can do by itself, and what it does by other means.

use std::fmt;

/// Something that a kernel may or may not offer. Where it is missing, or masked by
/// [`ProactorBuilder::without`](super::ProactorBuilder::without), the same operation is done by other means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// One request accepts many connections (Linux 5.19). Else: one request each.
    MultishotAccept,
    /// One request receives many times, into buffers that the kernel chooses as bytes come (Linux 6.0, with buffer
    /// rings of 5.19). Else: waiting for bytes, then a receive into a buffer taken at that moment.
    MultishotReceive,
    /// Sends that the network reads from the caller's memory (Linux 6.0). Else: the kernel copies.
    ZeroCopySend,
    /// Memory that is pinned once and named by its number (a sparse table: Linux 5.19). Else: regions are
    /// [`Copy`](crate::region::Registration::Copy).
    FixedBuffers,
    /// Several sends of one socket in one system call, each starting when the one before has ended (Linux 5.3).
    /// Else: one at a time.
    LinkedSends,
    /// Completions are worked off on the thread that polls, which alone may use the ring (Linux 6.1). Else: anywhere.
    SingleIssuer,
}

impl Capability {
    /// All there are.
    pub const ALL: [Capability; 6] = [
        Self::MultishotAccept,
        Self::MultishotReceive,
        Self::ZeroCopySend,
        Self::FixedBuffers,
        Self::LinkedSends,
        Self::SingleIssuer,
    ];

    /// Its name, as `doctor` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::MultishotAccept => "multishot-accept",
            Self::MultishotReceive => "multishot-receive",
            Self::ZeroCopySend => "zero-copy-send",
            Self::FixedBuffers => "fixed-buffers",
            Self::LinkedSends => "linked-sends",
            Self::SingleIssuer => "single-issuer",
        }
    }

    /// Which kernels have it.
    pub fn since(self) -> &'static str {
        match self {
            Self::LinkedSends => "Linux 5.3",
            Self::MultishotAccept | Self::FixedBuffers => "Linux 5.19",
            Self::MultishotReceive | Self::ZeroCopySend => "Linux 6.0",
            Self::SingleIssuer => "Linux 6.1",
        }
    }

    /// What is done without it.
    pub fn fall_back(self) -> &'static str {
        match self {
            Self::MultishotAccept => "one request for each connection",
            Self::MultishotReceive => "waits for bytes, then receives into a buffer taken at that moment",
            Self::ZeroCopySend => "the kernel copies what is sent",
            Self::FixedBuffers => "memory is pinned or copied for each operation",
            Self::LinkedSends => "sends of one socket are started one at a time",
            Self::SingleIssuer => "completions interrupt whatever runs",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of capabilities.
///
/// ```
/// use transload::proactor::{Capabilities, Capability};
///
/// let all_but_one = Capabilities::ALL.without(Capability::ZeroCopySend);
/// assert!(all_but_one.has(Capability::FixedBuffers));
/// assert!(!all_but_one.has(Capability::ZeroCopySend));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capabilities(u8);

impl Capabilities {
    /// None.
    pub const NONE: Capabilities = Capabilities(0);
    /// All there are.
    pub const ALL: Capabilities = Capabilities((1 << Capability::ALL.len()) - 1);

    /// Whether it is among them.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }

    /// These and one more.
    #[must_use]
    pub fn with(self, capability: Capability) -> Self {
        Self(self.0 | capability.bit())
    }

    /// These but one.
    #[must_use]
    pub fn without(self, capability: Capability) -> Self {
        Self(self.0 & !capability.bit())
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.into_iter().filter(move |&capability| self.has(capability))
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
