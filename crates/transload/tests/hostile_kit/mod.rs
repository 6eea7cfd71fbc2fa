//! A peer that lies: it maps the memory of a region by itself, and writes to it what no member writes.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::cast_possible_truncation,
    clippy::cast_ptr_alignment,
    clippy::unwrap_used,
    reason = "each test file uses its part of this, counts little, and may panic; offsets are checked"
)]

#[path = "../limit/mod.rs"]
mod limit;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

pub use limit::{LIMIT, within_limit};
use transload::memory::Slab;
use transload::region::{Access, Region, RegisterError, Registrar, Registration};
use transload::shared::SharedRegion;
use transload_core::{FutexWord, SharedWord};

/// Numbers that look like chance (xorshift).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }
}

/// A whole file, mapped for reading and writing, and never unmapped.
pub struct Raw {
    file: OwnedFd,
    base: *mut u8,
    len_bytes: usize,
}

// SAFETY: an address of memory that stays; it is reached by atomics and volatile writes only.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

impl Raw {
    pub fn of(file: OwnedFd) -> Self {
        let len_bytes = usize::try_from(rustix::fs::fstat(&file).unwrap().st_size).unwrap();
        // SAFETY: a new mapping wherever the kernel likes.
        let base = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), len_bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(base, libc::MAP_FAILED);
        Self { file, base: base.cast(), len_bytes }
    }

    pub fn word(&self, offset: usize) -> &SharedWord {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.len_bytes);
        // SAFETY: within the mapping, aligned; everybody reaches these bytes as atomic words.
        unsafe { &*self.base.wrapping_add(offset).cast::<SharedWord>() }
    }

    pub fn futex(&self, offset: usize) -> &FutexWord {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len_bytes);
        // SAFETY: as above.
        unsafe { &*self.base.wrapping_add(offset).cast::<FutexWord>() }
    }

    /// Takes the pages away; they come back as zeroes.
    pub fn punch(&self, offset: usize, len_bytes: usize) {
        use rustix::fs::FallocateFlags;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(self.file.as_fd(), flags, offset as u64, len_bytes as u64).unwrap();
    }
}

/// A liar's view of a region: where each word is.
pub struct Liar {
    pub raw: Raw,
    pub buffers: usize,
    pub ring_slots: usize,
    pub members: usize,
}

const CONTROL: usize = 4096;
const SLEEPERS: usize = CONTROL + 8 * 128;
const MEMBERS: usize = SLEEPERS + 2 * 128;

/// States of a slot word.
pub const FREE: u64 = 0;
pub const OWNED: u64 = 1;
pub const LENT: u64 = 2;
pub const SENT: u64 = 3;

/// A slot word as a member would write it.
pub fn slot_word(owner: u64, state: u64, tag: u64, len: u64) -> u64 {
    owner << 54 | state << 50 | tag << 32 | len
}

/// A full cell.
pub fn full_cell(lap: u64, index: u64, tag: u64) -> u64 {
    lap << 40 | 1 << 39 | index << 15 | tag & 0x7fff
}

pub fn tag_of(word: u64) -> u64 {
    word >> 32 & 0x3_ffff
}

impl Liar {
    pub fn of(region: &SharedRegion) -> Self {
        Self::with(
            region.file_for_peer().unwrap(),
            region.buffer_count(),
            region.ring_slots(),
            region.members().into(),
        )
    }

    pub fn with(file: OwnedFd, buffers: usize, ring_slots: usize, members: usize) -> Self {
        Self { raw: Raw::of(file), buffers, ring_slots, members }
    }

    pub fn tail(&self) -> &SharedWord {
        self.raw.word(CONTROL)
    }

    pub fn head(&self) -> &SharedWord {
        self.raw.word(CONTROL + 128)
    }

    pub fn sleeper(&self, nth: usize) -> &FutexWord {
        self.raw.futex(SLEEPERS + nth * 128)
    }

    pub fn slot(&self, index: usize) -> &SharedWord {
        self.raw.word(self.slots() + index * 8)
    }

    pub fn cell(&self, nth: usize) -> &SharedWord {
        self.raw.word(self.cells() + nth % self.ring_slots * 8)
    }

    fn slots(&self) -> usize {
        MEMBERS + (self.members + 1) * 128
    }

