//! How far a pump is, for people and for programs, while it runs.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use transload::pump::Progress;

/// Shows how far a pump is: a line on a terminal, or a line of JSON now and then.
pub(super) struct Show {
    bar: ProgressBar,
    started: Instant,
    interval: Option<Duration>,
    next: Option<Instant>,
}

/// One line of `--stats-interval`.
#[derive(Debug, Serialize)]
struct Line {
    schema: u32,
    seconds: f64,
    accepted: u64,
    delivered: u64,
    dropped: u64,
    rejected: u64,
    skipped: u64,
    /// How long a claimed slot has kept everything behind it waiting; null if none does.
    stalled_seconds: Option<f64>,
}

impl Show {
    pub(super) fn new(quiet: bool, interval: Option<Duration>, messages: Option<u64>) -> Self {
        let wanted = !quiet && interval.is_none() && io::stderr().is_terminal();
        let target = if wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let template = match messages {
            Some(_) => "{elapsed_precise} [{bar:30}] {human_pos} of {human_len} messages, {per_sec}",
            None => "{elapsed_precise} {spinner} {human_pos} messages, {per_sec}",
        };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::with_draw_target(messages, target).with_style(style);
        let started = Instant::now();
        let interval = interval.filter(|interval| !interval.is_zero());
        Self { bar, started, interval, next: interval.and_then(|interval| started.checked_add(interval)) }
    }

    /// Shows the latest numbers, if it is time.
    pub(super) fn update(&mut self, progress: Progress) {
        self.bar.set_position(progress.delivered);
        if self.next.is_some_and(|next| next <= Instant::now()) {
            let line = Line {
                schema: 1,
                seconds: self.started.elapsed().as_secs_f64(),
                accepted: progress.accepted,
                delivered: progress.delivered,
                dropped: progress.dropped,
                rejected: progress.rejected,
                skipped: progress.skipped,
                stalled_seconds: progress.stalled.map(|stall| stall.since.as_secs_f64()),
            };
            if let Ok(line) = serde_json::to_string(&line) {
                let _ = writeln!(io::stderr().lock(), "{line}");
            }
            self.next = self.interval.and_then(|interval| Instant::now().checked_add(interval));
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
