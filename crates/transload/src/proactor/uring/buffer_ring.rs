//! Buffers lent to the kernel, which chooses among them as bytes come.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::io::Errno;

use super::ring::Ring;
use crate::memory::{Policy, Slab};
use crate::pool::{BufferPool, Lease};

/// The kernel takes no larger ring.
const MOST_ENTRIES: u32 = 1 << 15;

/// A buffer, as the kernel reads it (`struct io_uring_buf`).
#[repr(C)]
struct Entry {
    address: u64,
    len_bytes: u32,
    buffer: u16,
    /// In the first entry: how many entries have ever been written, modulo 2^16.
    tail: u16,
}

const _: () = assert!(size_of::<Entry>() == 16 && offset_of!(Entry, tail) == 14);

/// A ring of buffers and the leases on them. A lease is here from when its buffer is lent until a completion names it.
#[derive(Debug)]
pub(super) struct BufferRing {
    group: u16,
    memory: Slab,
    entries: u16,
    tail: u16,
    /// By the buffer's number in the ring.
    lent: Vec<Option<Lease>>,
    /// Numbers of no buffer that is lent.
    free: Vec<u16>,
    /// Leases on their way into the ring.
    fresh: Vec<Lease>,
}

impl BufferRing {
    /// Registers a ring for as many buffers as the pool has, or as a ring can hold.
    pub(super) fn new(ring: &Ring, group: u16, pool: &BufferPool) -> Result<Self, Errno> {
        let entries = pool.capacity().clamp(1, MOST_ENTRIES).next_power_of_two();
        let entries = u16::try_from(entries).unwrap_or(1 << 15);
        let memory = Slab::builder(usize::from(entries), size_of::<Entry>()).lock(Policy::Never).build();
        let memory = memory.map_err(|_| Errno::NOMEM)?;
        // SAFETY: the memory is kept until the kernel has confirmed that it no longer knows it, and so are the leases
        // on the buffers (I2).
        unsafe { ring.add_buffers(group, memory.as_ptr(), entries)? };
        Ok(Self {
            group,
            memory,
            entries,
            tail: 0,
            lent: (0..entries).map(|_| None).collect(),
            free: (0..entries).rev().collect(),
            fresh: Vec::new(),
        })
    }

    /// Lends the kernel what the pool has, as far as there is room; says whether it has any now.
    pub(super) fn refill(&mut self, pool: &BufferPool) -> bool {
        if self.free.is_empty() || pool.acquire_batch(self.free.len(), &mut self.fresh).is_err() {
            return self.lends();
        }
        while let Some(lease) = self.fresh.pop() {
            let Some(buffer) = self.free.pop() else { break };
            self.write(&lease, buffer);
            self.lent[usize::from(buffer)] = Some(lease);
            self.tail = self.tail.wrapping_add(1);
        }
        let tail = self.field(0, offset_of!(Entry, tail));
        // SAFETY: the ring's memory is aligned, is there while `self` is (I2), and everybody accesses the tail as an
        // atomic.
        let tail = unsafe { AtomicU16::from_ptr(tail) };
        // Released: the kernel, which acquires it, sees the entries before it.
        tail.store(self.tail, Ordering::Release);
        true
    }

    /// Whether any buffer is lent, as far as completions have been read.
    pub(super) fn lends(&self) -> bool {
        self.free.len() < usize::from(self.entries)
    }

    /// Takes back a buffer that the kernel has chosen.
    pub(super) fn take(&mut self, buffer: u16) -> Option<Lease> {
        let lease = self.lent.get_mut(usize::from(buffer))?.take()?;
        self.free.push(buffer);
        Some(lease)
    }

    /// Writes the entry at the tail. All but the first entry's tail, which is written by itself.
    fn write(&self, lease: &Lease, buffer: u16) {
        let entry = self.tail & (self.entries - 1);
        let address = lease.as_ptr().expose_provenance() as u64;
        let len_bytes = u32::try_from(lease.capacity()).unwrap_or(u32::MAX);
        // SAFETY: the entry lies in the ring's memory (I2), and is ours until the tail says that it is written (I1).
        unsafe { self.field::<u64>(entry, offset_of!(Entry, address)).write(address) };
        // SAFETY: as above.
        unsafe { self.field::<u32>(entry, offset_of!(Entry, len_bytes)).write(len_bytes) };
        // SAFETY: as above.
        unsafe { self.field::<u16>(entry, offset_of!(Entry, buffer)).write(buffer) };
    }

    /// Where a field of an entry is.
    fn field<T>(&self, entry: u16, offset: usize) -> *mut T {
        let field = usize::from(entry) * size_of::<Entry>() + offset;
        self.memory.as_ptr().wrapping_add(field).cast()
    }

    /// Takes the ring from the kernel, and only then gives memory and leases back. If the kernel keeps it, so do we,
    /// for ever.
    pub(super) fn remove(self, ring: &Ring) {
        if let Err(errno) = ring.remove_buffers(self.group) {
            let reason = super::errors::os_text(errno);
            let buffers = self.lent.iter().flatten().count();
            tracing::warn!(group = self.group, buffers, %reason, "a ring of buffers was not removed: its buffers are lost");
            self.leak();
        }
    }

    /// Keeps memory and leases for ever: the kernel may still use them.
    pub(super) fn leak(self) {
        let _never_dropped = std::mem::ManuallyDrop::new(self);
    }

    pub(super) fn group(&self) -> u16 {
        self.group
    }

    /// How many buffers are lent.
    #[cfg(test)]
    pub(super) fn lent(&self) -> usize {
        self.lent.iter().flatten().count()
    }
}
