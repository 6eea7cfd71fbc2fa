//! What the system allows: locked memory, pools of huge pages, transparent huge pages, memory that is left.
//!
//! Everything here is read as the effective user at the time of the call, and may have changed a moment later.

use std::{fs, path::Path};

/// How much memory this process may lock (`RLIMIT_MEMLOCK`), and how much it has locked.
///
/// ```
/// use transload::memory::MemlockLimit;
///
/// let limit = MemlockLimit::current();
/// println!("may lock 1 MiB more: {}", limit.allows(1 << 20));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemlockLimit {
    /// Soft limit in bytes; `None` is unlimited.
    pub soft: Option<u64>,
    /// Hard limit in bytes, up to which the process may raise the soft one itself; `None` is unlimited.
    pub hard: Option<u64>,
    /// Bytes locked by `mlock` in this process (`VmLck`).
    pub locked_bytes: u64,
    /// Bytes pinned in this process for I/O, for instance as registered buffers (`VmPin`). The kernel charges these
    /// to the user, over all of the user's processes, so the sum over the user may be higher.
    pub pinned_bytes: u64,
    /// Whether the limit does not apply, because the effective user holds `CAP_IPC_LOCK` in the initial user
    /// namespace. Root of a user namespace (a rootless container) is limited all the same.
    pub exempt: bool,
}

impl MemlockLimit {
    /// Reads limit and use of this process.
    pub fn current() -> MemlockLimit {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limit = memlock_rlimit();
        MemlockLimit {
            soft: limit.0,
            hard: limit.1,
            locked_bytes: kib_field(&status, "VmLck:").unwrap_or(0),
            pinned_bytes: kib_field(&status, "VmPin:").unwrap_or(0),
            exempt: is_exempt(),
        }
    }

    /// Whether `bytes` more can be locked by `mlock` as things stand.
    pub fn allows(&self, bytes: u64) -> bool {
        self.exempt || self.soft.is_none_or(|soft| self.locked_bytes.saturating_add(bytes) <= soft)
    }
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn memlock_rlimit() -> (Option<u64>, Option<u64>) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
    (limit.current, limit.maximum)
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn memlock_rlimit() -> (Option<u64>, Option<u64>) {
    (None, None)
}

#[cfg(target_os = "linux")]
fn is_exempt() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    // `mlock` asks for the capability against the initial user namespace. Its number is fixed: PROC_USER_INIT_INO in
    // include/linux/proc_ns.h. Where the link cannot be read, take the capability for what it says.
    let initial =
        fs::read_link("/proc/self/ns/user").map_or(true, |link| link.as_os_str() == "user:[4026531837]");
    initial && capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK))
}

#[cfg(not(target_os = "linux"))]
fn is_exempt() -> bool {
    false
}

/// One pool of reserved huge pages (hugetlb), as the kernel counts it.
///
/// ```
/// use transload::memory::HugePagePool;
///
/// for pool in HugePagePool::all() {
///     println!("{} KiB: {} of {} free", pool.page_bytes / 1024, pool.usable_pages(), pool.total_pages);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HugePagePool {
    /// Bytes in one page.
    pub page_bytes: usize,
    /// Pages in the pool.
    pub total_pages: u64,
    /// Pages not handed out yet. Some of them may be promised, see `reserved_pages`.
    pub free_pages: u64,
    /// Free pages promised to mappings that exist and have not touched them. Always 0 in the pool of one node.
    pub reserved_pages: u64,
    /// Whether this is the size that `/proc/sys/vm/nr_hugepages` sets.
    pub is_default: bool,
    /// The node whose part of the pool this is; `None` for the whole.
    pub numa_node: Option<u32>,
}

impl HugePagePool {
    /// The pools of this system, smallest pages first. Empty where the kernel has no huge pages.
    pub fn all() -> Vec<HugePagePool> {
        let default_bytes =
            fs::read_to_string("/proc/meminfo").ok().and_then(|text| kib_field(&text, "Hugepagesize:"));
        pools_in(Path::new("/sys/kernel/mm/hugepages"), default_bytes, None)
    }

