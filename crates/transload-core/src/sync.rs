//! The one place that chooses between the real atomics and loom's.
//!
//! `order!(label, ordering)` is the ordering itself in a product build. In a model build a test may weaken one
//! label to `Relaxed`, to show that the model would notice if the code were wrong.

#[cfg(not(feature = "model"))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(feature = "model")]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(not(feature = "model"))]
macro_rules! order {
    ($label:ident, $ordering:ident) => {
        $crate::sync::Ordering::$ordering
    };
}

#[cfg(feature = "model")]
macro_rules! order {
    ($label:ident, $ordering:ident) => {
        if $crate::sync::is_weakened($crate::sync::Label::$label) {
            $crate::sync::Ordering::Relaxed
        } else {
            $crate::sync::Ordering::$ordering
        }
    };
}
pub(crate) use order;

/// Whether a model has weakened one label, for operations that are two sides at once.
macro_rules! is_weak {
    ($label:ident) => {{
        #[cfg(feature = "model")]
        let weakened = $crate::sync::is_weakened($crate::sync::Label::$label);
        #[cfg(not(feature = "model"))]
        let weakened = false;
        weakened
    }};
}
pub(crate) use is_weak;

/// A sequentially consistent fence, which a model can take away.
macro_rules! full_fence {
    ($label:ident) => {
        #[cfg(feature = "model")]
        let weakened = $crate::sync::is_weakened($crate::sync::Label::$label);
        #[cfg(not(feature = "model"))]
        let weakened = false;
        if !weakened {
            $crate::sync::fence($crate::sync::Ordering::SeqCst);
        }
    };
}
pub(crate) use full_fence;

#[cfg(feature = "model")]
mod weaken {
    use std::cell::Cell;

    /// An ordering, or a step, that a model can weaken; named like the `SYNC:` comments in the code.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Label {
        /// The store of a slot's word after its bytes, and the load before them.
        Publish,
        /// The store of `head` after the last read of a slot, and the load before its next write.
        Free,
        /// The store of the producers' copy of `head`, and its load.
        CachedHead,
        /// The store of a batch's done flag, and its load by whoever advances `head`.
        BatchDone,
        /// The fence between a batch's done flag and the look at the others.
        BatchFence,
        /// The store that frees a buffer's word, and the swap that claims it.
        Lend,
        /// The swap that claims a buffer's word, and the looks over all words.
        Look,
        /// The count of a claim, and the sum of these counts.
        Tally,
        /// The count of a release, and the sum by which a pool ends.
        Drain,
        /// The store that lays a lease down as numbers, and the swap that takes it up.
        Raw,
        /// The bit that says that claims are over, and the look at it before the sums.
        Abandon,
        /// A seat's return, and its next taking.
        Seat,
        /// The count of a claim before the swap of its word instead of after: a step, not an ordering.
        TallyFirst,
        /// The count of a release after the store to its word instead of before: a step, not an ordering.
        DrainLast,
        /// The second look over all words: a step, not an ordering.
        SecondLook,
        /// The swap that frees a shared buffer's word, and the one that claims it.
        SharedLend,
        /// The words of buffers that are out, and the looks over all words.
        SharedLook,
        /// The swap that fills a cell, and the look that finds it full.
        SharedPublish,
        /// The swap that moves the shared tail, and the look at it.
        SharedTail,
        /// The counts of shared releases and recoveries, and their sum.
        SharedTally,
        /// The store of a lane's position.
        SpscPosition,
        /// The fence behind the load of a lane's position.
        SpscFence,
        /// A recovery that does not look which buffers the ring names: a step, not an ordering.
        SharedScan,
        /// A consumer that frees a buffer before it empties the cell instead of after: a step, not an ordering.
        SharedFreeFirst,
    }

    std::thread_local! {
        // Loom runs all threads of a model on the thread of the test, so this reaches each of them and no
        // other test.
        static WEAK: Cell<Option<Label>> = const { Cell::new(None) };
    }

    /// Runs `model` with one label weakened.
    pub fn weakened<R>(label: Label, model: impl FnOnce() -> R) -> R {
        struct Restore;
        impl Drop for Restore {
            fn drop(&mut self) {
                WEAK.set(None);
            }
        }
        let _restore = Restore;
        WEAK.set(Some(label));
        model()
    }

    pub(crate) fn is_weakened(label: Label) -> bool {
        WEAK.get() == Some(label)
    }
}
#[cfg(feature = "model")]
pub(crate) use weaken::is_weakened;
#[cfg(feature = "model")]
pub use weaken::{Label, weakened};

#[cfg(feature = "model")]
mod fuse {
    use std::panic::resume_unwind;
    // Not loom's: when a process dies is no part of what the model explores.
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// What a member that dies in a model unwinds with.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Died;

    /// How many writes to shared words a process has left.
    #[derive(Debug)]
    pub(crate) struct Fuse(AtomicU32);

    impl Fuse {
        /// As many as it wants.
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(u32::MAX))
        }

        pub(crate) fn set(&self, writes: u32) {
            self.0.store(writes, Relaxed);
        }

        /// One write less; none left is death.
        pub(crate) fn burn(&self) {
            match self.0.load(Relaxed) {
                u32::MAX => {}
                0 => resume_unwind(std::boxed::Box::new(Died)),
                left => self.0.store(left - 1, Relaxed),
            }
        }
    }
}
#[cfg(feature = "model")]
pub use fuse::Died;
#[cfg(feature = "model")]
pub(crate) use fuse::Fuse;
