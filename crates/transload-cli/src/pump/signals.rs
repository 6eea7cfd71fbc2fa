//! SIGINT and SIGTERM: the first stops the intake, the second stops at once. SIGXFSZ: nothing.

use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use transload_core::{Counter, Flag};

use crate::failure::Failure;

/// Counts the signals to stop that have come.
#[derive(Clone, Debug)]
pub(super) struct StopSignals {
    seen: Arc<Counter>,
    any: Arc<Flag>,
    /// Whether there is a pump to stop.
    armed: Arc<Flag>,
}

impl StopSignals {
    /// Takes over the two signals, on a thread that waits for them. Until [`arm`](Self::arm) is called they end the
    /// process, as they do by themselves.
    ///
    /// This comes before any driver is loaded: some (those with LLVM inside) have handlers of their own, which call
    /// those that were there before them, or end the process if there were none.
    pub(super) fn watch() -> Result<Self, Failure> {
        let signals =
            Self { seen: Arc::new(Counter::new()), any: Arc::new(Flag::new()), armed: Arc::new(Flag::new()) };
        let failed =
            |error: std::io::Error| Failure::new("signals", format!("signals cannot be caught: {error}"));
        let mut caught = Signals::new([SIGINT, SIGTERM, SIGXFSZ]).map_err(failed)?;
        let told = signals.clone();
        std::thread::Builder::new()
            .name("transload-signals".to_owned())
            .spawn(move || {
                // A file beyond the limit of its size is an error where it is written; uncaught, it would be our end.
                for signal in caught.forever().filter(|&signal| signal != SIGXFSZ) {
                    if !told.armed.is_raised() {
                        // It does not come back.
                        let _ = emulate_default_handler(signal);
                    }
                    told.seen.add(1);
                    told.any.raise();
                }
            })
            .map_err(failed)?;
        Ok(signals)
    }

    /// From now on signals are counted.
    pub(super) fn arm(&self) {
        self.armed.raise();
    }

    /// How many have come.
    pub(super) fn seen(&self) -> u64 {
        if self.any.is_raised() { self.seen.value() } else { 0 }
    }
}
