//! Slabs from outside: what is asked for, what the kernel says was obtained, and what stays behind.
#![cfg(target_os = "linux")]

mod forking;
mod reserving;
mod unprivileged;

use std::{
    fs,
    process::Command,
    ptr::NonNull,
    sync::{Arc, Mutex},
};

use forking::fork;
use reserving::{NR_HUGEPAGES, reserve, two_mib_pool};
use transload::memory::{
    HugePagePool, Lock, LockRefusal, MemlockLimit, Policy, Slab, SlabError, Source, Topology,
    TransparentMode, available_memory_bytes,
};
use unprivileged::Nobody;

const GRAIN: usize = 65_536;
const MIB: usize = 1 << 20;

/// One mapping, as `/proc/self/smaps` tells it.
#[derive(Debug, Default)]
struct Seen {
    flags: Vec<String>,
    rss_bytes: usize,
    huge_bytes: usize,
}

/// The mapping that starts at `address`, if there is one.
fn seen_at(address: usize) -> Option<Seen> {
    let smaps = fs::read_to_string("/proc/self/smaps").expect("smaps");
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&format!("{address:x}-"))).peekable();
    lines.next()?;
    let mut seen = Seen::default();
    for line in lines {
        let kib = |rest: &str| rest.trim().trim_end_matches(" kB").parse::<usize>().expect("kB") * 1024;
        if let Some(rest) = line.strip_prefix("Rss:") {
            seen.rss_bytes = kib(rest);
        } else if let Some(rest) = line.strip_prefix("AnonHugePages:") {
            seen.huge_bytes = kib(rest);
        } else if let Some(rest) = line.strip_prefix("VmFlags:") {
            seen.flags = rest.split_whitespace().map(str::to_owned).collect();
            break;
        }
    }
    Some(seen)
}

fn seen(slab: &Slab) -> Seen {
    seen_at(slab.as_ptr().addr()).expect("a slab is one mapping of its own")
}

fn has(seen: &Seen, flag: &str) -> bool {
    seen.flags.iter().any(|other| other == flag)
}

/// Counts the warnings of one thread.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::field::Visit for Warnings {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "fallbacks" {
            self.0.lock().expect("not poisoned").push(format!("{value:?}"));
        }
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// What `body` returns, and the fallbacks of each warning that it logged.
fn with_warnings<T>(body: impl FnOnce() -> T) -> (T, Vec<String>) {
    let warnings = Warnings::default();
    let result = tracing::subscriber::with_default(warnings.clone(), body);
    let logged = warnings.0.lock().expect("not poisoned").clone();
    (result, logged)
}

#[test]
fn any_sizes_are_whole_aligned_and_zero() {
    for (count, size) in [(1, 1), (2, 3), (4096, 256), (1, GRAIN), (1, GRAIN + 1), (7, 100_003), (GRAIN, 1)] {
        let slab = Slab::new(count, size).unwrap();
        assert_eq!((slab.buffer_count(), slab.buffer_size()), (count, size));
        assert_eq!(slab.len_bytes(), count * size);
        assert_eq!(slab.mapped_bytes(), (count * size).next_multiple_of(GRAIN));
        assert_eq!(slab.as_ptr().addr() % GRAIN, 0);
        for offset in 0..slab.mapped_bytes() {
            // SAFETY: below `mapped_bytes`, and this test holds the only handle (I1).
            let byte = unsafe { &mut *slab.as_ptr().wrapping_add(offset) };
            assert_eq!(*byte, 0);
            *byte = 0xA5;
        }
    }
}