    fn cells(&self) -> usize {
        self.slots() + (self.buffers * 8).next_multiple_of(128)
    }

    /// Where the words end.
    pub fn words_end(&self) -> usize {
        self.cells() + self.ring_slots * 8
    }

    /// Writes one lie.
    pub fn lie(&self, what: Lie, dice: &mut Dice) {
        let word = |from: usize, to: usize, dice: &mut Dice| {
            self.raw.word(from + dice.below((to - from) as u64 / 8) as usize * 8)
        };
        match what {
            Lie::Nothing => thread::yield_now(),
            Lie::Anything => {
                let word = word(CONTROL, self.words_end(), dice);
                let value = match dice.below(4) {
                    0 => dice.roll(),
                    1 => word.load() ^ 1 << dice.below(64),
                    2 => 0,
                    _ => self.raw.word(CONTROL + dice.below(64) as usize * 8).load(),
                };
                word.store(value);
            }
            Lie::Slots => {
                let slot = self.slot(dice.below(self.buffers as u64) as usize);
                let old = slot.load();
                // Owners that there are, and some that cannot be; states likewise; the tag right or nearly so.
                let owner = if dice.below(8) == 0 { dice.below(1024) } else { dice.below(5) };
                let len = if dice.below(4) == 0 { u64::from(u32::MAX) } else { dice.below(300) };
                let tag = tag_of(old).wrapping_add(dice.below(3) & dice.below(2)) & 0x3_ffff;
                slot.store(slot_word(owner, dice.below(6), tag, len));
            }
            Lie::Cells => {
                let cell = self.cell(dice.below(self.ring_slots as u64) as usize);
                let lap =
                    (self.tail().load() / self.ring_slots as u64).wrapping_add(dice.below(3)).wrapping_sub(1);
                let index = dice.below(self.buffers as u64 + 1);
                let slot = self.slot((index as usize).min(self.buffers - 1));
                cell.store(match dice.below(8) {
                    0 => dice.roll(),
                    1 => lap << 40,
                    _ => full_cell(lap, index, tag_of(slot.load())),
                });
            }
            // Messages that nobody has sent, with everything as it should be.
            Lie::Messages => {
                let position = self.tail().load().wrapping_add(dice.below(self.ring_slots as u64));
                let index = dice.below(self.buffers as u64);
                let slot = self.slot(index as usize);
                let tag = tag_of(slot.load());
                slot.store(slot_word(dice.below(5), SENT, tag, dice.below(300)));
                self.cell(position as usize).store(full_cell(
                    (position / self.ring_slots as u64) & 0xff_ffff,
                    index,
                    tag,
                ));
            }
            Lie::Tail | Lie::Head => {
                let word = if what == Lie::Tail { self.tail() } else { self.head() };
                let value = match dice.below(3) {
                    0 => dice.roll(),
                    1 => word.load().wrapping_add(dice.below(2 * self.ring_slots as u64)),
                    _ => word.load().wrapping_sub(dice.below(2 * self.ring_slots as u64)),
                };
                word.store(value);
            }
            Lie::Sleepers => word(SLEEPERS, MEMBERS, dice).store(dice.below(2) * dice.roll()),
            Lie::Members => word(MEMBERS, self.slots(), dice).store(dice.roll()),
            Lie::Holes => {
                self.raw.punch(CONTROL, self.words_end().next_multiple_of(4096) - CONTROL);
                thread::sleep(Duration::from_micros(dice.below(2000)));
            }
        }
    }
}

/// What is lied about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    Nothing,
    Anything,
    Slots,
    Cells,
    Messages,
    Tail,
    Head,
    Sleepers,
    Members,
    Holes,
}

impl Lie {
    pub const ALL: [Lie; 9] = [
        Lie::Anything,
        Lie::Slots,
        Lie::Cells,
        Lie::Messages,
        Lie::Tail,
        Lie::Head,
        Lie::Sleepers,
        Lie::Members,
        Lie::Holes,
    ];
}

/// A device that does nothing.
pub struct Nobody;

impl Registrar for Nobody {
    fn register(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        let reason = "nobody reads it".to_owned();
        Ok(Region::new(slab.clone(), access, Registration::Copy { reason }, Box::new(())))
    }
}
