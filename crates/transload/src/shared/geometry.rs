//! How many of what a region has, and where each part of it lies.

use transload_core::{MAX_MEMBERS, MAX_RING_SLOTS, MAX_SHARED_BUFFERS};

use super::error::SharedError;

/// Bytes from one control line to the next: no two share a cache line, or a pair that is fetched together.
pub(super) const LINE_BYTES: usize = 128;
/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 4096;
/// Lines of control words: tail, head, recovery, counters, and spare ones.
pub(super) const CONTROL_LINES: usize = 8;
/// Lines of words that threads sleep on: the consumer, and who waits for room.
pub(super) const SLEEPER_LINES: usize = 2;
const DEFAULT_MEMBERS: usize = 64;
/// What the buffers of a region begin at multiples of, at least and at most.
pub(super) const ALIGNMENTS: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 30;

/// The numbers that all else follows from. Checked: every region with them can be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) buffer_count: usize,
    pub(super) buffer_size: usize,
    pub(super) ring_slots: usize,
    pub(super) members: usize,
    /// What the application means by the region. Nothing follows from it here.
    pub(super) user_word: u64,
}

/// Where the buffers lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// After the rest, at the next multiple of this many bytes.
    Behind { alignment: usize },
    /// In a memory of their own.
    Apart,
}

/// Where the parts lie, in bytes from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) control: usize,
    pub(super) sleepers: usize,
    pub(super) members: usize,
    pub(super) slots: usize,
    pub(super) cells: usize,
    /// Where all but the buffers ends.
    pub(super) metadata_bytes: usize,
    /// `None` if they are in a memory of their own.
    pub(super) buffers: Option<usize>,
    /// Bytes of the memory that begins with the header.
    pub(super) total_bytes: usize,
}

/// How much memory a region of `buffer_count` buffers needs beside the buffers, in bytes, with a ring and a number of
/// members as they are by default. For others ask
/// [`SharedRegionBuilder::metadata_bytes`](super::SharedRegionBuilder::metadata_bytes).
///
/// # Errors
///
/// [`SharedError::OutOfRange`] for no buffers, or for more than a region can have.
///
/// # Examples
///
/// ```
/// use transload::shared::shared_storage_size;
///
/// assert!(shared_storage_size(4096)? < 128 << 10);
/// let error = shared_storage_size((1 << 24) + 1).unwrap_err();
/// assert!(error.to_string().contains("16777216"));
/// # Ok::<(), transload::shared::SharedError>(())
/// ```
pub fn shared_storage_size(buffer_count: usize) -> Result<usize, SharedError> {
    Ok(Geometry::new(buffer_count, 1, None, None)?.metadata_bytes())
}

impl Geometry {
    pub(super) fn new(
        buffer_count: usize,
        buffer_size: usize,
        ring_slots: Option<usize>,
        members: Option<usize>,
    ) -> Result<Geometry, SharedError> {
        in_range("buffers", buffer_count, MAX_SHARED_BUFFERS)?;
        in_range("bytes in a buffer", buffer_size, u32::MAX as usize)?;
        let ring_slots = ring_slots.unwrap_or(buffer_count.next_power_of_two());
        in_range("slots of a ring", ring_slots, MAX_RING_SLOTS)?;
        if !ring_slots.is_power_of_two() {
            return Err(SharedError::NoPowerOfTwo { ring_slots, next: ring_slots.next_power_of_two() });
        }
        let members = members.unwrap_or(DEFAULT_MEMBERS);
        in_range("members", members, MAX_MEMBERS)?;
        let geometry = Geometry { buffer_count, buffer_size, ring_slots, members, user_word: 0 };
        // 2^56 bytes at most, and the rest: more than some systems can address.
        let fits = buffer_count
            .checked_mul(buffer_size)
            .and_then(|bytes| bytes.checked_add(geometry.metadata_bytes() + 2 * ALIGNMENTS.end()))
            .is_some_and(|bytes| isize::try_from(bytes).is_ok());
        if fits { Ok(geometry) } else { Err(SharedError::TooLarge { buffer_count, buffer_size }) }
    }

    pub(super) fn buffers_bytes(&self) -> usize {
        self.buffer_count * self.buffer_size
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        self.layout(Place::Apart).metadata_bytes
    }

    /// Cannot overflow: [`Geometry::new`] has seen to that.
    pub(super) fn layout(&self, place: Place) -> Layout {
        let control = HEADER_BYTES;
        let sleepers = control + CONTROL_LINES * LINE_BYTES;
        let members = sleepers + SLEEPER_LINES * LINE_BYTES;
        // Member 0 is nobody.
        let slots = members + (self.members + 1) * LINE_BYTES;
        let cells = slots + (self.buffer_count * size_of::<u64>()).next_multiple_of(LINE_BYTES);
        let metadata_bytes = cells + (self.ring_slots * size_of::<u64>()).next_multiple_of(LINE_BYTES);
        let (buffers, total_bytes) = match place {
            Place::Apart => (None, metadata_bytes),
            Place::Behind { alignment } => {
                let buffers = metadata_bytes.next_multiple_of(alignment);
                (Some(buffers), (buffers + self.buffers_bytes()).next_multiple_of(alignment))
            }
        };
        Layout { control, sleepers, members, slots, cells, metadata_bytes, buffers, total_bytes }
    }
}

fn in_range(what: &'static str, wanted: usize, most: usize) -> Result<(), SharedError> {
    if (1..=most).contains(&wanted) { Ok(()) } else { Err(SharedError::OutOfRange { what, wanted, most }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_in_order_on_lines_of_their_own() {
        for (buffer_count, ring_slots, members) in
            [(1, 1, 1), (5, 16, 3), (17, 8, 64), (1 << 24, 1 << 24, 1023)]
        {
            let geometry = Geometry::new(buffer_count, 3, Some(ring_slots), Some(members)).unwrap();
            for alignment in [1 << 16, 1 << 21, 1 << 30] {
                let layout = geometry.layout(Place::Behind { alignment });
                let buffers = layout.buffers.unwrap();
                let parts = [
                    (0, HEADER_BYTES),
                    (layout.control, 8 * 128),
                    (layout.sleepers, 2 * 128),
                    (layout.members, (members + 1) * 128),
                    (layout.slots, buffer_count * 8),
                    (layout.cells, ring_slots * 8),
                    (buffers, buffer_count * 3),
                    (layout.total_bytes, 0),
                ];
                for [(start, len_bytes), (next, _)] in parts.array_windows() {
                    assert!(start + len_bytes <= *next && next % LINE_BYTES == 0, "{parts:?}");
                }
                assert_eq!((buffers % alignment, layout.total_bytes % alignment), (0, 0));
                assert_eq!(geometry.layout(Place::Apart).total_bytes, geometry.metadata_bytes());
            }
        }
    }
}