#[test]
fn sizes_that_make_no_slab_are_typed_errors_with_numbers() {
    for (count, size) in [(0, 1), (1, 0), (0, 0), (0, usize::MAX)] {
        let error = Slab::new(count, size).unwrap_err();
        assert!(matches!(error, SlabError::ZeroSize { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("{count} buffers of {size} bytes")), "{error}");
    }
    for (count, size) in
        [(usize::MAX, 2), (2, usize::MAX), (1, usize::MAX), (1 << 32, 1 << 32), (1, usize::MAX / 2)]
    {
        let error = Slab::new(count, size).unwrap_err();
        assert!(matches!(error, SlabError::TooLarge { .. }), "{error:?}");
        assert!(error.to_string().contains(&count.to_string()), "{error}");
        assert!(error.to_string().contains(&size.to_string()), "{error}");
    }
    // Fits an address, but no memory: with and without touching, on every kind of pages.
    for shift in [40, 46, 50, 62] {
        let builder = || Slab::builder(1, 1 << shift).lock(Policy::Never);
        let result = builder().build();
        let Err(error @ SlabError::OutOfMemory { .. }) = result else { panic!("2^{shift}: {result:?}") };
        assert!(error.to_string().starts_with(&format!("{} bytes wanted, ", 1usize << shift)), "{error}");
        assert!(builder().pages_1g(Policy::Require).build().is_err());
        assert!(builder().pages_2m(Policy::Prefer).transparent_pages(Policy::Prefer).build().is_err());
    }
    let result = Slab::builder(1, 1 << 62).prefault(false).lock(Policy::Never).build();
    assert!(matches!(result, Err(SlabError::OutOfMemory { .. })), "{result:?}");
}

#[test]
fn defaults_are_ordinary_touched_pages_kept_out_of_children() {
    let (slab, warnings) = with_warnings(|| Slab::new(100, 5000).unwrap());
    let (placement, seen) = (slab.placement(), seen(&slab));
    assert_eq!(placement.page_bytes, rustix::param::page_size());
    assert_eq!(placement.source, Source::Allocated);
    assert!(!placement.transparent);
    assert_eq!(seen.rss_bytes, slab.mapped_bytes());
    assert!(has(&seen, "dc") && has(&seen, "nh"), "{seen:?}");
    assert_eq!(has(&seen, "lo"), placement.lock.is_locked());
    // 512 KiB are within the limit of any system that was not made narrow on purpose.
    assert_eq!(warnings.len(), usize::from(!placement.lock.is_locked()));
    if let Ok(topology) = Topology::of_system() {
        assert!(placement.numa_node.is_none_or(|node| topology.nodes_with_memory().contains(&node)));
        assert!(topology.nodes.len() > 1 || placement.numa_node.is_some(), "one node, and no answer which");
    }
}

#[test]
fn lock_never_locks_nothing() {
    let slab = Slab::builder(1, MIB).lock(Policy::Never).build().unwrap();
    assert_eq!(slab.placement().lock, Lock::NotAsked);
    assert!(!has(&seen(&slab), "lo"));
}

#[test]
fn lock_required_within_the_limit_locks() {
    let slab = Slab::builder(1, GRAIN).lock(Policy::Require).build().unwrap();
    assert_eq!(slab.placement().lock, Lock::Locked);
    assert!(has(&seen(&slab), "lo"));
}

#[test]
fn without_prefault_nothing_is_touched() {
    for (lock, flag) in [(Policy::Never, false), (Policy::Require, true)] {
        let slab = Slab::builder(1, GRAIN).prefault(false).lock(lock).build().unwrap();
        let seen = seen(&slab);
        assert_eq!(seen.rss_bytes, 0, "{lock:?}");
        assert_eq!(has(&seen, "lo"), flag, "{lock:?}");
        assert_eq!(slab.placement().numa_node, None);
    }
}

#[test]
fn transparent_pages_are_there_or_the_error_says_why_not() {
    let build = |policy| Slab::builder(3, 2 * MIB).transparent_pages(policy).prefault(false).build();
    match build(Policy::Require) {
        Ok(slab) => {
            assert!(slab.placement().transparent);
            assert_eq!(slab.as_ptr().addr() % (2 * MIB), 0);
            let seen = seen(&slab);
            assert!(has(&seen, "hg") && !has(&seen, "nh"), "{seen:?}");
            assert_eq!(seen.huge_bytes, 6 * MIB);
            assert_eq!(slab.placement().page_bytes, rustix::param::page_size());
        }
        Err(error) => {
            let SlabError::NoTransparentPages { wanted_bytes, .. } = error else { panic!("{error:?}") };
            assert_eq!(wanted_bytes, 6 * MIB);
            assert!(error.to_string().contains("6291456 bytes of transparent huge pages wanted"), "{error}");
            eprintln!("SKIPPED part of transparent_pages: mode {}", TransparentMode::current().name());
        }
    }
    // Not touched, so not known, and no reason to warn.
    let (slab, warnings) = with_warnings(|| build(Policy::Prefer).unwrap());
    assert!(!slab.placement().transparent && warnings.is_empty(), "{warnings:?}");
}

#[test]
fn a_slab_that_holds_no_huge_page_cannot_have_one() {
    let build = |policy| Slab::builder(1, MIB).transparent_pages(policy).lock(Policy::Never).build();
    let error = build(Policy::Require).unwrap_err();
    assert!(matches!(error, SlabError::TooSmallForTransparent { len_bytes: MIB, .. }), "{error:?}");
    let (slab, warnings) = with_warnings(|| build(Policy::Prefer).unwrap());
    assert!(!slab.placement().transparent);
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("1048576 bytes"), "{warnings:?}");
}

