//! Huge pages for a test.
#![allow(clippy::print_stderr, reason = "a test that cannot run says so")]

use std::fs::{self, File};

use transload::memory::HugePagePool;

/// Pages of 2 MiB added to the pool, and taken away again at the end. Only one test of a machine has them at a time.
pub(crate) struct Reserved {
    before: u64,
    _lock: File,
}

pub(crate) const NR_HUGEPAGES: &str = "/proc/sys/vm/nr_hugepages";

/// The pool of 2 MiB pages, with `pages` usable. `None`, with a line that says so, where that cannot be arranged.
pub(crate) fn reserve(test: &str, pages: u64) -> Option<Reserved> {
    let skip = |why: &str| eprintln!("SKIPPED {test}: {why}");
    let Some(pool) = two_mib_pool() else {
        skip("no huge pages of 2 MiB");
        return None;
    };
    if !rustix::process::geteuid().is_root() || !pool.is_default {
        skip("only root may reserve huge pages");
        return None;
    }
    let path = std::env::temp_dir().join("transload-huge-pages.lock");
    let lock = File::create(path).expect("lock file");
    lock.lock().expect("lock");
    let reserved = Reserved { before: two_mib_pool().expect("as above").total_pages, _lock: lock };
    let command = two_mib_pool().expect("as above").reserve_command(pages);
    let wanted = command.strip_prefix("echo ").and_then(|rest| rest.split(' ').next()).expect("a number");
    if fs::write(NR_HUGEPAGES, wanted).is_err() || two_mib_pool().expect("as above").usable_pages() < pages {
        skip("the system does not give huge pages");
        return None;
    }
    Some(reserved)
}

impl Drop for Reserved {
    fn drop(&mut self) {
        fs::write(NR_HUGEPAGES, self.before.to_string()).expect("the pool is as it was");
    }
}

pub(crate) fn two_mib_pool() -> Option<HugePagePool> {
    HugePagePool::all().into_iter().find(|pool| pool.page_bytes == 2 << 20)
}