    /// The pool of one page size, or one node's part of it. `None` if the kernel has no such pages.
    pub(super) fn of(page_bytes: usize, numa_node: Option<u32>) -> Option<HugePagePool> {
        let pools = match numa_node {
            None => HugePagePool::all(),
            Some(node) => {
                let root = format!("/sys/devices/system/node/node{node}/hugepages");
                pools_in(Path::new(&root), None, Some(node))
            }
        };
        pools.into_iter().find(|pool| pool.page_bytes == page_bytes)
    }

    /// Pages that a new mapping can have: free and not promised.
    pub fn usable_pages(&self) -> u64 {
        self.free_pages.saturating_sub(self.reserved_pages)
    }

    /// The command that makes `pages` usable, keeping those in use. Root runs it.
    pub fn reserve_command(&self, pages: u64) -> String {
        let total = self.total_pages.saturating_sub(self.usable_pages()).saturating_add(pages);
        let kib = self.page_bytes / 1024;
        match self.numa_node {
            Some(node) => format!(
                "echo {total} > /sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages"
            ),
            None if self.is_default => format!("echo {total} > /proc/sys/vm/nr_hugepages"),
            None => format!("echo {total} > /sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages"),
        }
    }
}

/// Reads the pools below `root`, which has one folder `hugepages-<KiB>kB` for each size.
fn pools_in(root: &Path, default_bytes: Option<u64>, numa_node: Option<u32>) -> Vec<HugePagePool> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut pools: Vec<HugePagePool> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let kib: usize = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let page_bytes = kib.checked_mul(1024)?;
            let number = |file: &str| -> Option<u64> {
                fs::read_to_string(entry.path().join(file)).ok()?.trim().parse().ok()
            };
            Some(HugePagePool {
                page_bytes,
                total_pages: number("nr_hugepages")?,
                free_pages: number("free_hugepages")?,
                reserved_pages: number("resv_hugepages").unwrap_or(0),
                is_default: default_bytes == Some(page_bytes as u64),
                numa_node,
            })
        })
        .collect();
    pools.sort_by_key(|pool| pool.page_bytes);
    pools
}

/// When the system gives transparent huge pages (`/sys/kernel/mm/transparent_hugepage/enabled`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransparentMode {
    /// To all memory that is large enough.
    Always,
    /// To memory that asks for them.
    Madvise,
    /// To none.
    Never,
    /// The kernel was built without them, or does not say.
    Absent,
}

impl TransparentMode {
    /// Reads the mode of this system.
    pub fn current() -> TransparentMode {
        fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .map_or(TransparentMode::Absent, |text| TransparentMode::parse(&text))
    }

    /// The mode for memory that processes share: files in memory have one of their own.
    pub(super) fn of_shared() -> TransparentMode {
        fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
            .map_or(TransparentMode::Absent, |text| TransparentMode::parse(&text))
    }

    /// The mode's name, as in the kernel's file.
    pub fn name(self) -> &'static str {
        match self {
            TransparentMode::Always => "always",
            TransparentMode::Madvise => "madvise",
            TransparentMode::Never => "never",
            TransparentMode::Absent => "absent",
        }
    }

    fn parse(text: &str) -> TransparentMode {
        match text.split_whitespace().find(|word| word.starts_with('[')) {
            Some("[always]" | "[force]" | "[within_size]") => TransparentMode::Always,
            Some("[madvise]" | "[advise]") => TransparentMode::Madvise,
            Some("[never]" | "[deny]") => TransparentMode::Never,
            _ => TransparentMode::Absent,
        }
    }
}

/// Bytes in one transparent huge page; the usual 2 MiB where the kernel does not say.
pub(super) fn transparent_page_bytes() -> usize {
    fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
        .ok()
        .and_then(|text| text.trim().parse::<usize>().ok())
        .filter(|bytes| bytes.is_power_of_two())
        .unwrap_or(2 << 20)
}

