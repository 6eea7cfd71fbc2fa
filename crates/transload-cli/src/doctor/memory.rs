//! Memory: nodes, huge pages, locking, sharing, and whether a slab can be made at all.

use transload::memory::{HugePagePool, Lock, MemlockLimit, Slab, Topology, TransparentMode};

use super::check::{Check, Status, as_root, human_bytes};

/// Bytes of the slab that `transload pump` makes when it is told nothing: 16384 slots of 256 bytes.
const DEFAULT_SLAB_BYTES: u64 = 16_384 * 256;

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![numa()];
    checks.extend(huge_pages(&HugePagePool::all()));
    checks.push(transparent(TransparentMode::current()));
    checks.push(memlock(&MemlockLimit::current()));
    checks.push(slab());
    checks.push(shared_memory());
    checks
}

fn numa() -> Check {
    let topology = match Topology::of_system() {
        Ok(topology) => topology,
        Err(error) => {
            return Check::new("numa", Status::Absent, "no nodes listed")
                .detail(format!("placement does not apply ({error})"));
        }
    };
    let nodes: Vec<String> = topology
        .nodes
        .iter()
        .map(|node| {
            format!("node {} ({} cores, {})", node.id, node.cpus.len(), human_bytes(node.memory_bytes))
        })
        .collect();
    let check = Check::new("numa", Status::Ok, nodes.join(", "));
    if nodes.len() == 1 { check.detail("one node: placement does not apply") } else { check }
}

/// One check for each size of pages; one in all where the kernel has none.
fn huge_pages(pools: &[HugePagePool]) -> Vec<Check> {
    if pools.is_empty() {
        return vec![
            Check::new("huge_pages", Status::Absent, "none").detail("the kernel was built without hugetlb"),
        ];
    }
    pools.iter().map(huge_page_pool).collect()
}

fn huge_page_pool(pool: &HugePagePool) -> Check {
    let name = match pool.page_bytes {
        bytes if bytes >= 1 << 30 => format!("huge_pages_{}g", bytes >> 30),
        bytes if bytes >= 1 << 20 => format!("huge_pages_{}m", bytes >> 20),
        bytes => format!("huge_pages_{}k", bytes >> 10),
    };
    let usable = pool.usable_pages();
    let value = format!("{} reserved, {usable} free", pool.total_pages);
    if usable > 0 {
        let bytes = usable.saturating_mul(pool.page_bytes as u64);
        return Check::new(name, Status::Ok, value).detail(format!("slabs of up to {}", human_bytes(bytes)));
    }
    // Enough for a slab worth having them: 64 MiB, or one page if that is more.
    let pages = ((64 << 20) / pool.page_bytes as u64).max(1);
    let (status, detail) = match pool.total_pages {
        0 => (Status::Absent, "slabs are made of smaller pages"),
        _ => (Status::Warn, "all are in use"),
    };
    Check::new(name, status, value).detail(detail).fix(as_root(&pool.reserve_command(pages)))
}

fn transparent(mode: TransparentMode) -> Check {
    const NAME: &str = "transparent_huge_pages";
    let value = mode.name();
    match mode {
        TransparentMode::Always | TransparentMode::Madvise => Check::new(NAME, Status::Ok, value),
        TransparentMode::Never => Check::new(NAME, Status::Warn, value)
            .detail("no slab can have them")
            .fix(as_root("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")),
        _ => Check::new(NAME, Status::Absent, value).detail("the kernel was built without them"),
    }
}

fn memlock(limit: &MemlockLimit) -> Check {
    let bytes = |limit: Option<u64>| limit.map_or("unlimited".into(), |bytes| format!("{bytes} bytes"));
    let value = format!(
        "soft {}, hard {}, used {} bytes, CAP_IPC_LOCK {}",
        bytes(limit.soft),
        bytes(limit.hard),
        limit.locked_bytes.max(limit.pinned_bytes),
        if limit.exempt { "yes" } else { "no" }
    );
    if limit.exempt {
        return Check::new("memlock", Status::Ok, value).detail("the limit does not apply to this user");
    }
    let Some(soft) = limit.soft else { return Check::new("memlock", Status::Ok, value) };
    if limit.allows(DEFAULT_SLAB_BYTES) {
        let detail = format!("slabs above {} are made without page-lock", human_bytes(soft));
        return Check::new("memlock", Status::Ok, value).detail(detail);
    }
    let need = limit.locked_bytes.saturating_add(DEFAULT_SLAB_BYTES);
    let kib = need.div_ceil(1024);
    Check::new("memlock", Status::Warn, value)
        .detail(format!(
            "the default slab needs {need} bytes and is made without page-lock; \
             in a systemd unit set LimitMEMLOCK={kib}K, for a container --ulimit memlock={need}"
        ))
        .fix(raise_memlock(limit, need))
}

