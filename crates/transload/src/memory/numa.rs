//! NUMA nodes: which there are, how to bind memory to one, and where memory lies.
//!
//! Neither the standard library nor rustix has `mbind` and `get_mempolicy`, so they are called by number here. In
//! containers they are often denied unless `CAP_SYS_NICE` is given (Docker's default seccomp profile).

use std::{fs, io, path::Path, ptr::NonNull};

use super::fault::{self, Step};

/// The NUMA nodes of a system and what belongs to each.
///
/// ```
/// use transload::memory::Topology;
///
/// if let Ok(topology) = Topology::of_system() {
///     for node in &topology.nodes {
///         println!("node {}: {} bytes, processors {:?}", node.id, node.memory_bytes, node.cpus);
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Topology {
    /// The nodes that are online, by number.
    pub nodes: Vec<Node>,
}

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The kernel's number of the node.
    pub id: u32,
    /// The processors on it.
    pub cpus: Vec<u32>,
    /// Bytes of memory on it; 0 for a node that has processors only.
    pub memory_bytes: u64,
}

impl Topology {
    /// Reads the nodes of this system from `/sys/devices/system/node`.
    ///
    /// # Errors
    ///
    /// Where the kernel does not list nodes: built without NUMA, `/sys` not mounted, or not Linux.
    pub fn of_system() -> io::Result<Topology> {
        Topology::read(Path::new("/sys/devices/system/node"))
    }

    /// Reads the nodes below `root`, which is laid out like `/sys/devices/system/node`.
    ///
    /// # Errors
    ///
    /// When `root/online` cannot be read or is no list of numbers. A node whose own files cannot be read has no
    /// processors and no memory.
    pub fn read(root: &Path) -> io::Result<Topology> {
        let online = fs::read_to_string(root.join("online"))?;
        let ids = parse_list(&online).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("no list of nodes: {online:?}"))
        })?;
        let nodes = ids
            .into_iter()
            .map(|id| {
                let folder = root.join(format!("node{id}"));
                let cpus = fs::read_to_string(folder.join("cpulist")).unwrap_or_default();
                let meminfo = fs::read_to_string(folder.join("meminfo")).unwrap_or_default();
                Node { id, cpus: parse_list(&cpus).unwrap_or_default(), memory_bytes: parse_total(&meminfo) }
            })
            .collect();
        Ok(Topology { nodes })
    }

    /// The numbers of the nodes that have memory.
    pub fn nodes_with_memory(&self) -> Vec<u32> {
        self.nodes.iter().filter(|node| node.memory_bytes > 0).map(|node| node.id).collect()
    }
}

/// Reads a kernel list such as `0-2,5`. `None` if it is no such list, or longer than any that a kernel writes.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    const MOST: usize = 1 << 16;
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || (last - first) as usize >= MOST || numbers.len() >= MOST {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// The bytes of a line `Node 0 MemTotal:   123 kB`.
fn parse_total(meminfo: &str) -> u64 {
    meminfo
        .lines()
        .find_map(|line| line.split_once("MemTotal:"))
        .and_then(|(_, rest)| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024))
        .unwrap_or(0)
}

