//! The report, in words and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;
use transload::proactor::{Capability, Handle};
use transload::region::{Region, Registration};

use super::args::{SendArgs, WhenZeroCopy};
use crate::failure::{Failure, exit};
use crate::io_backend::IoWords;

/// The document of `--json`, on success and on failure alike.
#[derive(Debug, Default, Serialize)]
pub(super) struct Document {
    pub(super) schema: u32,
    pub(super) to: String,
    /// What the kernel has taken, to send it on.
    pub(super) bytes: u64,
    /// Null where bytes are no messages.
    pub(super) messages: Option<u64>,
    pub(super) seconds: f64,
    pub(super) bytes_per_second: f64,
    pub(super) connections: u16,
    pub(super) sends: u64,
    /// Parts of sends after the first, where the kernel took less than there was.
    pub(super) short_sends: u64,
    /// Parts that the network read from the buffers themselves.
    pub(super) zero_copied: u64,
    /// Parts that should have been, and that the kernel copied.
    pub(super) copied: u64,
    /// Sends done again with a copy, because the kernel refused.
    pub(super) zero_copy_refused: u64,
    pub(super) io: Option<IoWords>,
    pub(super) memory: Option<MemoryWords>,
    /// What to know before conclusions are drawn.
    pub(super) remark: Option<String>,
    pub(super) stopped_by: StoppedBy,
    pub(super) error: Option<Failure>,
}

#[derive(Debug, Serialize)]
pub(super) struct MemoryWords {
    buffers: usize,
    buffer_bytes: usize,
    locked: bool,
    /// `pinned`: the kernel knows the buffers by number. `copy`: it does not, for the reason that is given.
    registration: &'static str,
    reason: Option<String>,
}

/// What ended the reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StoppedBy {
    Messages,
    Duration,
    End,
    Signal,
    #[default]
    Error,
}

impl Document {
    /// A document of a run that never came to send anything.
    pub(super) fn failed(args: &SendArgs, failure: Failure) -> Self {
        Self { schema: 1, to: args.to.to_string(), error: Some(failure), ..Self::default() }
    }

    /// What is known before anything is sent.
    pub(super) fn new(args: &SendArgs, handle: &Handle, region: &Region) -> Self {
        Self {
            schema: 1,
            to: args.to.to_string(),
            io: Some(IoWords::of(handle.choice())),
            memory: Some(MemoryWords::of(region)),
            ..Self::default()
        }
    }

    /// Adds what the proactor has done.
    pub(super) fn ran(&mut self, args: &SendArgs, handle: &Handle, elapsed: Duration) {
        let done = handle.statistics();
        self.bytes = done.sent_bytes;
        self.short_sends = done.short_sends;
        self.zero_copied = done.zero_copied;
        self.copied = done.copied;
        self.zero_copy_refused = done.zero_copy_refused;
        self.seconds = elapsed.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let bytes = self.bytes as f64;
        self.bytes_per_second = if self.seconds > 0.0 { bytes / self.seconds } else { 0.0 };
        let can = handle.capabilities().has(Capability::ZeroCopySend);
        self.remark = remark(args.zero_copy, can, self.zero_copied, self.copied, self.zero_copy_refused);
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
        let connections = match self.connections {
            1 => "1 connection".to_owned(),
            many => format!("{many} connections"),
        };
        line("to", format!("{}, {connections}", self.to));
        if let Some(io) = &self.io {
            line("io", io.words());
        }
        if let Some(memory) = &self.memory {
            line("memory", memory.words());
        }
        let messages = self.messages.map(|messages| format!(", {messages} messages")).unwrap_or_default();
        line("sent", format!("{} bytes{messages}", self.bytes));
        line("rate", format!("{:.1} MB/s for {:.2} s", self.bytes_per_second / 1e6, self.seconds));
        line("sends", format!("{}, continued {} times", self.sends, self.short_sends));
        let Self { zero_copied, copied, zero_copy_refused: refused, .. } = self;
        line(
            "zero-copy",
            if zero_copied + copied + refused == 0 {
                "not tried".to_owned()
            } else {
                format!("{zero_copied} went without a copy, {copied} the kernel copied, {refused} it refused")
            },
        );
        if let Some(remark) = &self.remark {
            line("remark", remark.clone());
        }
        text.truncate(text.trim_end().len());
        text
    }
}

impl MemoryWords {
    fn of(region: &Region) -> Self {
        let (registration, reason) = match region.registration() {
            Registration::Copy { reason } | Registration::Staged { reason } => ("copy", Some(reason.clone())),
            _ => ("pinned", None),
        };
        let slab = region.slab();
        Self {
            buffers: slab.buffer_count(),
            buffer_bytes: slab.buffer_size(),
            locked: slab.placement().lock.is_locked(),
            registration,
            reason,
        }
    }

    fn words(&self) -> String {
        let Self { buffers, buffer_bytes, locked, registration, reason } = self;
        let size = indicatif::HumanBytes(*buffer_bytes as u64);
        let locked = if *locked { "page-locked" } else { "not page-locked" };
        let why = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let buffers = if *buffers == 1 { "1 buffer".to_owned() } else { format!("{buffers} buffers") };
        format!("{buffers} of {size}, {locked}, {registration}{why}")
    }
}

/// What the counts of copies mean.
fn remark(asked: WhenZeroCopy, can: bool, zero_copied: u64, copied: u64, refused: u64) -> Option<String> {
    let remark = if asked == WhenZeroCopy::On && !can {
        "this back end copies what is sent: sends without a copy need io_uring of Linux 6.0 or newer"
    } else if refused > 0 && zero_copied == 0 {
        "the kernel refused to send without a copy, and copied: sockets of this kind cannot, or too little memory may be locked (transload doctor)"
    } else if copied > 0 && zero_copied == 0 {
        "the kernel copied every send that was to go without a copy, as on the loop-back device it always does: no gain can show there"
    } else {
        return None;
    };
    Some(remark.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_explained_where_there_is_something_to_explain() {
        let said = |asked, can, zero_copied, copied, refused| {
            remark(asked, can, zero_copied, copied, refused).unwrap_or_default()
        };
        assert!(said(WhenZeroCopy::Auto, true, 0, 7, 0).contains("loop-back"));
        assert!(said(WhenZeroCopy::On, true, 0, 0, 1).contains("refused"));
        assert!(said(WhenZeroCopy::On, false, 0, 0, 0).contains("io_uring"));
        for nothing in [said(WhenZeroCopy::Auto, false, 0, 0, 0), said(WhenZeroCopy::On, true, 3, 1, 0)] {
            assert_eq!(nothing, "");
        }
    }
}
