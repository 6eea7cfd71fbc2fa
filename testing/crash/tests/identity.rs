//! Who is who: numbers that are used again, namespaces, children, and those who stand still.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use transload::shared::{SharedAcquireError, SharedPool, SharedRegion};
use transload_conformance::skip::skip;
use transload_conformance::watchdog::until;
use transload_crash::holder::{HELD, HOLDER_ID, Holder, drain};

const VICTIM: &str = env!("CARGO_BIN_EXE_victim");
const BUFFERS: usize = 6;

fn pool() -> SharedPool {
    let region = SharedRegion::builder(BUFFERS, 64).members(4).create().unwrap();
    SharedPool::join(&region, "test").unwrap()
}

fn holder(pool: &SharedPool) -> Holder {
    Holder::start(Command::new(VICTIM), "hold", pool.region())
}

/// Nobody gets what holders have, and all else is there, once.
fn nothing_is_given_out_twice(pool: &SharedPool, holders: usize) {
    assert!(pool.recover().is_empty());
    let pending = pool.ring().len();
    let mut leases = Vec::new();
    while let Ok(lease) = pool.try_acquire() {
        leases.push(lease);
    }
    assert_eq!(leases.len(), BUFFERS - holders * HELD - pending);
    // Whoever waits looks for the dead.
    let error = pool.acquire_timeout(Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, SharedAcquireError::Exhausted), "{error}");
}

fn all_is_free(pool: &SharedPool) {
    assert_eq!(pool.statistics().free, BUFFERS, "{:?}", pool.holders());
}

#[test]
fn who_stands_still_keeps_what_it_has() {
    let pool = pool();
    let holder = holder(&pool);
    let pid = Pid::from_raw(holder.pid().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    nothing_is_given_out_twice(&pool, 1);
    assert_eq!(drain(&pool), Ok(vec![HOLDER_ID]));
    nothing_is_given_out_twice(&pool, 1);
    kill_process(pid, Signal::CONT).unwrap();
    assert!(holder.end());
    assert!(pool.recover().is_empty());
    all_is_free(&pool);
}

#[test]
fn a_child_that_outlives_its_parent_keeps_what_that_had() {
    let pool = pool();
    let holder = Holder::start(Command::new(VICTIM), "hold-and-fork", pool.region());
    let orphan = holder.kill();
    nothing_is_given_out_twice(&pool, 1);
    assert!(pool.holders().iter().any(|holder| holder.name == "holder" && holder.alive));
    assert_eq!(drain(&pool), Ok(vec![HOLDER_ID]));
    nothing_is_given_out_twice(&pool, 1);
    // It ends when there is nothing to read any more.
    drop(orphan);
    let mut freed = 0;
    assert!(until(|| {
        freed += pool.recover().freed;
        freed > 0
    }));
    assert_eq!(freed, HELD as u64);
    all_is_free(&pool);
}

#[test]
fn a_number_that_is_used_again_is_nobody() {
    if !geteuid().is_root() {
        return skip("a_number_that_is_used_again_is_nobody", "only root chooses the number of a process");
    }
    let pool = pool();
    for round in 0..3 {
        let holder = holder(&pool);
        let pid = holder.pid();
        drop(holder.kill());
        // The next process gets the number that follows, unless another is faster.
        let reused = (0..200).find_map(|_| {
            std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
            let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().ok()?;
            if other.id() == pid {
                return Some(other);
            }
            other.kill().and_then(|()| other.wait()).ok()?;
            None
        });
        let Some(mut reused) = reused else {
            return skip("a_number_that_is_used_again_is_nobody", "the number of the dead is not to be had");
        };
        let dead = pool.holders().into_iter().find(|holder| holder.pid == pid).unwrap();
        assert!(!dead.alive && dead.owned == HELD, "{dead:?}");
        assert_eq!(pool.recover().freed, HELD as u64, "round {round}");
        assert_eq!(drain(&pool), Ok(vec![HOLDER_ID]));
        all_is_free(&pool);
        reused.kill().and_then(|()| reused.wait()).unwrap();
    }
}

/// A command that runs what follows as process 1 of a namespace of its own.
fn in_a_namespace() -> Option<Command> {
    let ways: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];
    let command = |way: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(way).args(["--pid", "--fork", "--kill-child"]);
        command
    };
    let works =
        |way: &&&[&str]| command(way).arg("true").stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    ways.iter().find(works).map(|way| command(way))
}

#[test]
fn members_of_other_namespaces_have_the_same_number_and_are_not_mistaken() {
    let Some(_) = in_a_namespace() else {
        let name = "members_of_other_namespaces_have_the_same_number_and_are_not_mistaken";
        return skip(name, "no namespace of processes may be made");
    };
    let pool = pool();
    let start = || {
        let mut command = in_a_namespace().unwrap();
        command.arg(VICTIM);
        Holder::start(command, "hold", pool.region())
    };
    let (one, other) = (start(), start());
    let holders = pool.holders();
    assert_eq!(holders.iter().filter(|holder| holder.alive && holder.pid == 1).count(), 2, "{holders:?}");
    nothing_is_given_out_twice(&pool, 2);
    let gone = one.kill();
    let mut freed = 0;
    assert!(until(|| {
        freed += pool.recover().freed;
        freed > 0
    }));
    assert_eq!(freed, HELD as u64);
    drop(gone);
    nothing_is_given_out_twice(&pool, 1);
    assert_eq!(drain(&pool), Ok(vec![HOLDER_ID; 2]));
    // Process 1 once more, by the number of the dead member.
    let third = start();
    nothing_is_given_out_twice(&pool, 2);
    assert!(third.end() && other.end());
    assert_eq!(drain(&pool), Ok(vec![HOLDER_ID]));
    all_is_free(&pool);
}
