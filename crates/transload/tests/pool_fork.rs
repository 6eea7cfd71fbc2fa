//! The pool and fork: the child does not have the memory, and whatever it drops harms the parent's pool not at all.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod pool_kit;

use pool_kit::pool;
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

/// Runs `child` in a fork, for at most 20 seconds; how it ended.
fn fork(child: impl FnOnce()) -> WaitStatus {
    // SAFETY: the child calls only `child`, which takes no lock that another thread may hold, and `_exit`.
    let id = unsafe { libc::fork() };
    if id == 0 {
        // SAFETY: sets a timer that ends this process.
        unsafe { libc::alarm(20) };
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).map_or(101, |()| 0);
        // SAFETY: ends this process without running what belongs to the parent.
        unsafe { libc::_exit(code) };
    }
    let id = Pid::from_raw(id).expect("fork");
    waitpid(Some(id), WaitOptions::empty()).expect("waitpid").expect("ended").1
}

#[test]
fn a_child_that_drops_everything_leaves_the_parent_alone() {
    let pool = pool(4, 8);
    let mut handle = pool.handle();
    let mut lease = pool.try_acquire().unwrap();
    lease.copy_from_slice(b"parent's");
    let raw = handle.try_acquire().unwrap().into_raw();
    let mut owned = Some((pool, handle, lease));
    let status = fork(|| {
        let (pool, handle, lease) = owned.take().unwrap();
        pool.release_raw(raw).unwrap();
        drop(lease);
        pool.close();
        drop((handle, pool));
    });
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
    let (pool, mut handle, lease) = owned.unwrap();
    assert_eq!((&*lease, pool.available(), pool.is_closed()), (&b"parent's"[..], 2, false));
    pool.release_raw(raw).unwrap();
    drop(lease);
    let leases: Vec<_> = std::iter::from_fn(|| handle.try_acquire().ok()).collect();
    assert_eq!(leases.len(), 4);
}
