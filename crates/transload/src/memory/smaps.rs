//! Which huge pages are really there: `/proc/self/smaps`.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    ops::Range,
};

/// Bytes of `range` that are in transparent huge pages now, by `AnonHugePages` of the mappings that lie in it, or by
/// `ShmemPmdMapped` where they are of a file in memory.
///
/// Exact for a range that is one whole mapping, which the guard pages around a slab see to. A mapping that reaches
/// beyond the range counts only with those huge bytes that its part outside cannot hold.
pub(super) fn transparent_bytes(range: Range<usize>) -> usize {
    File::open("/proc/self/smaps").map_or(0, |file| transparent_bytes_in(BufReader::new(file), range))
}

fn transparent_bytes_in(smaps: impl BufRead, range: Range<usize>) -> usize {
    let mut total = 0;
    // How many bytes of the mapping that is being read lie outside of the range; none while it is not of interest.
    let mut outside = None;
    for line in smaps.lines().map_while(Result::ok) {
        if let Some(mapping) = parse_header(&line) {
            if mapping.start >= range.end {
                break;
            }
            let inside = mapping.end.min(range.end).saturating_sub(mapping.start.max(range.start));
            outside = (inside > 0).then(|| mapping.len() - inside);
        } else if let (Some(outside), Some(rest)) = (outside, huge_field(&line)) {
            let kib: usize = rest.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
            total += kib.saturating_mul(1024).saturating_sub(outside);
        }
    }
    total
}

/// What a line says about huge pages. Of the two kinds a mapping has one at most.
fn huge_field(line: &str) -> Option<&str> {
    line.strip_prefix("AnonHugePages:").or_else(|| line.strip_prefix("ShmemPmdMapped:"))
}

/// The addresses of a line `7f0000000000-7f0000200000 rw-p ...`.
fn parse_header(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    (range.start <= range.end).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
1000000-1400000 rw-p 00000000 00:00 0 [heap]
Size:               4096 kB
AnonHugePages:      4096 kB
VmFlags: rd wr
1400000-1c00000 rw-p 00000000 00:00 0
AnonHugePages:      6144 kB
2000000-2400000 rw-p 00000000 00:00 0
AnonHugePages:      2048 kB
";

    #[test]
    fn whole_mappings_are_exact() {
        assert_eq!(transparent_bytes_in(SMAPS.as_bytes(), 0x100_0000..0x140_0000), 4 << 20);
        assert_eq!(transparent_bytes_in(SMAPS.as_bytes(), 0x140_0000..0x1c0_0000), 6 << 20);
        assert_eq!(transparent_bytes_in(SMAPS.as_bytes(), 0x200_0000..0x240_0000), 2 << 20);
    }

    #[test]
    fn part_of_a_mapping_is_a_lower_bound() {
        assert_eq!(transparent_bytes_in(SMAPS.as_bytes(), 0x140_0000..0x180_0000), 2 << 20);
        assert_eq!(transparent_bytes_in(SMAPS.as_bytes(), 0x220_0000..0x240_0000), 0);
    }

    #[test]
    fn nothing_mapped_there() {
        assert_eq!(transparent_bytes_in(SMAPS.as_bytes(), 0x300_0000..0x340_0000), 0);
        assert_eq!(transparent_bytes_in("garbage\n-\nAnonHugePages: x kB\n".as_bytes(), 0..usize::MAX), 0);
    }
}