/// `mbind`: pages of this range that are touched from now on lie on `node`, or nowhere.
///
/// # Safety
///
/// The range is mapped, starts on a page, and belongs to the caller alone.
#[cfg(target_os = "linux")]
pub(super) unsafe fn bind(base: NonNull<u8>, len_bytes: usize, node: u32) -> io::Result<()> {
    const WORD_BITS: usize = usize::BITS as usize;
    // `syscall` takes all of its arguments as registers, so each is given at full width.
    const BIND: usize = libc::MPOL_BIND as usize;
    const NO_FLAGS: usize = 0;
    fault::check(Step::Bind)?;
    let node = node as usize;
    let mut mask = vec![0usize; node / WORD_BITS + 1];
    mask[node / WORD_BITS] = 1 << (node % WORD_BITS);
    // The kernel takes one off this number of bits (get_nodes in mm/mempolicy.c), hence the extra one.
    let bits = mask.len() * WORD_BITS + 1;
    // SAFETY: mbind reads `bits` - 1 bits of `mask`, which has that many, and changes where pages of the range will be
    // placed, not what is in them; the range is the caller's alone by this function's contract.
    let result = unsafe {
        libc::syscall(libc::SYS_mbind, base.as_ptr(), len_bytes, BIND, mask.as_ptr(), bits, NO_FLAGS)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Not Linux: memory cannot be bound.
///
/// # Safety
///
/// None beyond that of the Linux form.
#[cfg(not(target_os = "linux"))]
pub(super) unsafe fn bind(_base: NonNull<u8>, _len_bytes: usize, _node: u32) -> io::Result<()> {
    fault::check(Step::Bind)?;
    Err(io::ErrorKind::Unsupported.into())
}

/// The node that the range lies on, by a sample of its pages: `None` if they differ or the kernel does not say.
///
/// Only for memory that is faulted in: asking for the node of an untouched page makes the kernel touch it.
pub(super) fn node_of(base: NonNull<u8>, len_bytes: usize, page_bytes: usize) -> Option<u32> {
    const SAMPLES: usize = 16;
    fault::check(Step::Look).ok()?;
    let pages = len_bytes.div_ceil(page_bytes).max(1);
    let step = pages.div_ceil(SAMPLES);
    // The last page is looked at too, since memory that spills over to another node does so at its end.
    let mut looked_at = (0..pages).step_by(step).chain([pages - 1]);
    let first = node_of_page(base.as_ptr().wrapping_add(looked_at.next()? * page_bytes))?;
    looked_at
        .all(|page| node_of_page(base.as_ptr().wrapping_add(page * page_bytes)) == Some(first))
        .then_some(first)
}

/// `get_mempolicy(MPOL_F_NODE | MPOL_F_ADDR)`: the node of the page at `address`.
#[cfg(target_os = "linux")]
fn node_of_page(address: *const u8) -> Option<u32> {
    // Values of include/uapi/linux/mempolicy.h; libc has the modes but not these flags. `syscall` takes all of its
    // arguments as registers, so each is given at full width.
    const MPOL_F_NODE: usize = 1 << 0;
    const MPOL_F_ADDR: usize = 1 << 1;
    let mut node: libc::c_int = -1;
    // SAFETY: the call writes one int to `node` and takes no mask (null, 0 bits); `address` is looked up by the kernel,
    // which answers EFAULT if nothing is mapped there, so it need not be valid.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut node,
            std::ptr::null_mut::<usize>(),
            0usize,
            address,
            MPOL_F_NODE | MPOL_F_ADDR,
        )
    };
    (result == 0).then(|| u32::try_from(node).ok()).flatten()
}

#[cfg(not(target_os = "linux"))]
fn node_of_page(_address: *const u8) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0\n"), Some(vec![0]));
        assert_eq!(parse_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list("\n"), Some(vec![]));
        for nonsense in ["a", "1-", "-1", "3-1", "0-4294967295", "1,,x"] {
            assert_eq!(parse_list(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn fake_tree_of_three_nodes_one_without_memory() {
        let root = std::env::temp_dir().join(format!("transload-nodes-{}", std::process::id()));
        for (id, cpus, kib) in [(0, "0-3", 1024), (1, "4-7", 0), (3, "", 2048)] {
            let folder = root.join(format!("node{id}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpulist"), cpus).unwrap();
            let meminfo = format!("Node {id} MemFree:  1 kB\nNode {id} MemTotal:       {kib} kB\n");
            fs::write(folder.join("meminfo"), meminfo).unwrap();
        }
        fs::write(root.join("online"), "0-1,3\n").unwrap();
        let topology = Topology::read(&root);
        fs::write(root.join("online"), "zero\n").unwrap();
        let nonsense = Topology::read(&root);
        fs::remove_dir_all(&root).unwrap();

        let topology = topology.unwrap();
        assert_eq!(topology.nodes_with_memory(), [0, 3]);
        assert_eq!(topology.nodes[1], Node { id: 1, cpus: vec![4, 5, 6, 7], memory_bytes: 0 });
        assert_eq!(topology.nodes[2].memory_bytes, 2048 * 1024);
        assert_eq!(nonsense.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(Topology::read(&root).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn unmapped_memory_has_no_node() {
        assert_eq!(node_of(NonNull::without_provenance(64.try_into().unwrap()), 4096, 4096), None);
    }
}
