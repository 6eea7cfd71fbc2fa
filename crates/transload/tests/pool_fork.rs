//! The pool and fork: the child does not have the memory, and whatever it drops harms the parent's pool not at all.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod forking;
mod pool_kit;

use forking::fork;
use pool_kit::pool;

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
