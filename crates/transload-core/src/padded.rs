//! A value on cache lines of its own.

use core::ops::{Deref, DerefMut};

/// A value that shares no cache line, and no pair of lines that a prefetcher fetches together, with another.
///
/// 128 bytes: x86-64 fetches lines of 64 bytes in pairs, several 64-bit Arm cores have lines of 128. The type is
/// aligned rather than followed by filler, so that it holds wherever the outer struct begins.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

const _: () = assert!(align_of::<Padded<u8>>() == 128 && size_of::<Padded<u8>>() == 128);
