//! The words of a region as the suite sees them: it reads what no member shows, and forges what only the dead leave.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};
use transload::shared::SharedRegion;
use transload_core::{
    CONTROL_WORDS, FutexWord, MEMBER_WORDS, SLEEPER_WORDS, SharedParts, SharedWord, SlotState,
};

/// Where the header says how many of what there are, and where: numbers of its words.
const BUFFERS: usize = 5;
const BUFFER_SIZE: usize = 6;
const RING_SLOTS: usize = 7;
const MEMBERS: usize = 8;
const CONTROL_AT: usize = 10;
const SLEEPERS_AT: usize = 11;
const MEMBERS_AT: usize = 12;
const SLOTS_AT: usize = 13;
const CELLS_AT: usize = 14;
const METADATA: usize = 15;
const BUFFERS_AT: usize = 16;
const TOTAL: usize = 17;
const HEADER_WORDS: usize = 18;

/// Control words.
const TAIL: usize = 0;
const HEAD: usize = 16;
/// In a member's entry: whether somebody is in.
const STATE: usize = 1;

/// A mapping of a region that is no attach: it has no locks and is no member.
#[derive(Debug)]
pub struct View {
    base: NonNull<u8>,
    len_bytes: usize,
    header: [usize; HEADER_WORDS],
}

/// The words of a pool and its ring.
pub type ViewParts<'a> = SharedParts<&'a [SharedWord], &'a [FutexWord]>;

/// A slot's word, in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Whose it is.
    pub owner: u16,
    /// What it is.
    pub state: SlotState,
    /// Which lease of it this is.
    pub tag: u64,
    /// How long its message is.
    pub len_bytes: u32,
}

impl Slot {
    fn of(word: u64) -> Slot {
        let state = match word >> 50 & 7 {
            0 => SlotState::Free,
            1 => SlotState::Owned,
            2 => SlotState::Lent,
            3 => SlotState::Sent,
            _ => SlotState::Quarantined,
        };
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let len_bytes = word as u32;
        // What is left are ten bits.
        Slot { owner: (word >> 54) as u16, state, tag: word >> 32 & 0x3_ffff, len_bytes }
    }

    /// As a word, without a taint.
    pub fn to_word(self) -> u64 {
        let state = match self.state {
            SlotState::Free => 0,
            SlotState::Owned => 1,
            SlotState::Lent => 2,
            SlotState::Sent => 3,
            SlotState::Quarantined => 4,
        };
        u64::from(self.owner) << 54 | state << 50 | (self.tag & 0x3_ffff) << 32 | u64::from(self.len_bytes)
    }
}

/// The cell of a position that holds a message.
pub fn full_cell(lap: u64, index: u32, tag: u64) -> u64 {
    lap << 40 | 1 << 39 | u64::from(index) << 15 | tag & 0x7fff
}

/// The cell of a position that is empty.
pub fn empty_cell(lap: u64) -> u64 {
    lap << 40
}

/// A full cell, and what is in the slot that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Where in the ring.
    pub position: u64,
    /// In which buffer.
    pub index: u32,
    /// The buffer's word.
    pub slot: Slot,
    /// The first eight bytes of the message.
    pub id: u64,
}

