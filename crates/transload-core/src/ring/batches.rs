//! The table of open batches: what the consumer has lent out, given back in any order from any thread.

use crate::sync::{AtomicU64, Ordering, full_fence, order};

/// How many batches may be open at once. Slots go back in the order of the ring, so one batch that is kept holds
/// back all later ones; more than a few dozen in flight help no device.
pub const MAX_OPEN_BATCHES: usize = if cfg!(feature = "model") { 4 } else { 64 };

/// Batches `next..next + MAX_OPEN_BATCHES`, by number; batch `n` stands in entry `n % MAX_OPEN_BATCHES`.
#[derive(Debug)]
pub(super) struct OpenBatches {
    /// The oldest batch that is not yet given back. Moved by whoever gives a batch back. SYNC: batch-next
    next: AtomicU64,
    entries: [Entry; MAX_OPEN_BATCHES],
}

#[derive(Debug)]
struct Entry {
    /// Where the batch ends: the `head` that giving it back makes. Written by the consumer when it opens the
    /// batch, read by whoever moves `next` over it. SYNC: batch-end
    end: AtomicU64,
    /// One more than the number of the last finished batch here, so that it needs no clearing. Written by the
    /// batch's owner. SYNC: batch-done
    done: AtomicU64,
}

impl OpenBatches {
    pub(super) fn new() -> Self {
        Self {
            next: AtomicU64::new(0),
            entries: core::array::from_fn(|_| Entry { end: AtomicU64::new(0), done: AtomicU64::new(0) }),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the remainder of a small division")]
    fn entry(&self, batch: u64) -> &Entry {
        &self.entries[(batch % MAX_OPEN_BATCHES as u64) as usize]
    }

    /// The oldest batch that is not yet given back.
    pub(super) fn oldest(&self) -> u64 {
        // SYNC: batch-next. Who moved it had seen the reads of all batches before it.
        self.next.load(Ordering::Acquire)
    }

    /// Notes where a new batch ends. Its number is one that [`oldest`](OpenBatches::oldest) has left far enough
    /// behind, so the entry is free.
    pub(super) fn open(&self, batch: u64, end: u64) {
        // SYNC: batch-end. A thread that reads this end for a batch that is long gone must then fail to move
        // `next`: release and acquire make it see the `next` that we saw.
        self.entry(batch).end.store(end, Ordering::Release);
    }

    /// Finishes one batch and gives back all finished ones from the oldest on: `free(end)` for each, possibly
    /// out of order between threads.
    pub(super) fn finish(&self, batch: u64, mut free: impl FnMut(u64)) {
        // SYNC: batch-done. Our reads of the slots come before the flag.
        self.entry(batch).done.store(batch + 1, order!(BatchDone, Release));
        // Two threads that finish neighbouring batches both set their flag and then look at
        // the other's. Without the fence each may miss the other, and the slots would be stranded.
        full_fence!(BatchFence);
        loop {
            // SYNC: batch-next.
            let oldest = self.next.load(Ordering::Acquire);
            let entry = self.entry(oldest);
            // SYNC: batch-done. Its owner's reads come before what we free.
            if entry.done.load(order!(BatchDone, Acquire)) != oldest + 1 {
                return;
            }
            // SYNC: batch-end.
            let end = entry.end.load(Ordering::Acquire);
            let moved = self.next.compare_exchange(oldest, oldest + 1, Ordering::AcqRel, Ordering::Relaxed);
            if moved.is_ok() {
                free(end);
            }
        }
    }
}
