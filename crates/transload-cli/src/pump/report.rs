//! The report, in words and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;
use transload::device::Device;
use transload::memory::Slab;
use transload::pump::{Latency, Report};
use transload::region::Region;

use super::tally::Tally;
use crate::failure::{Failure, exit};
use crate::io_backend::IoWords;

/// The document of `--json`, on success and on failure alike.
#[derive(Debug, Default, Serialize)]
pub(super) struct Document {
    pub(super) schema: u32,
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    pub(super) dropped: u64,
    pub(super) rejected: u64,
    pub(super) skipped: u64,
    pub(super) bytes: u64,
    /// Bytes of payload that were copied into slots, out of a buffer that they were read into.
    pub(super) staged_bytes: u64,
    pub(super) seconds: f64,
    pub(super) messages_per_second: f64,
    pub(super) bytes_per_second: f64,
    pub(super) latency_ns: LatencyNanos,
    pub(super) batch_messages: BatchMessages,
    /// Batches that a kernel read where they were, in host memory.
    pub(super) mapped_batches: u64,
    pub(super) device: Option<DeviceWords>,
    pub(super) memory: Option<MemoryWords>,
    /// Where connections were accepted; null if none were.
    pub(super) listening: Option<String>,
    /// Connections that ended.
    pub(super) connections: u64,
    /// Those of them whose peer broke off or did not keep to the framing.
    pub(super) bad_peers: u64,
    /// The region that processes share; null if the source is another.
    pub(super) region: Option<RegionWords>,
    /// What did the I/O; null if the source needs no proactor.
    pub(super) io: Option<IoWords>,
    /// What each batch went through; null if that is nothing.
    pub(super) kernel: Option<KernelWords>,
    /// Messages that the kernel dropped: they are delivered, and have no output.
    pub(super) filtered: u64,
    /// Bytes that the kernel made of the others.
    pub(super) output_bytes_total: u64,
    /// Messages that arrived as they were sent; null if they were not checked.
    pub(super) verified: Option<u64>,
    /// Messages that arrived otherwise; null if they were not checked.
    pub(super) corrupt: Option<u64>,
    /// Where they were checked; null if they were not.
    pub(super) verified_on: Option<VerifiedOn>,
    /// Why not on the device; null if they were, or were not checked.
    pub(super) verified_on_host_because: Option<String>,
    pub(super) stopped_by: StoppedBy,
    pub(super) error: Option<Failure>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct LatencyNanos {
    samples: u64,
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct BatchMessages {
    p50: u64,
    max: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct DeviceWords {
    backend: &'static str,
    name: String,
    registration: String,
}

#[derive(Debug, Serialize)]
pub(super) struct MemoryWords {
    slab_bytes: usize,
    page_bytes: usize,
    locked: bool,
    numa_node: Option<u32>,
}

/// The kernel in the report.
#[derive(Debug, Serialize)]
pub(super) struct KernelWords {
    pub(super) file: String,
    pub(super) entry: String,
}

/// Where messages were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VerifiedOn {
    Device,
    Host,
}

/// The region in the report.
#[derive(Debug, Serialize)]
pub(super) struct RegionWords {
    pub(super) name: String,
    pub(super) id: String,
    /// Whether this pump has made it.
    pub(super) created: bool,
    /// The process that was the consumer before, and has died; null if none has.
    pub(super) taken_over_from: Option<u32>,
    /// Members that have joined while it pumped.
    pub(super) members: u64,
    /// Messages that were taken once more.
    pub(super) redelivered: u64,
    /// Messages that are left in the ring, for the next consumer.
    pub(super) pending: usize,
    /// Buffers that were taken from members that had died, since the region was made.
    pub(super) reclaimed: u64,
    /// Buffers that are never used again, as a device may still access them.
    pub(super) quarantined: usize,
}

/// What ended the intake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StoppedBy {
    Messages,
    Duration,
    End,
    Connections,
    Signal,
    #[default]
    Error,
}

impl Document {
    /// A document of a pump that never ran.
    pub(super) fn failed(failure: Failure) -> Self {
        Self { schema: 1, error: Some(failure), ..Self::default() }
    }

    /// What is known before the pump runs.
    pub(super) fn of_device(device: &dyn Device, region: &Region) -> Self {
        let info = device.info();
        let device = DeviceWords {
            backend: info.backend.name(),
            name: info.name.clone(),
            registration: region.registration().to_string(),
        };
        Self {
            schema: 1,
            device: Some(device),
            memory: Some(MemoryWords::of(region.slab())),
            ..Self::default()
        }
    }

    /// Adds what the pump did.
    pub(super) fn ran(&mut self, report: &Report) {
        let per_second = |count: u64| {
            let seconds = report.elapsed.as_secs_f64();
            #[expect(clippy::cast_precision_loss, reason = "a rate")]
            if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
        };
        self.accepted = report.accepted;
        self.delivered = report.delivered;
        self.dropped = report.dropped;
        self.rejected = report.rejected;
        self.skipped = report.skipped;
        self.bytes = report.bytes;
        self.seconds = report.elapsed.as_secs_f64();
        self.messages_per_second = per_second(report.delivered);
        self.bytes_per_second = per_second(report.bytes);
        self.latency_ns = LatencyNanos::of(&report.latency);
        self.batch_messages =
            BatchMessages { p50: report.batch_messages_p50, max: report.batch_messages_max };
        self.filtered = report.filtered;
        self.mapped_batches = report.mapped_batches;
    }

