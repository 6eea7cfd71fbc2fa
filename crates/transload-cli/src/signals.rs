//! SIGINT and SIGTERM: the first stops the intake, the second stops at once. SIGXFSZ: nothing.

use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use transload_core::{Counter, Flag};

use crate::failure::Failure;

const CAUGHT: [libc::c_int; 3] = [SIGINT, SIGTERM, SIGXFSZ];

/// Counts the signals to stop that have come.
#[derive(Clone, Debug)]
pub(crate) struct StopSignals {
    seen: Arc<Counter>,
    any: Arc<Flag>,
}

impl StopSignals {
    /// Takes over the signals, on a thread that waits for them. To be called when the drivers are loaded.
    ///
    /// Some drivers (those with LLVM inside) catch these signals too, and would be called in turn by who comes later:
    /// to end the process, on the small signal stacks of Rust's threads, which they overrun. So they are forgotten.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let signals = Self { seen: Arc::new(Counter::new()), any: Arc::new(Flag::new()) };
        let failed =
            |error: std::io::Error| Failure::new("signals", format!("signals cannot be caught: {error}"));
        for signal in CAUGHT {
            // SAFETY: no handler of ours is installed yet, and the default needs none.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        let mut caught = Signals::new(CAUGHT).map_err(failed)?;
        let told = signals.clone();
        std::thread::Builder::new()
            .name("transload-signals".to_owned())
            .spawn(move || {
                // A file beyond the limit of its size is an error where it is written; uncaught, it would be our end.
                for _ in caught.forever().filter(|&signal| signal != SIGXFSZ) {
                    told.seen.add(1);
                    told.any.raise();
                }
            })
            .map_err(failed)?;
        Ok(signals)
    }

    /// How many have come.
    pub(crate) fn seen(&self) -> u64 {
        if self.any.is_raised() { self.seen.value() } else { 0 }
    }
}