/// Bytes that the system estimates it can give: `MemAvailable` and free swap. `None` where it does not say.
///
/// Limits of a control group are not in it.
pub fn available_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    Some(kib_field(&text, "MemAvailable:")?.saturating_add(kib_field(&text, "SwapFree:").unwrap_or(0)))
}

/// The bytes of a line `Name:   123 kB` in one of the kernel's files.
pub(super) fn kib_field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: MemlockLimit = MemlockLimit {
        soft: Some(65_536),
        hard: Some(65_536),
        locked_bytes: 4_096,
        pinned_bytes: 0,
        exempt: false,
    };

    #[test]
    fn limit_counts_what_is_locked() {
        assert!(LIMIT.allows(61_440));
        assert!(!LIMIT.allows(61_441));
        assert!(!LIMIT.allows(u64::MAX));
        assert!(MemlockLimit { exempt: true, ..LIMIT }.allows(u64::MAX));
        assert!(MemlockLimit { soft: None, ..LIMIT }.allows(u64::MAX));
    }

    #[test]
    fn fields_are_read_in_bytes() {
        let text = "VmPeak:\t 10 kB\nVmLck:\t      12 kB\nVmPin:\t7\n";
        assert_eq!(kib_field(text, "VmLck:"), Some(12_288));
        assert_eq!(kib_field(text, "VmPin:"), None);
        assert_eq!(kib_field(text, "VmRSS:"), None);
        assert_eq!(kib_field("X: 18446744073709551615 kB", "X:"), None);
    }

    #[test]
    fn modes_are_the_word_in_brackets() {
        assert_eq!(TransparentMode::parse("always [madvise] never\n"), TransparentMode::Madvise);
        assert_eq!(TransparentMode::parse("[always] madvise never\n"), TransparentMode::Always);
        assert_eq!(TransparentMode::parse("always madvise [never]\n"), TransparentMode::Never);
        assert_eq!(TransparentMode::parse(""), TransparentMode::Absent);
        let shared = |word: &str| TransparentMode::parse(&format!("always {word} never"));
        assert_eq!(
            ["[advise]", "[deny]", "[force]"].map(shared),
            [TransparentMode::Madvise, TransparentMode::Never, TransparentMode::Always]
        );
    }

    #[test]
    fn reserving_keeps_pages_in_use() {
        let pool = HugePagePool {
            page_bytes: 1 << 30,
            total_pages: 10,
            free_pages: 4,
            reserved_pages: 1,
            is_default: false,
            numa_node: None,
        };
        assert_eq!(
            pool.reserve_command(5),
            "echo 12 > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"
        );
        let on_node = HugePagePool { numa_node: Some(1), ..pool };
        assert!(on_node.reserve_command(5).contains("node1/hugepages/hugepages-1048576kB"));
    }

    #[test]
    fn pools_of_a_fake_tree_and_none_without_one() {
        let root = std::env::temp_dir().join(format!("transload-pools-{}", std::process::id()));
        for (name, total) in [("hugepages-2048kB", "6"), ("hugepages-64kB", "3"), ("other", "1")] {
            fs::create_dir_all(root.join(name)).unwrap();
            fs::write(root.join(name).join("nr_hugepages"), total).unwrap();
            fs::write(root.join(name).join("free_hugepages"), "2\n").unwrap();
        }
        let pools = pools_in(&root, Some(2 << 20), None);
        fs::remove_dir_all(&root).unwrap();
        let seen: Vec<_> =
            pools.iter().map(|p| (p.page_bytes, p.total_pages, p.free_pages, p.is_default)).collect();
        assert_eq!(seen, [(65_536, 3, 2, false), (2 << 20, 6, 2, true)]);
        assert!(pools_in(&root, None, None).is_empty());
    }
}
