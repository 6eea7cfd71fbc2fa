//! One cache line that two processes write in turn: the least that a message costs.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

use super::content::{Content, Seen};
use super::link::Link;

const PAGE: usize = 4096;

/// A page that both processes map, whose first word is the whole message.
#[derive(Debug)]
pub(super) struct Line {
    word: NonNull<AtomicU64>,
    /// What was last written or seen.
    last: u64,
}

impl Line {
    /// Makes a page; and gives what another process opens it by.
    pub(super) fn create() -> Result<(Self, OwnedFd)> {
        let file = rustix::fs::memfd_create("transload-bench-line", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, PAGE as u64)?;
        Ok((Self::open(file.as_fd().try_clone_to_owned()?)?, file))
    }

    /// Maps a page.
    pub(super) fn open(file: OwnedFd) -> Result<Self> {
        let file = File::from(file);
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, wherever there is room.
        let page = unsafe { rustix::mm::mmap(ptr::null_mut(), PAGE, protection, flags, &file, 0)? };
        // Zero, as new files are.
        Ok(Self { word: NonNull::new(page.cast()).expect("not at address 0"), last: 0 })
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: the beginning of a page that is mapped until `self` is dropped; both processes reach it as this atomic.
        unsafe { self.word.as_ref() }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // SAFETY: mapped by `open`, and referred to by nobody but `self`. If it fails, the page stays.
        let _ = unsafe { rustix::mm::munmap(self.word.as_ptr().cast(), PAGE) };
    }
}

impl<const WORDS: usize> Link<WORDS> for Line {
    #[inline]
    fn send<C: Content>(&mut self, tag: u64) -> Result<bool> {
        self.last = tag;
        self.word().store(tag, Ordering::Release);
        Ok(true)
    }

    #[inline]
    fn receive<C: Content>(&mut self, mut see_one: impl FnMut(Seen) -> Result<()>) -> Result<usize> {
        let tag = self.word().load(Ordering::Acquire);
        if tag == self.last {
            return Ok(0);
        }
        self.last = tag;
        see_one(Seen { tag, is_whole: true })?;
        Ok(1)
    }
}
