//! What the figures were measured on.

use std::fs;

use serde::Serialize;

/// A load above this, before anything was started, is mentioned in the report.
const QUIET_LOAD: f64 = 0.3;

/// The machine and its state.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor, as the kernel names it.
    pub processor: String,
    /// Cores that are online.
    pub cores: usize,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Load of the last minute when the program started.
    pub load: Option<f64>,
}

impl Machine {
    /// Asks the kernel.
    pub fn detect() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map_or_else(|| "unknown".to_owned(), |(_, name)| name.to_owned());
        let uname = rustix::system::uname();
        let load = fs::read_to_string("/proc/loadavg")
            .ok()
            .and_then(|text| text.split_whitespace().next()?.parse().ok());
        Self {
            processor,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            load,
        }
    }

    /// Whether something else was running when the program started.
    pub fn is_busy(&self) -> bool {
        self.load.is_some_and(|load| load > QUIET_LOAD)
    }
}
