//! Which part of the device queue the next batch goes to.

use std::ops::Range;

/// Batches begin at multiples of this: it satisfies the offset rules of all back ends at once (OpenCL sub-buffers 128,
/// Vulkan storage offsets up to 256, Metal 4).
const ALIGNMENT: usize = 256;

/// Hands out parts of the device queue, one behind the other, and over again from the start.
///
/// Parts are used again in the order in which they were handed out, so the oldest part in use is all that it must be
/// told.
#[derive(Debug)]
pub(super) struct QueueSpace {
    len_bytes: usize,
    /// Where the next part may begin.
    next: usize,
}

impl QueueSpace {
    pub(super) fn new(len_bytes: usize) -> Self {
        Self { len_bytes, next: 0 }
    }

    /// Bytes that a queue needs so that so many batches fit at once, wherever the wrap falls.
    pub(super) fn bytes_for(batches: usize, batch_bytes: usize) -> Option<usize> {
        batch_bytes.checked_next_multiple_of(ALIGNMENT)?.checked_mul(batches.checked_add(1)?)
    }

    /// The free part where a batch of at most `want` bytes can go: it may be shorter, or empty. `oldest` is the part
    /// in use that was handed out first.
    pub(super) fn room(&self, want: usize, oldest: Option<&Range<usize>>) -> Range<usize> {
        match oldest.map(|part| part.start) {
            None => 0..want.min(self.len_bytes),
            // In use: oldest..next. Free: to the end, and before the oldest.
            Some(oldest) if oldest < self.next => {
                let to_end = self.len_bytes.saturating_sub(self.next);
                if to_end >= want.min(oldest) && to_end > 0 {
                    self.next..self.next + want.min(to_end)
                } else {
                    0..want.min(oldest)
                }
            }
            // Wrapped. Free: next..oldest.
            Some(oldest) => self.next..oldest.min(self.next.saturating_add(want)),
        }
    }

    /// Notes that a part which [`room`](QueueSpace::room) gave, or its beginning, is now in use.
    pub(super) fn hand_out(&mut self, part: &Range<usize>) {
        self.next = part.end.next_multiple_of(ALIGNMENT);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Against the plain rule: parts in use never overlap, and lie within the queue.
    #[test]
    fn parts_never_overlap_and_come_back_in_order() {
        for (batches, batch_bytes) in [(1, 1), (1, 1000), (2, 256), (3, 257), (4, 4096), (8, 100)] {
            let len_bytes = QueueSpace::bytes_for(batches, batch_bytes).unwrap();
            let mut space = QueueSpace::new(len_bytes);
            let mut used: VecDeque<Range<usize>> = VecDeque::new();
            let mut random = 0x9e37_79b9_u64;
            for _ in 0..10_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let want = 1 + usize::try_from(random >> 33).unwrap() % batch_bytes;
                if used.len() == batches {
                    used.pop_front();
                }
                let part = space.room(want, used.front());
                assert!(!part.is_empty(), "{batches} x {batch_bytes}: no room beside {used:?}");
                assert!(part.end <= len_bytes && part.len() <= want && part.start.is_multiple_of(ALIGNMENT));
                assert!(
                    used.iter().all(|other| part.end <= other.start || other.end <= part.start),
                    "{part:?} overlaps {used:?}"
                );
                space.hand_out(&part);
                used.push_back(part);
            }
        }
    }

    #[test]
    fn a_full_queue_has_no_room() {
        let mut space = QueueSpace::new(512);
        let first = space.room(256, None);
        space.hand_out(&first);
        let second = space.room(256, Some(&first));
        space.hand_out(&second);
        assert_eq!((first.clone(), second.clone()), (0..256, 256..512));
        assert!(space.room(256, Some(&first)).is_empty());
        assert_eq!(space.room(256, Some(&second)), 0..256);
    }

    #[test]
    fn sizes_that_overflow_are_noticed() {
        assert_eq!(QueueSpace::bytes_for(usize::MAX, 1), None);
        assert_eq!(QueueSpace::bytes_for(4, usize::MAX), None);
    }
}