/// What lets so many bytes be locked.
pub(super) fn raise_memlock(limit: &MemlockLimit, need: u64) -> String {
    if limit.hard.is_some_and(|hard| need > hard) {
        // For the shell in which it is typed, and all that is started from there.
        as_root(&format!("prlimit --pid $$ --memlock={need}:{need}"))
    } else {
        format!("ulimit -l {}", need.div_ceil(1024))
    }
}

/// The one thing that everything else stands on, done for real.
fn slab() -> Check {
    match Slab::new(16, 4096) {
        Ok(slab) => {
            let placement = slab.placement();
            let locked = match placement.lock {
                Lock::Locked => "page-locked",
                _ => "not page-locked",
            };
            let node = placement.numa_node.map_or("node unknown".into(), |node| format!("node {node}"));
            let value = format!("pages of {} bytes, {locked}, {node}", placement.page_bytes);
            Check::new("slab", if placement.lock.is_locked() { Status::Ok } else { Status::Warn }, value)
        }
        Err(error) => {
            Check::new("slab", Status::Fail, "a slab of 64 KiB cannot be made").detail(error.to_string())
        }
    }
}

#[cfg(target_os = "linux")]
fn shared_memory() -> Check {
    const NAME: &str = "shared_memory";
    /// Below this a shared ring of useful size does not fit; it is also what Docker gives by default.
    const LITTLE_BYTES: u64 = 64 << 20;
    let free = rustix::fs::statvfs("/dev/shm").map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    let free_text = match free {
        Ok(bytes) => format!("/dev/shm {bytes} bytes free"),
        Err(error) => format!("/dev/shm not there ({error})"),
    };
    if let Err(error) = sealed_memory() {
        return Check::new(NAME, Status::Warn, format!("sealed memfd does not work, {free_text}"))
            .detail(format!("nothing can be shared between processes: {error}"));
    }
    let value = format!("sealed memfd works, {free_text}");
    match free {
        Ok(bytes) if bytes > LITTLE_BYTES => Check::new(NAME, Status::Ok, value),
        _ => Check::new(NAME, Status::Warn, value)
            .detail("named segments need room there; memory passed by descriptor does not")
            .fix(as_root("mount -o remount,size=1g /dev/shm")),
    }
}

/// Makes a sealed piece of shared memory and lets it go.
#[cfg(target_os = "linux")]
fn sealed_memory() -> rustix::io::Result<()> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let memory = memfd_create("transload-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&memory, 4096)?;
    fcntl_add_seals(&memory, seals)?;
    if fcntl_get_seals(&memory)?.contains(seals) && ftruncate(&memory, 0).is_err() {
        Ok(())
    } else {
        // The seals were taken and do not hold, as under some emulated kernels.
        Err(rustix::io::Errno::OPNOTSUPP)
    }
}

#[cfg(not(target_os = "linux"))]
fn shared_memory() -> Check {
    Check::new("shared_memory", Status::Absent, "no sealed memfd").detail("needs Linux")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_that_give_no_pages_say_what_to_run() {
        assert_eq!(transparent(TransparentMode::Madvise).status, Status::Ok);
        let never = transparent(TransparentMode::Never);
        assert_eq!(never.status, Status::Warn);
        assert!(never.fix.unwrap().contains("echo madvise > /sys"));
        assert_eq!(transparent(TransparentMode::Absent).fix, None);
    }

    #[test]
    fn a_kernel_without_huge_pages_is_one_line() {
        let checks = huge_pages(&[]);
        assert_eq!(checks.len(), 1);
        assert_eq!((checks[0].name.as_str(), checks[0].status), ("huge_pages", Status::Absent));
    }
}
