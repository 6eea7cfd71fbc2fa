//! The ring: what is to be submitted, waiting, and completions that overflowed.

use std::collections::VecDeque;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, Probe, cqueue, squeue};
use rustix::io::Errno;

use super::errors::errno;

/// One completion, copied out of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reaped {
    pub(super) user_data: u64,
    pub(super) result: i32,
    flags: u32,
}

impl Reaped {
    /// As if the kernel had said so.
    #[cfg(test)]
    pub(super) fn invented(result: i32, flags: u32) -> Self {
        Self { user_data: 0, result, flags }
    }

    /// Whether the kernel will say more about this request, and still has its memory.
    pub(super) fn more(self) -> bool {
        cqueue::more(self.flags)
    }

    /// Whether it only says that memory has been let go of.
    pub(super) fn is_notification(self) -> bool {
        cqueue::notif(self.flags)
    }

    /// The buffer that the kernel chose.
    pub(super) fn buffer(self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }
}

/// An entry that is not in the queue yet.
struct Waiting {
    entry: squeue::Entry,
    /// Whether the next one is of the same chain.
    linked: bool,
}

/// A ring, and what found no room in it yet.
///
/// Entries keep their order, also through the backlog. A chain of linked entries enters the queue as a whole, since the
/// kernel cuts it where a submission ends.
pub(super) struct Ring {
    queues: IoUring,
    backlog: VecDeque<Waiting>,
    /// How many entries at the end of the backlog are an unfinished chain.
    open_chain: usize,
    /// What must not come between those.
    aside: Vec<squeue::Entry>,
    overflows: u64,
    /// Errors for the next submissions to fail with.
    #[cfg(test)]
    pub(super) faults: VecDeque<Errno>,
}

impl Ring {
    pub(super) fn new(queues: IoUring) -> Self {
        Self {
            queues,
            backlog: VecDeque::new(),
            open_chain: 0,
            aside: Vec::new(),
            overflows: 0,
            #[cfg(test)]
            faults: VecDeque::new(),
        }
    }

    /// How many entries the longest chain may have.
    pub(super) fn longest_chain(&self) -> usize {
        self.queues.params().sq_entries() as usize
    }

    /// How many entries are in the chain that is not finished yet.
    pub(super) fn open_chain(&self) -> usize {
        self.open_chain
    }

    pub(super) fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Adds an entry. It is submitted at the latest when the ring is waited for, whatever fails before. `linked`: the next
    /// one is of the same chain.
    ///
    /// # Safety
    ///
    /// What the entry points to stays in place until the request's last completion.
    pub(super) unsafe fn push(&mut self, entry: &squeue::Entry, linked: bool) {
        if self.backlog.is_empty() && !linked {
            // SAFETY: the caller's promise.
            if unsafe { self.push_now(entry) } {
                return;
            }
            // Full. A submission makes room; where it fails, the entry waits for the next one.
            let _ = self.submit();
            // SAFETY: as above.
            if unsafe { self.push_now(entry) } {
                return;
            }
        }
        self.backlog.push_back(Waiting { entry: entry.clone(), linked });
        self.open_chain = if linked { self.open_chain + 1 } else { 0 };
        if !linked {
            let aside = std::mem::take(&mut self.aside);
            self.backlog.extend(aside.into_iter().map(|entry| Waiting { entry, linked: false }));
            self.drain_backlog();
        }
    }

