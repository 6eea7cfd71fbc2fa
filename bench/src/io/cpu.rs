//! What a thread has spent.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Time on a processor and on the wall, of the thread that made it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    cpu: Duration,
    wall: Instant,
}

/// What one run has moved and spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub(super) bytes: u64,
    cpu: Duration,
    wall: Duration,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { cpu: thread_time(), wall: Instant::now() }
    }

    pub(super) fn wall(&self) -> Duration {
        self.wall.elapsed()
    }

    pub(super) fn stop(&self, bytes: u64) -> Spent {
        Spent { bytes, cpu: thread_time().saturating_sub(self.cpu), wall: self.wall.elapsed() }
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
impl Spent {
    /// Nanoseconds on a processor for 1024 bytes.
    pub(super) fn nanos_per_kib(&self) -> f64 {
        self.cpu.as_nanos() as f64 * 1024.0 / self.bytes.max(1) as f64
    }

    /// Megabytes a second.
    pub(super) fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.wall.as_secs_f64()
    }
}

/// What the calling thread has spent on a processor.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}
