//! The report of a run into a region, in words and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;
use transload::pump::SlotLayout;

use super::session::Session;
use super::watch::Watch;
use crate::failure::{Failure, exit};
use crate::send::args::SendArgs;
use crate::send::report::StoppedBy;

/// The document of `--json`, on success and on failure alike.
#[derive(Debug, Default, Serialize)]
pub(super) struct Document {
    schema: u32,
    to: String,
    /// Messages that were published: from then on they arrive, whatever becomes of this process.
    pub(super) messages: u64,
    /// Bytes of their payloads.
    bytes: u64,
    seconds: f64,
    messages_per_second: f64,
    bytes_per_second: f64,
    /// How often another pump, or another region, took the place of the one before.
    reconnects: u64,
    /// Messages, of all who sent, that were not done in a region when this went over to another of the same name.
    pub(super) left_behind: u64,
    /// How long there was no room, or no region.
    waited_seconds: f64,
    /// Null if there was none.
    pub(super) region: Option<RegionWords>,
    stopped_by: StoppedBy,
    pub(super) error: Option<Failure>,
}

#[derive(Debug, Serialize)]
pub(super) struct RegionWords {
    id: String,
    slots: usize,
    slot_bytes: usize,
    /// `dense`: a slot is a message. `prefixed`: it begins with the message's length.
    layout: &'static str,
    member: u16,
}

impl Document {
    /// A document of a run that never came to send anything.
    pub(super) fn failed(args: &SendArgs, failure: Failure) -> Self {
        Self { schema: 1, to: args.to.to_string(), error: Some(failure), ..Self::default() }
    }

    pub(super) fn new(args: &SendArgs, session: Option<&Session<'_>>, watch: &Watch) -> Self {
        let document = Self {
            schema: 1,
            to: args.to.to_string(),
            stopped_by: watch.why().unwrap_or_default(),
            ..Self::default()
        };
        let Some(session) = session else { return document };
        let (region, slots) = (session.region(), session.slots());
        let words = RegionWords {
            id: format!("{:032x}", region.id()),
            slots: region.buffer_count(),
            slot_bytes: slots.bytes,
            layout: match slots.layout {
                SlotLayout::Dense => "dense",
                SlotLayout::Prefixed => "prefixed",
            },
            member: session.member(),
        };
        Self {
            messages: session.messages,
            bytes: session.bytes,
            reconnects: session.reconnects,
            left_behind: session.left_behind,
            waited_seconds: session.waited.as_secs_f64(),
            region: Some(words),
            ..document
        }
    }

    /// Adds how long it was sent.
    pub(super) fn lasting(mut self, elapsed: Duration) -> Self {
        self.seconds = elapsed.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rate = |count: u64| if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 };
        (self.messages_per_second, self.bytes_per_second) = (rate(self.messages), rate(self.bytes));
        self
    }

    pub(super) fn exit(&self) -> u8 {
        self.error.as_ref().map_or(exit::OK, |failure| failure.exit)
    }

    /// The report in words.
    pub(super) fn words(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<12} {value}");
        };
        if let Some(RegionWords { id, slots, slot_bytes, layout, member }) = &self.region {
            line("to", format!("{}, region {id}, as member {member}", self.to));
            line("memory", format!("{slots} slots of {slot_bytes} bytes, {layout}"));
        }
        line("sent", format!("{} messages, {} bytes", self.messages, self.bytes));
        let rates = (self.messages_per_second / 1e6, self.bytes_per_second / 1e6);
        line("rate", format!("{:.3} M messages/s, {:.1} MB/s for {:.2} s", rates.0, rates.1, self.seconds));
        line("waited", format!("{:.2} s, {} reconnects", self.waited_seconds, self.reconnects));
        text.truncate(text.trim_end().len());
        text
    }
}