#[test]
fn huge_pages_of_the_pool_come_and_go() {
    let Some(_reserved) = reserve("huge_pages_of_the_pool_come_and_go", 4) else { return };
    let free = || two_mib_pool().unwrap().usable_pages();
    let before = free();
    for policy in [Policy::Require, Policy::Prefer] {
        let build = || Slab::builder(3, MIB).pages_2m(policy).numa_node(0).prefault(false).build().unwrap();
        let (slab, warnings) = with_warnings(build);
        assert_eq!(slab.placement().page_bytes, 2 * MIB);
        assert_eq!(slab.placement().numa_node, Some(0));
        assert_eq!(slab.placement().lock, Lock::Locked);
        assert_eq!(slab.mapped_bytes(), 4 * MIB);
        assert!(has(&seen(&slab), "ht") && has(&seen(&slab), "dc"));
        assert_eq!(free(), before - 2);
        assert!(warnings.is_empty(), "{warnings:?}");
        drop(slab);
        assert_eq!(free(), before);
    }
}

#[test]
fn huge_pages_not_to_be_had() {
    let Some(_reserved) = reserve("huge_pages_not_to_be_had", 2) else { return };
    let pool = two_mib_pool().unwrap();
    let wanted = pool.usable_pages() + 3;
    let build = |policy| {
        let size = 2 * MIB * usize::try_from(wanted).unwrap();
        Slab::builder(1, size).pages_2m(policy).lock(Policy::Never)
    };
    for (on_node, place) in [(false, NR_HUGEPAGES), (true, "node0/hugepages/hugepages-2048kB/nr_hugepages")] {
        let builder = build(Policy::Require);
        let error = if on_node { builder.numa_node(0) } else { builder }.build().unwrap_err();
        let text = error.to_string();
        let SlabError::NoHugePages { wanted_pages, pool: Some(seen), .. } = error else { panic!("{text}") };
        assert_eq!((wanted_pages as u64, seen.usable_pages()), (wanted, pool.usable_pages()));
        assert!(text.starts_with(&format!("{wanted} huge pages of 2048 KiB wanted, ")), "{text}");
        assert!(
            text.contains(&format!("echo {} > ", pool.total_pages + 3)) && text.ends_with(place),
            "{text}"
        );
    }
    let (slab, warnings) = with_warnings(|| build(Policy::Prefer).build().unwrap());
    assert_eq!(slab.placement().page_bytes, rustix::param::page_size());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("huge pages of 2048 KiB wanted"), "{warnings:?}");
    assert_eq!(two_mib_pool().unwrap(), pool);
}

#[test]
fn several_preferences_fall_back_with_one_warning() {
    let build =
        || Slab::builder(1, 3 * GRAIN).pages_1g(Policy::Prefer).transparent_pages(Policy::Prefer).build();
    if HugePagePool::all().iter().any(|pool| pool.page_bytes == 1 << 30 && pool.usable_pages() > 0) {
        eprintln!("SKIPPED several_preferences_fall_back_with_one_warning: there are pages of 1 GiB");
        return;
    }
    let (slab, warnings) = with_warnings(|| build().unwrap());
    assert_eq!(slab.placement().page_bytes, rustix::param::page_size());
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].contains("1048576 KiB") && warnings[0].contains("holds no transparent"),
        "{warnings:?}"
    );
}

#[test]
fn two_kinds_of_pages_cannot_both_be_required() {
    let error =
        Slab::builder(1, 1).pages_2m(Policy::Require).transparent_pages(Policy::Require).build().unwrap_err();
    assert!(matches!(error, SlabError::ConflictingPages { .. }));
    assert!(error.to_string().contains("2 MiB and transparent huge pages"), "{error}");
}

#[test]
fn nodes_that_exist_are_used_and_others_named() {
    let Ok(topology) = Topology::of_system() else {
        eprintln!("SKIPPED nodes_that_exist_are_used_and_others_named: the kernel lists no nodes");
        return;
    };
    let known = topology.nodes_with_memory();
    for node in &known {
        let slab = Slab::builder(1, MIB).numa_node(*node).build().unwrap();
        assert_eq!(slab.placement().numa_node, Some(*node));
    }
    let unknown = known.iter().max().unwrap() + 7;
    for node in [unknown, 1023, 1024, u32::MAX] {
        let error = Slab::builder(1, 1).numa_node(node).build().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, SlabError::UnknownNode { known: listed, .. } if listed == known));
        assert!(text.contains(&format!("node {node} ")) && text.contains(&known[0].to_string()), "{text}");
    }
}