impl View {
    /// Maps a region.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn of(region: &SharedRegion) -> io::Result<View> {
        View::of_file(region.file_for_peer()?.as_fd())
    }

    /// Maps the region in a file.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn of_file(file: BorrowedFd<'_>) -> io::Result<View> {
        let mut bytes = [0; HEADER_WORDS * 8];
        rustix::io::pread(file, &mut bytes, 0)?;
        let mut header = [0; HEADER_WORDS];
        for (word, bytes) in header.iter_mut().zip(bytes.as_chunks().0) {
            *word = usize::try_from(u64::from_le_bytes(*bytes)).map_err(io::Error::other)?;
        }
        let len_bytes = header[TOTAL];
        let access = ProtFlags::READ | ProtFlags::WRITE;
        #[expect(clippy::disallowed_methods, reason = "a mapping that is no attach")]
        // SAFETY: no address is asked for, so the kernel chooses a range that nothing uses.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len_bytes, access, MapFlags::SHARED, file, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(View { base, len_bytes, header })
    }

    fn part<T>(&self, offset: usize, count: usize) -> &[T] {
        let end = offset + count * size_of::<T>();
        assert!(end <= self.len_bytes && offset.is_multiple_of(align_of::<T>()), "the header of a region");
        let start = self.base.as_ptr().wrapping_add(offset).cast::<T>();
        // SAFETY: within the mapping, which lives as long as `self`, and aligned. Private to this module, which makes
        // atomics of it only (I7).
        unsafe { std::slice::from_raw_parts(start, count) }
    }

    fn words(&self, offset: usize, count: usize) -> &[SharedWord] {
        self.part(self.header[offset], count)
    }

    /// The words as a member sees them.
    ///
    /// # Panics
    ///
    /// If the header is none of a region.
    pub fn parts(&self) -> ViewParts<'_> {
        SharedParts::new(
            self.words(CONTROL_AT, CONTROL_WORDS),
            self.part(self.header[SLEEPERS_AT], SLEEPER_WORDS),
            self.words(MEMBERS_AT, (self.header[MEMBERS] + 1) * MEMBER_WORDS),
            self.slots(),
            self.cells(),
        )
        .unwrap()
    }

    /// All words but the header's.
    pub fn metadata(&self) -> &[SharedWord] {
        self.words(CONTROL_AT, (self.header[METADATA] - self.header[CONTROL_AT]) / 8)
    }

    /// One word for each buffer.
    pub fn slots(&self) -> &[SharedWord] {
        self.words(SLOTS_AT, self.header[BUFFERS])
    }

    /// A slot's word.
    pub fn slot(&self, index: u32) -> Slot {
        Slot::of(self.slots()[index as usize].load())
    }

    /// The slots of the ring.
    pub fn cells(&self) -> &[SharedWord] {
        self.words(CELLS_AT, self.header[RING_SLOTS])
    }

    /// The cell of a position, and its lap.
    ///
    /// # Panics
    ///
    /// Never: a remainder of a count is one.
    pub fn cell(&self, position: u64) -> (&SharedWord, u64) {
        let count = self.cells().len() as u64;
        let nth = usize::try_from(position % count).unwrap();
        (&self.cells()[nth], position / count)
    }

    /// Where the next message goes.
    pub fn tail(&self) -> &SharedWord {
        &self.words(CONTROL_AT, CONTROL_WORDS)[TAIL]
    }

    /// Where the first message is that is not done, or before that.
    pub fn head(&self) -> &SharedWord {
        &self.words(CONTROL_AT, CONTROL_WORDS)[HEAD]
    }

    /// The member's word that says that somebody is in.
    pub fn member_state(&self, member: u16) -> &SharedWord {
        &self.words(MEMBERS_AT, (self.header[MEMBERS] + 1) * MEMBER_WORDS)
            [usize::from(member) * MEMBER_WORDS + STATE]
    }

    /// The first eight bytes of a buffer, as a number.
    pub fn id(&self, index: u32) -> u64 {
        self.id_word(index).load()
    }

    /// Writes the first eight bytes of a buffer.
    pub fn set_id(&self, index: u32, id: u64) {
        self.id_word(index).store(id);
    }

    fn id_word(&self, index: u32) -> &SharedWord {
        let offset = self.header[BUFFERS_AT] + index as usize * self.header[BUFFER_SIZE];
        &self.part(offset, 1)[0]
    }

    /// What is in the ring, in order.
    pub fn published(&self) -> Vec<Published> {
        let (head, count) = (self.head().load(), self.cells().len() as u64);
        // The head may be late.
        let positions = head..head.wrapping_add(4 * count);
        let full = |position| {
            let (cell, lap) = self.cell(position);
            let cell = cell.load();
            if cell & 1 << 39 == 0 || cell >> 40 != lap & 0xff_ffff {
                return None;
            }
            let index = (cell >> 15 & 0xff_ffff) as u32;
            Some(Published { position, index, slot: self.slot(index), id: self.id(index) })
        };
        positions.filter_map(full).collect()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "mapped by this module")]
        // SAFETY: mapped by `of_file`; what `part` gives out does not live longer than this.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len_bytes) };
    }
}