    /// Adds what the sources counted.
    pub(super) fn sourced(&mut self, tally: &Tally, io: Option<IoWords>, listening: Option<String>) {
        self.staged_bytes = tally.staged_bytes.value();
        self.connections = tally.connections.value();
        self.bad_peers = tally.bad_peers.value();
        self.io = io;
        self.listening = listening;
    }

    /// The exit code: failure outranks loss.
    pub(super) fn exit(&self) -> u8 {
        match &self.error {
            Some(failure) => failure.exit,
            None if self.dropped + self.rejected + self.bad_peers > 0 => exit::DROPPED,
            None => exit::OK,
        }
    }

    /// The report in words.
    pub(super) fn words(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<12} {value}");
        };
        if let Some(device) = &self.device {
            line("device", format!("{} ({}), memory {}", device.backend, device.name, device.registration));
        }
        if let Some(memory) = &self.memory {
            let locked = if memory.locked { "page-locked" } else { "not page-locked" };
            line(
                "memory",
                format!(
                    "{} in pages of {}, {locked}",
                    size(memory.slab_bytes as u64),
                    size(memory.page_bytes as u64)
                ),
            );
        }
        if let Some(io) = &self.io {
            line("io", io.words());
        }
        if self.listening.is_some() {
            line("connections", format!("{} ended, {} of them bad", self.connections, self.bad_peers));
        }
        if let Some(region) = &self.region {
            line("region", region.words());
        }
        if let Some(kernel) = &self.kernel {
            line(
                "kernel",
                format!(
                    "{}:{}, {} of outputs, {} messages filtered",
                    kernel.file,
                    kernel.entry,
                    size(self.output_bytes_total),
                    self.filtered
                ),
            );
        }
        line("accepted", format!("{} messages", self.accepted));
        line("delivered", format!("{} messages, {}", self.delivered, size(self.bytes)));
        if self.io.is_some() {
            line("staged", format!("{} copied into slots", size(self.staged_bytes)));
        }
        for (name, count) in
            [("dropped", self.dropped), ("rejected", self.rejected), ("skipped", self.skipped)]
        {
            if count > 0 || name == "dropped" {
                line(name, format!("{count} messages"));
            }
        }
        if let (Some(verified), Some(corrupt)) = (self.verified, self.corrupt) {
            let place = match (self.verified_on, &self.verified_on_host_because) {
                (Some(VerifiedOn::Device), _) => ", checked on the device".to_owned(),
                (_, Some(why)) => format!(", checked on the host ({why})"),
                (_, None) => String::new(),
            };
            line("verified", format!("{verified} messages, {corrupt} corrupt{place}"));
        }
        line(
            "rate",
            format!(
                "{:.0} messages/s, {:.1} MB/s for {:.2} s",
                self.messages_per_second,
                self.bytes_per_second / 1e6,
                self.seconds
            ),
        );
        let mapped = match self.mapped_batches {
            0 => String::new(),
            mapped => format!(", {mapped} read in place"),
        };
        line(
            "batches",
            format!(
                "{} messages each (median), {} at most{mapped}",
                self.batch_messages.p50, self.batch_messages.max
            ),
        );
        let latency = &self.latency_ns;
        if latency.samples > 0 {
            line(
                "latency",
                format!(
                    "p50 {}, p99 {}, p99.9 {}, max {} ({} samples)",
                    time(latency.p50),
                    time(latency.p99),
                    time(latency.p999),
                    time(latency.max),
                    latency.samples
                ),
            );
        }
        text.truncate(text.trim_end().len());
        text
    }
}

impl RegionWords {
    fn words(&self) -> String {
        let Self { name, members, redelivered, pending, reclaimed, quarantined, .. } = self;
        format!(
            "{name}, {members} members so far; {redelivered} messages delivered again, {pending} left; \
             {reclaimed} buffers reclaimed, {quarantined} quarantined"
        )
    }
}

impl LatencyNanos {
    fn of(latency: &Latency) -> Self {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self {
            samples: latency.samples,
            p50: nanos(latency.p50),
            p99: nanos(latency.p99),
            p999: nanos(latency.p999),
            max: nanos(latency.max),
        }
    }
}

impl MemoryWords {
    fn of(slab: &Slab) -> Self {
        let placement = slab.placement();
        Self {
            slab_bytes: slab.len_bytes(),
            page_bytes: placement.page_bytes,
            locked: placement.lock.is_locked(),
            numa_node: placement.numa_node,
        }
    }
}

fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn time(nanos: u64) -> String {
    match nanos as f64 {
        nanos if nanos < 1e6 => format!("{:.1} us", nanos / 1e3),
        nanos if nanos < 1e9 => format!("{:.1} ms", nanos / 1e6),
        nanos => format!("{:.2} s", nanos / 1e9),
    }
}