#[test]
fn the_memory_lives_as_long_as_any_handle() {
    let slab = Slab::new(4, 1024).unwrap();
    let address = slab.as_ptr().addr();
    let other = slab.clone();
    assert!(slab.same_memory(&other));
    assert!(!slab.same_memory(&Slab::new(4, 1024).unwrap()));
    drop(slab);
    let other = std::thread::spawn(move || {
        // SAFETY: in bounds, and this is the only handle (I1).
        unsafe { other.as_ptr().write_volatile(7) };
        other
    })
    .join()
    .unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { other.as_ptr().read_volatile() }, 7);
    drop(other);
    assert!(seen_at(address).is_none());
}

#[test]
fn wrapped_memory_is_used_as_it_is_and_left_there() {
    let mut bytes = vec![3u8; 1000];
    let base = NonNull::new(&raw mut bytes[1]).unwrap().cast::<u8>();
    // SAFETY: initialised, in one allocation, and not used otherwise before the slab ends.
    let slab = unsafe { Slab::wrap(base, 3, 333) }.unwrap();
    assert_eq!((slab.as_ptr(), slab.len_bytes(), slab.mapped_bytes()), (base.as_ptr(), 999, 999));
    assert_eq!((slab.placement().source, &slab.placement().lock), (Source::Wrapped, &Lock::NotAsked));
    // SAFETY: the last byte of the slab, which this test alone uses.
    unsafe { slab.as_ptr().wrapping_add(998).write(9) };
    drop(slab);
    assert_eq!((bytes[1], bytes[999]), (3, 9));

    // SAFETY: refused before anything is done with the memory.
    let wrap = |base, count, size| unsafe { Slab::wrap(base, count, size) };
    assert!(matches!(wrap(base, 0, 1), Err(SlabError::ZeroSize { .. })));
    assert!(matches!(wrap(base, usize::MAX, 3), Err(SlabError::TooLarge { .. })));
    let high = NonNull::without_provenance(usize::MAX.try_into().unwrap());
    let error = wrap(high, 1, 2).unwrap_err();
    assert!(matches!(error, SlabError::BeyondAddressSpace { len_bytes: 2, .. }), "{error}");
}

/// Tells in a list that it was dropped.
struct Tells(Arc<Mutex<Vec<&'static str>>>, &'static str);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.lock().expect("not poisoned").push(self.1);
    }
}

#[test]
fn an_owner_goes_after_the_last_handle_and_at_once_on_failure() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut bytes = vec![0u8; 64];
    let base = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: initialised, outlives the slab, not used otherwise.
    let make = |count, name| unsafe { Slab::from_owner(base, count, 8, Box::new(Tells(told.clone(), name))) };
    let slab = make(8, "owner").unwrap();
    assert_eq!(slab.placement().source, Source::Owned);
    let other = slab.clone();
    drop(slab);
    told.lock().unwrap().push("first handle");
    drop(other);
    assert!(make(0, "refused").is_err());
    assert_eq!(*told.lock().unwrap(), ["first handle", "owner", "refused"]);
}

#[test]
fn a_forked_child_does_not_have_the_memory() {
    let slab = Slab::new(1, GRAIN).unwrap();
    // SAFETY: in bounds; this test holds the only handle. In the child nothing is mapped there, which ends it.
    let read = || unsafe { slab.as_ptr().read_volatile() };
    assert_eq!(read(), 0);
    let status = fork(|| {
        read();
    });
    assert_eq!(status.terminating_signal(), Some(libc::SIGSEGV), "{status:?}");
    assert_eq!(read(), 0);
}

/// Ends the process that drops it.
struct Fatal;

impl Drop for Fatal {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(9) };
        }
    }
}

