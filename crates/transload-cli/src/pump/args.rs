//! The options of `transload pump`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{BoolishValueParser, OsStringValueParser, TypedValueParser};
use clap::{ArgMatches, Args, ValueEnum, parser::ValueSource};
use transload::device::Selector;
use transload::memory::Policy;
use transload::pump::OnFull;
#[cfg(target_os = "linux")]
use transload::shared::handover::Name;

use super::kernel::{self, KernelFile};
use crate::address::{Address, Endpoint};
use crate::framing::Framing;
use crate::io_backend::Io;
use crate::{units, usage};

/// The options of `transload pump`.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches")]
#[command(after_help = usage::LOG_HELP)]
pub(crate) struct PumpArgs {
    /// Where messages come from: `gen` (generated), `-` (standard input), a file, all who connect to tcp:HOST:PORT
    /// (port 0: any that is free) or unix:PATH (a socket for its owner alone), or shm:NAME (a region that processes share:
    /// made, or taken over from a pump that has died). The address is printed to the standard error.
    #[arg(long, env = "TRANSLOAD_FROM", default_value = "gen", value_parser = source(), value_name = "SOURCE")]
    pub(super) from: From,
    /// Where they go: auto, host, opencl[:N], vulkan[:N], cuda[:N] or metal[:N]. `auto` is the first GPU, else the host.
    #[arg(long, env = "TRANSLOAD_TO", default_value = "auto", value_name = "DEVICE")]
    pub(super) to: Selector,
    /// Bytes of payload in a message. A shared region that is there already must have been made for as many.
    #[arg(long, env = "TRANSLOAD_MESSAGE_SIZE", default_value = "256", value_parser = units::bytes, value_name = "BYTES")]
    pub(super) message_size: usize,
    /// Messages that the ring holds: a power of two. A shared region that is there already keeps its own number.
    #[arg(long, env = "TRANSLOAD_CAPACITY", default_value = "16384", value_parser = capacity, value_name = "N")]
    pub(super) capacity: usize,
    /// Threads that generate messages, at most 1024.
    #[arg(long, env = "TRANSLOAD_PRODUCERS", default_value = "2", value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    pub(super) producers: u16,
    /// Stop after so many messages, all producers together.
    #[arg(long, env = "TRANSLOAD_MESSAGES", value_name = "N")]
    pub(super) messages: Option<u64>,
    /// Stop after this time. Generated messages stop after 5s if neither this nor --messages is given.
    #[arg(long, env = "TRANSLOAD_DURATION", value_parser = units::duration, value_name = "TIME")]
    pub(super) duration: Option<Duration>,
    /// Stop when so many connections have ended, and accept no more than those; or when so many members have left the
    /// shared region, by themselves or by dying.
    #[arg(long, env = "TRANSLOAD_CONNECTIONS", value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
    pub(super) connections: Option<u64>,
    /// Users, by their numbers, whose processes may take part in the shared region as well: they can spoil it for all.
    #[arg(long, env = "TRANSLOAD_ALLOW_UID", value_delimiter = ',', value_name = "UID")]
    pub(super) allow_uid: Vec<u32>,
    /// How sockets and direct files are read; `auto` is `io_uring` where the kernel lets us use it.
    #[arg(long, env = "TRANSLOAD_IO", value_enum, default_value_t)]
    pub(super) io: Io,
    /// Read a file past the page cache (`O_DIRECT`), into registered buffers.
    #[arg(long, env = "TRANSLOAD_DIRECT", value_parser = BoolishValueParser::new())]
    pub(super) direct: bool,
    /// Buffers of 128 KiB for what cannot go straight into slots: lines and measured messages of connections, direct files.
    #[arg(long, env = "TRANSLOAD_POOL_BUFFERS", default_value = "16", value_parser = clap::value_parser!(u16).range(1..=32768), value_name = "N")]
    pub(super) pool_buffers: u16,
    /// How what a source gives is cut into messages [default: stream].
    #[arg(long, env = "TRANSLOAD_FRAMING", value_enum)]
    pub(super) framing: Option<Framing>,
    /// Bytes of a full batch: it goes out as one transfer.
    #[arg(long, env = "TRANSLOAD_BATCH_BYTES", default_value = "256KiB", value_parser = units::bytes, value_name = "BYTES")]
    pub(super) batch_bytes: usize,
    /// How long a batch waits for more messages before it goes out.
    #[arg(long, env = "TRANSLOAD_BATCH_DELAY", default_value = "50us", value_parser = units::duration, value_name = "TIME")]
    pub(super) batch_delay: Duration,
    /// Transfers to the device at once.
    #[arg(long, env = "TRANSLOAD_IN_FLIGHT", default_value = "4", value_parser = clap::value_parser!(u16).range(1..=64), value_name = "N")]
    pub(super) in_flight: u16,
    /// What happens when the ring is full: block, reject, drop-oldest or drop-new.
    #[arg(long, env = "TRANSLOAD_ON_FULL", default_value = "block", value_name = "POLICY")]
    pub(super) on_full: OnFull,
    /// The pages of the ring's memory.
    #[arg(long, env = "TRANSLOAD_PAGES", value_enum, default_value_t)]
    pub(super) pages: Pages,
    /// Whether those pages must be had.
    #[arg(long, env = "TRANSLOAD_PAGES_POLICY", value_enum, default_value_t)]
    pub(super) pages_policy: PagesPolicy,
    /// Whether the ring's memory is page-locked.
    #[arg(long, env = "TRANSLOAD_LOCK", value_enum, default_value_t)]
    pub(super) lock: Lock,
    /// The NUMA node that the ring's memory lies on.
    #[arg(long, env = "TRANSLOAD_NUMA_NODE", value_name = "NODE")]
    pub(super) numa_node: Option<u32>,
    /// Write what arrived on the device, framing undone, to a file or `-` (the report then goes to the standard error).
    #[arg(long, env = "TRANSLOAD_READ_BACK", value_parser = target(), value_name = "FILE|-")]
    pub(super) read_back: Option<Target>,
    /// Check each byte of what arrived: generated messages by a kernel of the device, if it runs any and nothing is read
    /// back, all others on the host, read back. On if no option at all is given. Messages of a shared region are checked
    /// against what `send` generates.
    #[arg(long, env = "TRANSLOAD_VERIFY", value_parser = BoolishValueParser::new())]
    pub(super) verify: bool,
    /// Send each batch through a kernel of your own, and what it makes of each message to --read-back in the place of the
    /// messages, in their order: .cl for OpenCL, .spv for Vulkan, .ptx or .cu for CUDA, and the name of a kernel in it.
    #[arg(long, env = "TRANSLOAD_KERNEL", value_parser = kernel::file(), value_name = "FILE:NAME")]
    pub(super) kernel: Option<KernelFile>,
    /// The most bytes of a kernel's output for each message, a multiple of 4 [default: as many as the message has, at
    /// least 64].
    #[arg(long, env = "TRANSLOAD_OUTPUT_BYTES", value_parser = output_bytes, value_name = "BYTES")]
    pub(super) output_bytes: Option<usize>,
    /// Fail if the device could not reach the ring's memory by itself, pinned or mapped.
    #[arg(long, env = "TRANSLOAD_REQUIRE_PINNED", value_parser = BoolishValueParser::new())]
    pub(super) require_pinned: bool,
    /// How long accepted messages may take to arrive once the intake is stopped; the rest is dropped and counted.
    #[arg(long, env = "TRANSLOAD_DRAIN_TIMEOUT", default_value = "10s", value_parser = units::duration, value_name = "TIME")]
    pub(super) drain_timeout: Duration,
    /// Print one line of JSON to the standard error this often; 0s is never.
    #[arg(long, env = "TRANSLOAD_STATS_INTERVAL", value_parser = units::duration, value_name = "TIME")]
    pub(super) stats_interval: Option<Duration>,
    /// Report as one JSON document.
    #[arg(long, env = "TRANSLOAD_JSON", value_parser = BoolishValueParser::new())]
    pub(super) json: bool,
    /// No progress, and no report in words.
    #[arg(long, short, env = "TRANSLOAD_QUIET", value_parser = BoolishValueParser::new())]
    pub(super) quiet: bool,
}

