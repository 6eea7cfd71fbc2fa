//! Up to which size a kernel reads a batch faster where it is, in host memory, than after a copy to the device: by
//! measurement.

use std::time::Duration;

use super::Route;

/// The sizes that are tried, in bytes.
const SIZES: [usize; 9] =
    [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];

/// The largest of them.
pub(super) const LARGEST: usize = SIZES[SIZES.len() - 1];

/// Bytes of each message that is tried.
pub(super) const SLOT: usize = 64;

/// How often each size is tried each way.
const TURNS: usize = 9;

/// A device that is busy with other work would not be measured but waited for.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// The largest size up to which the mapped way is never slower, by the medians; 0 if it is for the smallest. `turn` takes a
/// batch of so many bytes through a kernel by one of the ways, and says how long that took.
pub(super) fn mapped_limit<E>(mut turn: impl FnMut(usize, Route) -> Result<Duration, E>) -> Result<usize, E> {
    let mut median = |size, route| {
        let mut times = [Duration::ZERO; TURNS];
        for time in &mut times {
            *time = turn(size, route)?;
        }
        times.sort_unstable();
        Ok(times[TURNS / 2])
    };
    // The first ones load the code and wake the device.
    median(SIZES[0], Route::Copied)?;
    median(SIZES[0], Route::Mapped)?;
    let mut most = 0;
    for size in SIZES {
        let copied = median(size, Route::Copied)?;
        if median(size, Route::Mapped)? >= copied {
            break;
        }
        most = size;
    }
    tracing::debug!(most, "batches of up to so many bytes are read by kernels where they are");
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy costs so much for each call, and reading across the bus so much for each KiB.
    fn limit(call: u64, each: u64) -> usize {
        let turn = |size: usize, route| {
            let kib = size as u64 >> 10;
            let micros = if route == Route::Copied { call + kib } else { each * kib };
            Ok::<_, ()>(Duration::from_micros(micros))
        };
        mapped_limit(turn).unwrap()
    }

    #[test]
    fn the_limit_is_where_copies_become_faster() {
        assert_eq!(limit(0, 1), 0);
        assert_eq!(limit(10, 2), 8 << 10);
        assert_eq!(limit(10, 1), LARGEST);
        assert_eq!(mapped_limit(|_, _| Err::<Duration, _>("lost")), Err("lost"));
    }
}
