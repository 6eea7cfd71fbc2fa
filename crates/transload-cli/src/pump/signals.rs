//! SIGINT and SIGTERM: the first stops the intake, the second stops at once.

use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use transload_core::{Counter, Flag};

use crate::failure::Failure;

/// Counts the signals to stop that have come.
#[derive(Clone, Debug)]
pub(super) struct StopSignals {
    seen: Arc<Counter>,
    any: Arc<Flag>,
}

impl StopSignals {
    /// Takes over the two signals, on a thread that waits for them.
    pub(super) fn watch() -> Result<Self, Failure> {
        let signals = Self { seen: Arc::new(Counter::new()), any: Arc::new(Flag::new()) };
        let failed =
            |error: std::io::Error| Failure::new("signals", format!("signals cannot be caught: {error}"));
        let mut caught = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let told = signals.clone();
        std::thread::Builder::new()
            .name("transload-signals".to_owned())
            .spawn(move || {
                for _ in caught.forever() {
                    told.seen.add(1);
                    told.any.raise();
                }
            })
            .map_err(failed)?;
        Ok(signals)
    }

    /// How many have come.
    pub(super) fn seen(&self) -> u64 {
        if self.any.is_raised() { self.seen.value() } else { 0 }
    }
}