/// Where messages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum From {
    Gen,
    Standard,
    File(PathBuf),
    Listen(Address),
    #[cfg(target_os = "linux")]
    Shared(Name),
}

/// Where what is read back goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Standard,
    File(PathBuf),
}

/// The names of files need not be text.
fn source() -> impl TypedValueParser<Value = From> {
    OsStringValueParser::new().try_map(|word| -> Result<From, String> {
        Ok(match word.to_str() {
            Some("gen") => From::Gen,
            Some("-") => From::Standard,
            Some(word) if Endpoint::is_meant_by(word) => match word.parse()? {
                Endpoint::Stream(address) => From::Listen(address),
                #[cfg(target_os = "linux")]
                Endpoint::Region(name) => From::Shared(name),
            },
            _ => From::File(word.into()),
        })
    })
}

fn target() -> impl TypedValueParser<Value = Target> {
    OsStringValueParser::new().map(|word| match word.to_str() {
        Some("-") => Target::Standard,
        _ => Target::File(word.into()),
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Pages {
    #[default]
    Default,
    /// Transparent huge pages.
    Transparent,
    /// Reserved huge pages of 2 MiB.
    #[value(name = "2M")]
    TwoMebibytes,
    /// Reserved huge pages of 1 GiB.
    #[value(name = "1G")]
    OneGibibyte,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum PagesPolicy {
    /// An error if they cannot be had.
    Require,
    /// Other pages if they cannot be had.
    #[default]
    Prefer,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Lock {
    /// An error if the limit does not allow it.
    Require,
    /// If the limit allows it.
    #[default]
    Prefer,
    Never,
}

impl std::convert::From<PagesPolicy> for Policy {
    fn from(policy: PagesPolicy) -> Self {
        match policy {
            PagesPolicy::Require => Policy::Require,
            PagesPolicy::Prefer => Policy::Prefer,
        }
    }
}

impl std::convert::From<Lock> for Policy {
    fn from(lock: Lock) -> Self {
        match lock {
            Lock::Require => Policy::Require,
            Lock::Prefer => Policy::Prefer,
            Lock::Never => Policy::Never,
        }
    }
}

fn output_bytes(text: &str) -> Result<usize, String> {
    let bytes = units::bytes(text)?;
    match u32::try_from(bytes) {
        Ok(_) if bytes.is_multiple_of(4) => Ok(bytes),
        Ok(_) => Err(format!("not a multiple of 4: use {}", bytes.next_multiple_of(4))),
        Err(_) => Err(format!("more than the {} bytes that a kernel can count", u32::MAX - 3)),
    }
}

fn capacity(text: &str) -> Result<usize, String> {
    let capacity: usize = text.parse().map_err(|_| "not a number of messages".to_owned())?;
    if capacity.is_power_of_two() && (2..=1 << 31).contains(&capacity) {
        Ok(capacity)
    } else {
        Err("a capacity is a power of two from 2 to 2147483648".to_owned())
    }
}

impl PumpArgs {
    /// How messages are cut, for generated ones whole.
    pub(super) fn framing(&self) -> Framing {
        match (&self.from, self.framing) {
            (From::Gen, _) => Framing::Fixed,
            (_, framing) => framing.unwrap_or_default(),
        }
    }

    /// Whether messages come from a region that processes share.
    pub(super) fn shares(&self) -> bool {
        #[cfg(target_os = "linux")]
        return matches!(self.from, From::Shared(_));
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Whether the report is JSON on the standard error, where programs read nothing but it.
    pub(crate) fn reports_json_beside_the_log(&self) -> bool {
        self.json && self.read_back == Some(Target::Standard)
    }

    /// Whether what arrives is checked.
    pub(super) fn verifies(&self, matches: Option<&ArgMatches>) -> bool {
        let given = |matches: &ArgMatches| {
            matches.ids().any(|id| {
                matches!(
                    matches.value_source(id.as_str()),
                    Some(ValueSource::CommandLine | ValueSource::EnvVariable)
                )
            })
        };
        self.verify || !matches.is_some_and(given)
    }
}
