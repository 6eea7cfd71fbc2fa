//! What a slab really obtained.

use std::{fmt, ptr::NonNull};

use super::numa;

/// What a slab really obtained, as opposed to what was asked for.
///
/// ```
/// use transload::memory::{Lock, Slab, Source};
///
/// let slab = Slab::new(16, 4096)?;
/// let placement = slab.placement();
/// assert_eq!(placement.source, Source::Allocated);
/// if let Lock::Refused(refusal) = &placement.lock {
///     println!("not page-locked: {refusal}");
/// }
/// # Ok::<(), transload::memory::SlabError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// Bytes in one page of the mapping: the system's page, 2 MiB or 1 GiB. Transparent huge pages leave this at the
    /// system's page. For foreign memory it is the system's page, whatever its maker did.
    pub page_bytes: usize,
    /// Whether every whole huge page of the slab was a transparent one when the slab was made (read from
    /// `/proc/self/smaps`). Always false for foreign memory and for slabs that are not pre-faulted.
    pub transparent: bool,
    /// The NUMA node that the pages lie on, asked back from the kernel; `None` if they lie on several, if the slab
    /// was not pre-faulted, or if the kernel does not say.
    pub numa_node: Option<u32>,
    /// Whether the pages are locked in memory, or why not. Locked for the kernel is not yet pinned for a device.
    pub lock: Lock,
    /// Where the memory came from.
    pub source: Source,
}

impl Placement {
    /// That of memory that somebody else has made.
    pub(crate) fn of_foreign(base: NonNull<u8>, len_bytes: usize, source: Source) -> Placement {
        let page_bytes = rustix::param::page_size();
        let numa_node = numa::node_of(base, len_bytes, page_bytes);
        Placement { page_bytes, transparent: false, numa_node, lock: Lock::NotAsked, source }
    }
}

/// Whether the pages of a slab are locked in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lock {
    /// They are, by `mlock`, or because huge pages of a reserved pool are never swapped.
    Locked,
    /// Nobody asked.
    NotAsked,
    /// The kernel refused.
    Refused(LockRefusal),
}

impl Lock {
    /// Whether the pages are locked.
    pub fn is_locked(&self) -> bool {
        matches!(self, Lock::Locked)
    }
}

/// The numbers of a refused page-lock. Its text says how to raise the limit.
///
/// ```
/// use transload::memory::LockRefusal;
///
/// let refusal = LockRefusal { need: 131_072, soft: Some(65_536), hard: Some(65_536) };
/// assert!(refusal.to_string().contains("ulimit -l 128"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRefusal {
    /// Bytes that must be allowed for this to succeed: those of the slab and those that the process has locked already.
    pub need: u64,
    /// The soft limit (`RLIMIT_MEMLOCK`) in bytes; `None` is unlimited, or does not apply (`CAP_IPC_LOCK`).
    pub soft: Option<u64>,
    /// The hard limit in bytes, up to which the process may raise the soft one; `None` is unlimited.
    pub hard: Option<u64>,
}

impl fmt::Display for LockRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LockRefusal { need, soft, hard } = *self;
        if soft.is_none_or(|soft| need <= soft) {
            // The limit is not the reason, so do not send anyone to raise it.
            return write!(
                f,
                "page-locking was refused although the limit (soft {}, hard {}) allows the {need} bytes it needs: \
                 free some memory, or check the lock limit of the container",
                Limit(soft),
                Limit(hard)
            );
        }
        let kib = need.div_ceil(1024);
        write!(
            f,
            "page-locking needs {need} bytes within the limit; it is soft {}, hard {}. Raise it: `ulimit -l {kib}`",
            Limit(soft),
            Limit(hard)
        )?;
        if hard.is_some_and(|hard| need > hard) {
            f.write_str(" as root before the program starts")?;
        }
        write!(
            f,
            ", or LimitMEMLOCK={kib}K in its systemd unit, or --ulimit memlock={need} for its container"
        )
    }
}

/// A limit in bytes; none is "unlimited".
pub(super) struct Limit(pub(super) Option<u64>);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) => write!(f, "{bytes} bytes"),
            None => f.write_str("unlimited"),
        }
    }
}

/// Where the memory of a slab came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// Mapped by the slab itself.
    Allocated,
    /// Foreign memory, lent by [`Slab::wrap`](super::Slab::wrap).
    Wrapped,
    /// Foreign memory whose owner the slab keeps alive, by [`Slab::from_owner`](super::Slab::from_owner).
    Owned,
    /// Memory that other processes use too: the buffers of a `SharedRegion` (Linux).
    Shared,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_within_the_hard_limit_needs_no_root() {
        let text = LockRefusal { need: 100_000, soft: Some(65_536), hard: None }.to_string();
        assert!(text.contains("100000 bytes"), "{text}");
        assert!(text.contains("soft 65536 bytes, hard unlimited"), "{text}");
        assert!(text.contains("`ulimit -l 98`, or LimitMEMLOCK=98K"), "{text}");
    }

    #[test]
    fn refusal_above_the_hard_limit_says_root() {
        let text = LockRefusal { need: 100_000, soft: Some(4_096), hard: Some(65_536) }.to_string();
        assert!(text.contains("`ulimit -l 98` as root"), "{text}");
    }

    #[test]
    fn refusal_for_another_reason_does_not_blame_the_limit() {
        let text = LockRefusal { need: 100_000, soft: None, hard: None }.to_string();
        assert!(text.contains("although the limit") && !text.contains("ulimit"), "{text}");
    }
}