    /// Adds an entry that is no part of a chain, even if one is being made.
    ///
    /// # Safety
    ///
    /// As for [`push`](Self::push).
    pub(super) unsafe fn push_aside(&mut self, entry: &squeue::Entry) {
        if self.open_chain > 0 {
            self.aside.push(entry.clone());
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.push(entry, false) };
        }
    }

    /// # Safety
    ///
    /// As for [`push`](Self::push).
    unsafe fn push_now(&mut self, entry: &squeue::Entry) -> bool {
        let mut queue = self.queues.submission();
        // SAFETY: the caller's promise.
        unsafe { queue.push(entry) }.is_ok()
    }

    /// Moves whole chains from the backlog to the queue, as many as there is room for.
    fn drain_backlog(&mut self) {
        loop {
            let finished = self.backlog.len() - self.open_chain;
            let last = self.backlog.iter().take(finished).position(|waiting| !waiting.linked);
            let chain = last.map_or(finished, |last| last + 1);
            if chain == 0 {
                return;
            }
            let mut queue = self.queues.submission();
            if queue.capacity() - queue.len() < chain {
                drop(queue);
                if self.submit().is_err() || self.queues.submission().capacity() < chain {
                    return;
                }
                continue;
            }
            for waiting in self.backlog.drain(..chain) {
                // SAFETY: promised when it was pushed.
                let _fits = unsafe { queue.push(&waiting.entry) };
            }
        }
    }

    /// Whether there is something to submit.
    fn has_entries(&mut self) -> bool {
        !self.backlog.is_empty() || !self.queues.submission().is_empty()
    }

    /// Whether there is something to reap.
    pub(super) fn has_completions(&mut self) -> bool {
        !self.queues.completion().is_empty()
    }

    /// Whether the kernel has completions that it only hands out when it is entered.
    fn has_deferred(&mut self) -> bool {
        let queue = self.queues.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    fn submit(&mut self) -> Result<(), Errno> {
        let entries = self.queues.submission().len();
        self.enter(entries, 0, EnterFlags::empty(), None)
    }

    /// Submits all there is, and waits for a completion: not at all, at most so long, or for ever.
    ///
    /// A submission that fails for now is tried again the next time; its entries stay in the queue, and count as in
    /// flight.
    pub(super) fn submit_and_wait(&mut self, wait: Wait) -> Result<(), Errno> {
        // An unfinished chain is as good as finished: whoever waits has no more to add.
        self.open_chain = 0;
        let aside = std::mem::take(&mut self.aside);
        self.backlog.extend(aside.into_iter().map(|entry| Waiting { entry, linked: false }));
        self.drain_backlog();
        if wait == Wait::No && !self.has_entries() && (self.has_completions() || !self.has_deferred()) {
            return Ok(());
        }
        let entries = self.queues.submission().len();
        match self.enter_and_wait(entries, wait) {
            Err(Errno::AGAIN | Errno::BUSY) => {
                // Too little memory, or too many completions that nobody has fetched. What is in flight goes on, so
                // wait for some of that, but not for long.
                let briefly = match wait {
                    Wait::No => Wait::No,
                    Wait::AtMost(timeout) => Wait::AtMost(timeout.min(Duration::from_millis(1))),
                    Wait::ForEver => Wait::AtMost(Duration::from_millis(1)),
                };
                match self.enter_and_wait(0, briefly) {
                    Err(Errno::AGAIN | Errno::BUSY) => Ok(()),
                    done => done,
                }
            }
            done => done,
        }
    }

    fn enter_and_wait(&mut self, entries: usize, wait: Wait) -> Result<(), Errno> {
        // Only an enter with this flag works off completions that are deferred to this thread.
        let flags = EnterFlags::GETEVENTS;
        let done = match wait {
            Wait::No => self.enter(entries, 0, flags, None),
            Wait::AtMost(timeout) => self.enter(entries, 1, flags, Some(timeout)),
            Wait::ForEver => self.enter(entries, 1, flags, None),
        };
        match done {
            Err(Errno::TIME | Errno::INTR) => Ok(()),
            done => done,
        }
    }

    fn enter(
        &mut self,
        entries: usize,
        completions: u32,
        flags: EnterFlags,
        timeout: Option<Duration>,
    ) -> Result<(), Errno> {
        #[cfg(test)]
        if let (true, Some(errno)) = (entries > 0, self.faults.pop_front()) {
            return Err(errno);
        }
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        let submitter = self.queues.submitter();
        let entered = match timeout {
            Some(timeout) => {
                // The kernel takes no more than 63 bits of nanoseconds.
                let timeout = Timespec::from(timeout.min(Duration::from_secs(1 << 30)));
                let arguments = SubmitArgs::new().timespec(&timeout);
                let flags = (flags | EnterFlags::EXT_ARG).bits();
                // SAFETY: the arguments are what the flag announces, and outlive the call; what the entries point to
                // was promised when they were pushed.
                unsafe { submitter.enter(entries, completions, flags, Some(&arguments)) }
            }
            // SAFETY: there are no arguments; the entries as above.
            None => unsafe { submitter.enter::<libc::sigset_t>(entries, completions, flags.bits(), None) },
        };
        entered.map(drop).map_err(|error| errno(&error))
    }

    /// Appends all completions that there are, those that overflowed included.
    pub(super) fn reap(&mut self, reaped: &mut Vec<Reaped>) {
        loop {
            let copy = |entry: cqueue::Entry| Reaped {
                user_data: entry.user_data(),
                result: entry.result(),
                flags: entry.flags(),
            };
            reaped.extend(self.queues.completion().map(copy));
            if !self.queues.submission().cq_overflow() {
                return;
            }
            // The kernel keeps them until it is entered with room in the queue.
            self.overflows += 1;
            if self.enter(0, 0, EnterFlags::GETEVENTS, None).is_err() {
                return;
            }
        }
    }

    /// Asks which operations the kernel has.
    pub(super) fn operations(&self) -> Result<Probe, Errno> {
        let mut probe = Probe::new();
        self.queues.submitter().register_probe(&mut probe).map_err(|error| errno(&error))?;
        Ok(probe)
    }

    /// Makes an empty table of registered buffers.
    pub(super) fn create_slots(&self, count: u16) -> Result<(), Errno> {
        self.queues.submitter().register_buffers_sparse(u32::from(count)).map_err(|error| errno(&error))
    }

    /// Unpins all.
    pub(super) fn remove_slots(&self) -> Result<(), Errno> {
        self.queues.submitter().unregister_buffers().map_err(|error| errno(&error))
    }

    /// Pins memory under a number.
    ///
    /// # Safety
    ///
    /// The memory stays mapped until the slot is cleared.
    pub(super) unsafe fn set_slot(&self, slot: u16, memory: libc::iovec) -> Result<(), Errno> {
        let submitter = self.queues.submitter();
        // SAFETY: the caller's promise.
        let done = unsafe { submitter.register_buffers_update(u32::from(slot), &[memory], None) };
        done.map_err(|error| errno(&error))
    }

    /// Unpins what is under this number; attempts in flight keep it until they have ended.
    pub(super) fn clear_slot(&self, slot: u16) -> Result<(), Errno> {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: there is no memory.
        unsafe { self.set_slot(slot, nothing) }
    }

    /// Registers a ring of buffers.
    ///
    /// # Safety
    ///
    /// `entries` entries of 16 bytes at this address, and the buffers that they name, stay in place until the group is
    /// removed.
    pub(super) unsafe fn add_buffers(&self, group: u16, address: *mut u8, entries: u16) -> Result<(), Errno> {
        let submitter = self.queues.submitter();
        let address = address.expose_provenance() as u64;
        // SAFETY: the caller's promise.
        let done = unsafe { submitter.register_buf_ring_with_flags(address, entries, group, 0) };
        done.map_err(|error| errno(&error))
    }

    /// Ends that.
    pub(super) fn remove_buffers(&self, group: u16) -> Result<(), Errno> {
        self.queues.submitter().unregister_buf_ring(group).map_err(|error| errno(&error))
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("backlog", &self.backlog.len())
            .field("open_chain", &self.open_chain)
            .field("overflows", &self.overflows)
            .finish_non_exhaustive()
    }
}

/// How long to wait for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    AtMost(Duration),
    ForEver,
}
