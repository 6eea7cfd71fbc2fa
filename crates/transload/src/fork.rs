//! Whether this is still the process that made a thing, or a forked child that has a copy of it.
//!
//! A process number does not tell: it is a system call away, is used again, and is the same in two namespaces. One page
//! that the kernel fills with zeroes in a child (`MADV_WIPEONFORK`) does, for a load and a comparison.

use std::{io, sync::OnceLock};

use transload_core::SharedWord;

use crate::memory::Mapping;

/// A mark that only the process has which took it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkStamp {
    word: &'static SharedWord,
    value: u64,
}

/// A handle was made before a fork and is used in the child.
///
/// The child does not have the memory behind it, and has no part in what the parent does. It opens what it needs anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this handle belongs to the process that made it, and this one was forked from that: open it anew here"
)]
pub struct ForkedChild;

/// The page, and what was written to it last, by this process or one that it was forked from.
struct Page {
    mapping: Mapping,
    last: SharedWord,
}

static PAGE: OnceLock<Page> = OnceLock::new();

impl ForkStamp {
    /// The stamp of this process.
    pub(crate) fn here() -> io::Result<ForkStamp> {
        if PAGE.get().is_none() {
            // Another thread may be faster; then its page it is.
            let _ = PAGE.set(Page { mapping: Mapping::wiped_on_fork()?, last: SharedWord::new(0) });
        }
        let page = PAGE.get().ok_or(io::ErrorKind::Other)?;
        // SAFETY: the mapping is a page of readable and writable zeroes, aligned for any word, kept by a static (I2), and
        // reached as this one atomic word only.
        let word = unsafe { page.mapping.base().cast::<SharedWord>().as_ref() };
        Ok(ForkStamp { word, value: page.stamp(word) })
    }

    /// Whether this is the process that took the stamp. False in its children, for ever.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.word.load() == self.value
    }

    /// [`is_here`](ForkStamp::is_here), for `?`.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), ForkedChild> {
        if self.is_here() { Ok(()) } else { Err(ForkedChild) }
    }
}

impl Page {
    /// What is on the page; written first if this process is new.
    ///
    /// Takes no lock, which a thread may have held that the child does not have. Threads that come here at once write the
    /// same value: `last` changes after the page, so whoever sees it changed sees the page written.
    fn stamp(&self, word: &SharedWord) -> u64 {
        loop {
            let value = word.load();
            if value != 0 {
                // A stamp is given out only when `last` has it: a child must never come to the same.
                self.last.store(value);
                return value;
            }
            let next = self.last.load() + 1;
            if word.load() == 0 {
                word.store(next);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustix::process::{Pid, WaitOptions, waitpid};

    /// Whether `child` says yes in a fork.
    pub(crate) fn in_child(child: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child calls only `child`, which takes no lock that another thread may hold, and `_exit`.
        let id = unsafe { libc::fork() };
        if id == 0 {
            // SAFETY: sets a timer that ends this process.
            unsafe { libc::alarm(20) };
            let code = i32::from(!child());
            // SAFETY: ends this process without running what belongs to the parent.
            unsafe { libc::_exit(code) };
        }
        let id = Pid::from_raw(id).expect("fork");
        let status = waitpid(Some(id), WaitOptions::empty()).expect("waitpid").expect("ended").1;
        status.exit_status() == Some(0)
    }

    #[test]
    fn a_stamp_is_of_one_process() {
        let here = ForkStamp::here().unwrap();
        assert!(here.is_here() && ForkStamp::here().unwrap().is_here());
        assert_eq!(here.check(), Ok(()));
        assert!(in_child(|| here.check() == Err(ForkedChild)));
        assert!(here.is_here());
    }

    #[test]
    fn a_child_has_stamps_of_its_own_and_so_has_its_child() {
        let here = ForkStamp::here().unwrap();
        assert!(in_child(|| {
            let Ok(child) = ForkStamp::here() else { return false };
            let grandchild = in_child(|| {
                let both_gone = !child.is_here() && !here.is_here();
                let own = ForkStamp::here();
                both_gone && own.is_ok_and(|own| own.is_here()) && !child.is_here() && !here.is_here()
            });
            child.is_here() && !here.is_here() && grandchild
        }));
        assert!(here.is_here());
    }

    #[test]
    fn threads_of_one_process_have_the_same() {
        let stamps: Vec<ForkStamp> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| ForkStamp::here().unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(stamps.iter().all(|stamp| stamp.is_here() && stamp.value == stamps[0].value));
    }
}
