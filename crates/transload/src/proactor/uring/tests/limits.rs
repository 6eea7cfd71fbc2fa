use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::*;
use crate::proactor::error::ProactorError;

#[test]
fn several_pieces_get_a_slot_each_and_give_it_back() {
    let mut bench = Bench::new();
    let free = bench.backend.slots.free();
    let slab = slab(5, 4096);
    let slots = bench.backend.register(&slab, 2 * 4096).unwrap();
    assert_eq!((slots.len(), bench.backend.slots.free()), (3, free - 3));
    let more = bench.backend.register(&slab, 5 * 4096).unwrap();
    bench.backend.unregister(&slots);
    bench.backend.unregister(&more);
    assert_eq!(bench.backend.slots.free(), free);
}

#[test]
fn slots_need_not_be_neighbours_and_a_full_table_says_so() {
    let mut bench = Bench::new();
    let _out_of_use = bench.backend.slots.keep_only(5);
    let slab = slab(8, 4096);
    let one = || slab.clone();
    let first = bench.backend.register(&one(), 2 * 4096).unwrap();
    assert_eq!(bench.backend.slots.free(), 1);
    bench.backend.unregister(&[first[0], first[2]]);
    let second = bench.backend.register(&one(), 3 * 4096).unwrap();
    assert_eq!(second.len(), 3);
    let error = bench.backend.register(&one(), 4096).unwrap_err();
    assert!(error.contains("full: 8 slots needed, 0 of"), "{error}");
    bench.backend.unregister(&second);
    assert_eq!(bench.backend.slots.free(), 3);
}

#[test]
fn slots_that_the_kernel_keeps_are_used_no_more() {
    let mut bench = Bench::new();
    let slots = bench.backend.register(&slab(2, 4096), 4096).unwrap();
    let free = bench.backend.slots.free();
    // Behind its back, so that it will be refused.
    bench.backend.ring.remove_slots().unwrap();
    bench.backend.unregister(&slots);
    assert_eq!(bench.backend.slots.free(), free);
}

/// Set for the child that is told what to do.
const TASK: &str = "TRANSLOAD_URING_TEST_TASK";

/// Runs a test of this binary as a user without rights and with this limit, with a task; what it printed.
fn as_nobody(name: &str, memlock_bytes: u64, task: &str) -> Option<String> {
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    if !rustix::process::geteuid().is_root() || !has("setpriv") || !has("prlimit") {
        skip(name, "needs root, setpriv and prlimit (util-linux)");
        return None;
    }
    let folder = std::env::temp_dir().join(format!("transload-uring-{task}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let copy = folder.join("tests");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"])
        .args(["--bounding-set=-all", "prlimit", &format!("--memlock={memlock_bytes}:{memlock_bytes}")])
        .arg(&copy)
        .args(["--exact", name, "--nocapture"])
        .env(TASK, task)
        .env_remove("TRANSLOAD_SKIPS")
        .current_dir(&folder)
        .output();
    fs::remove_dir_all(&folder).unwrap();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{text}");
    Some(text)
}

fn task() -> Option<String> {
    std::env::var(TASK).ok()
}

/// Says that a test cannot run here.
fn skip(name: &str, why: &str) {
    let line = format!("SKIPPED {name}: {why}\n");
    print!("{line}");
    if let Some(path) = std::env::var_os("TRANSLOAD_SKIPS") {
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

const PARTIAL: &str =
    "proactor::uring::tests::limits::serial_a_slab_that_is_pinned_in_part_is_pinned_not_at_all";

#[test]
fn serial_a_slab_that_is_pinned_in_part_is_pinned_not_at_all() {
    if task().is_none() {
        if let Some(text) = as_nobody(PARTIAL, 256 << 10, "partial") {
            assert!(text.contains("done: partial"), "{text}");
        }
        return;
    }
    let mut bench = Bench::with(8, Capabilities::ALL);
    let free = bench.backend.slots.free();
    let pinned = || crate::memory::MemlockLimit::current().pinned_bytes;
    let before = pinned();
    // 16 pieces of 32 KiB: some fit.
    let large = slab(16, 32 << 10);
    let error = bench.backend.register(&large, 32 << 10).unwrap_err();
    for part in
        ["524288 bytes (512 KiB) needed", "262144 bytes (256 KiB) (soft)", "not held", "ulimit -l", "systemd"]
    {
        assert!(error.contains(part), "{part} in {error}");
    }
    assert_eq!(bench.backend.slots.free(), free);
    assert_eq!(pinned(), before);
    // Nothing is left over: what fits still fits, again and again.
    for _ in 0..3 {
        let small = slab(1, 128 << 10);
        let slots = bench.backend.register(&small, 128 << 10).unwrap();
        bench.backend.unregister(&slots);
    }
    println!("done: partial");
}

const SMALL: &str = "proactor::uring::tests::limits::serial_a_ring_beyond_the_limit_says_what_to_do";

#[test]
fn serial_a_ring_beyond_the_limit_says_what_to_do() {
    if task().is_none() {
        if let Some(text) = as_nobody(SMALL, 64 << 10, "small") {
            assert!(text.contains("done: small"), "{text}");
        }
        return;
    }
    let error = UringBackend::open(4096, Capabilities::ALL).unwrap_err();
    let ProactorError::NoMemory { call: "io_uring_setup", limits } = &error else { panic!("{error}") };
    assert!(limits.contains("65536 bytes (64 KiB) (soft)"), "{error}");
    // A smaller one works; a ring of buffers beyond the limit leaves the pool usable.
    let mut bench = Bench::with(8, Capabilities::ALL);
    let pool = pool(1 << 14, 16);
    bench.backend.add_pool(0, &pool).unwrap();
    assert!(bench.backend.groups.of(0).unwrap().ring.is_none());
    let (socket, mut peer) = unix_pair();
    let key = bench.start(Attempt::ReceiveMany { socket: &socket, group: 0 });
    peer.write_all(b"abc").unwrap();
    let completion = bench.next(key);
    assert!(matches!(&completion.event, Event::Data(lease) if &lease[..] == b"abc"), "{completion:?}");
    drop((bench, completion));
    // The budget of a closed ring comes back late; opening waits for it.
    for _ in 0..5 {
        Bench::with(256, Capabilities::ALL);
    }
    println!("done: small");
}