#[test]
fn a_forked_child_that_drops_its_handles_harms_nothing() {
    let slab = Slab::new(1, GRAIN).unwrap();
    let address = slab.as_ptr();
    let mut slab = Some(slab);
    let status = fork(|| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: replaces nothing (MAP_FIXED_NOREPLACE).
        let mine =
            unsafe { libc::mmap(address.cast(), GRAIN, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if mine != address.cast() {
            // SAFETY: ends the child.
            unsafe { libc::_exit(8) };
        }
        drop(slab.take());
        // SAFETY: mapped above, unless dropping the parent's slab has unmapped it, which would end the child.
        unsafe { address.write_volatile(1) };
    });
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
    assert!(slab.is_some(), "the parent's handle");
    assert_eq!(seen(slab.as_ref().unwrap()).rss_bytes, GRAIN);

    let mut bytes = vec![0u8; 8];
    let base = NonNull::new(bytes.as_mut_ptr()).unwrap();
    // SAFETY: initialised, outlives the slab, not used otherwise.
    let owned = unsafe { Slab::from_owner(base, 1, 8, Box::new(Fatal)) }.unwrap();
    let mut owned = Some(owned);
    let status = fork(|| drop(owned.take()));
    assert_eq!(status.exit_status(), Some(0), "the child dropped the parent's owner: {status:?}");
    // This process is to end by the test's result, not by its owner.
    let _kept = std::mem::ManuallyDrop::new(owned);
}

const NARROW: &str = "TRANSLOAD_TEST_NARROW";

/// As nobody, with a limit of 64 KiB: as root any amount can be locked, so a test as root would prove nothing.
#[test]
fn a_narrow_memlock_limit_is_told_in_numbers() {
    const NAME: &str = "a_narrow_memlock_limit_is_told_in_numbers";
    if std::env::var_os(NARROW).is_some() {
        return narrow_memlock_limit();
    }
    let Some(mut nobody) = Nobody::running(NAME, &["prlimit", "--memlock=65536:65536"]) else { return };
    nobody.command.env(NARROW, "1");
    nobody.succeeds();
}

fn narrow_memlock_limit() {
    let limit = MemlockLimit::current();
    assert_eq!((limit.soft, limit.hard, limit.exempt), (Some(65_536), Some(65_536), false));
    let expected = LockRefusal { need: 131_072, soft: Some(65_536), hard: Some(65_536) };
    let build = |policy, count| Slab::builder(count, GRAIN).lock(policy).build();

    let error = build(Policy::Require, 2).expect_err("more than the limit");
    let text = error.to_string();
    assert!(matches!(error, SlabError::LockRefused(refusal) if refusal == expected), "{text}");
    for part in ["131072 bytes", "soft 65536", "hard 65536", "`ulimit -l 128`", "LimitMEMLOCK=128K"] {
        assert!(text.contains(part), "{part}: {text}");
    }

    let (slab, warnings) = with_warnings(|| build(Policy::Prefer, 2).expect("falls back"));
    assert_eq!(slab.placement().lock, Lock::Refused(expected));
    assert_eq!(warnings, [text]);
    assert_eq!(MemlockLimit::current().locked_bytes, 0);

    // Exactly the limit is allowed; then nothing is left; then it is given back.
    let whole = build(Policy::Require, 1).expect("within the limit");
    assert_eq!(MemlockLimit::current().locked_bytes, 65_536);
    assert!(!MemlockLimit::current().allows(1));
    let error = build(Policy::Require, 1).expect_err("more than the limit");
    assert!(matches!(error, SlabError::LockRefused(refusal) if refusal == expected), "{error}");
    drop(whole);
    assert!(build(Policy::Require, 1).is_ok());
}

/// One exact region: no rounding to powers of two, no second copy. In a process of its own, whose growth is the slab's.
#[test]
fn a_large_slab_takes_what_it_says_and_no_more() {
    const LEN: usize = 1_127 * MIB;
    const CHILD: &str = "TRANSLOAD_TEST_LARGE";
    if std::env::var_os(CHILD).is_none() {
        let status = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_large_slab_takes_what_it_says_and_no_more",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CHILD, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    if available_memory_bytes().is_some_and(|bytes| bytes < 2 * LEN as u64) {
        eprintln!(
            "SKIPPED a_large_slab_takes_what_it_says_and_no_more: less than 2.3 GiB of memory available"
        );
        return;
    }
    let resident = || {
        let status = fs::read_to_string("/proc/self/status").expect("status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS").to_owned();
        line.split_whitespace().nth(1).expect("kB").parse::<usize>().expect("kB") * 1024
    };
    let before = resident();
    let start = std::time::Instant::now();
    let slab = Slab::builder(1_127, MIB).build().unwrap();
    let grown = resident() - before;
    eprintln!("{} MiB resident after {:?}", grown / MIB, start.elapsed());
    assert!((LEN..=LEN + 50 * MIB).contains(&grown), "{} MiB", grown / MIB);
    assert_eq!(slab.mapped_bytes(), LEN);
}
