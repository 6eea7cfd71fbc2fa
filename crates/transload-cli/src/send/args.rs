//! The options of `transload send`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{BoolishValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use transload::proactor::ZeroCopy;

use crate::address::{Address, Endpoint};
use crate::failure::Failure;
use crate::framing::Framing;
use crate::io_backend::Io;
use crate::{units, usage};

/// How long generated messages go on if nothing else is said.
const DEFAULT_DURATION: Duration = Duration::from_secs(5);

/// Bytes of all buffers together, if nothing is said: no more than this, however many connections there are.
const MOST_POOL_BYTES: usize = 64 << 20;
/// The smallest buffers that are made of that.
const LEAST_BUFFER_BYTES: usize = 4 << 10;
const BUFFER_BYTES: usize = 256 << 10;
const BUFFERS: usize = 16;
const BUFFERS_PER_CONNECTION: usize = 4;

/// Bytes of payload in a message to a socket, if nothing is said.
const MESSAGE_SIZE: usize = 256;

/// The options of `transload send`.
#[derive(Clone, Debug, Args)]
#[command(after_help = usage::LOG_HELP)]
pub(crate) struct SendArgs {
    /// Where messages go: tcp:HOST:PORT or unix:PATH, where somebody listens, or shm:NAME, the region of a pump on this
    /// machine, which is waited for.
    #[arg(long, env = "TRANSLOAD_SEND_TO", value_name = "ADDRESS")]
    pub(super) to: Endpoint,
    /// Where they come from: `gen` (generated), `-` (standard input) or a file.
    #[arg(long, env = "TRANSLOAD_SEND_FROM", default_value = "gen", value_parser = from(), value_name = "gen|-|FILE")]
    pub(super) from: From,
    /// Stop after so many messages, all connections together.
    #[arg(long, env = "TRANSLOAD_SEND_MESSAGES", value_name = "N")]
    pub(super) messages: Option<u64>,
    /// Stop after this time. Generated messages stop after 5s if neither this nor --messages is given.
    #[arg(long, env = "TRANSLOAD_SEND_DURATION", value_parser = units::duration, value_name = "TIME")]
    pub(super) duration: Option<Duration>,
    /// Bytes of payload in a generated message, and the most in one of a file or the standard input [default: 256, or what
    /// a slot of the region holds].
    #[arg(long, env = "TRANSLOAD_SEND_MESSAGE_SIZE", value_parser = units::bytes, value_name = "BYTES")]
    pub(super) message_size: Option<usize>,
    /// How messages lie in the bytes. Generated ones are made so: with their length in front, as lines of hexadecimal
    /// digits, or one behind the other. A file or the standard input must be so already: it goes out as it is, and is
    /// checked on the way, except by `stream`, which takes any bytes.
    #[arg(long, env = "TRANSLOAD_SEND_FRAMING", value_enum, default_value_t)]
    pub(super) framing: Framing,
    /// How many connections generated messages are split over, at most 1024.
    #[arg(long, env = "TRANSLOAD_SEND_CONNECTIONS", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    pub(super) connections: u16,
    /// Whether the network reads the buffers themselves, without a copy into the kernel.
    #[arg(long, env = "TRANSLOAD_SEND_ZERO_COPY", value_enum, default_value_t)]
    pub(super) zero_copy: WhenZeroCopy,
    /// What does the I/O; `uring` ends with exit code 4 where there is none.
    #[arg(long, env = "TRANSLOAD_SEND_IO", value_enum, default_value_t)]
    pub(super) io: Io,
    /// Buffers of the pool, at most 65536 [default: 4 a connection, at least 16].
    #[arg(long, env = "TRANSLOAD_SEND_POOL_BUFFERS", value_parser = clap::value_parser!(u32).range(1..=65536), value_name = "N")]
    pool_buffers: Option<u32>,
    /// Bytes of a buffer: what is read, filled and sent at once [default: 256KiB, less with very many connections].
    #[arg(long, env = "TRANSLOAD_SEND_BUFFER_SIZE", value_parser = units::bytes, value_name = "BYTES")]
    buffer_size: Option<usize>,
    /// How long what has been read may take to be sent, after a signal, a failure or the end of --duration.
    #[arg(long, env = "TRANSLOAD_SEND_DRAIN_TIMEOUT", default_value = "10s", value_parser = units::duration, value_name = "TIME")]
    pub(super) drain_timeout: Duration,
    /// Do not wait for a pump that is not there, or not there any more: fail. For regions.
    #[arg(long, env = "TRANSLOAD_SEND_NO_RECONNECT", value_parser = BoolishValueParser::new())]
    pub(super) no_reconnect: bool,
    /// Trust this user's processes as well, and serve the region to them. For regions; may be given several times.
    #[arg(long, env = "TRANSLOAD_SEND_ALLOW_UID", value_delimiter = ',', value_name = "UID")]
    pub(super) allow_uid: Vec<u32>,
    /// Report as one JSON document.
    #[arg(long, env = "TRANSLOAD_SEND_JSON", value_parser = BoolishValueParser::new())]
    pub(super) json: bool,
    /// No report in words.
    #[arg(long, short, env = "TRANSLOAD_SEND_QUIET", value_parser = BoolishValueParser::new())]
    pub(super) quiet: bool,
}

/// A source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum From {
    Gen,
    Standard,
    File(PathBuf),
}

fn from() -> impl TypedValueParser<Value = From> {
    // The names of files need not be text.
    OsStringValueParser::new().map(|word: OsString| match word.to_str() {
        Some("gen") => From::Gen,
        Some("-") => From::Standard,
        _ => From::File(word.into()),
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum WhenZeroCopy {
    /// For 64 KiB and more at once, unless the kernel copies all the same.
    #[default]
    Auto,
    /// For any size, where the kernel can.
    On,
    Off,
}

impl std::convert::From<WhenZeroCopy> for ZeroCopy {
    fn from(when: WhenZeroCopy) -> Self {
        match when {
            WhenZeroCopy::Auto => Self::Auto,
            WhenZeroCopy::On => Self::On,
            WhenZeroCopy::Off => Self::Off,
        }
    }
}

impl SendArgs {
    /// After which time it stops, if it does.
    pub(super) fn duration(&self) -> Option<Duration> {
        match (&self.from, self.messages, self.duration) {
            (From::Gen, None, None) => Some(DEFAULT_DURATION),
            (_, _, duration) => duration,
        }
    }

    /// Bytes of payload in a message to a socket.
    pub(super) fn message_size(&self) -> usize {
        self.message_size.unwrap_or(MESSAGE_SIZE)
    }

    /// How many buffers there are, and of how many bytes.
    pub(super) fn buffers(&self) -> (usize, usize) {
        let count = match self.pool_buffers {
            Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
            None => BUFFERS.max(usize::from(self.connections) * BUFFERS_PER_CONNECTION),
        };
        let share = MOST_POOL_BYTES / count / LEAST_BUFFER_BYTES * LEAST_BUFFER_BYTES;
        (count, self.buffer_size.unwrap_or(share.clamp(LEAST_BUFFER_BYTES, BUFFER_BYTES)))
    }

    /// Refuses options that do not go together.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let refuse = |why: &str| Err(Failure::usage(why));
        if self.from != From::Gen && self.connections > 1 {
            return refuse(
                "a file or the standard input goes over one connection: leave --connections out, or use --from gen",
            );
        }
        if self.from != From::Gen && self.messages.is_some() && self.framing == Framing::Stream {
            return refuse(
                "--messages counts messages, and --framing stream has none in a file or the standard input: use another framing, or leave it out",
            );
        }
        let prefixed = matches!(self.framing, Framing::U32le | Framing::U32be);
        if prefixed && u32::try_from(self.message_size()).is_err() {
            return refuse("a 32-bit length counts up to 4294967295 bytes: use a smaller --message-size");
        }
        let (count, bytes) = self.buffers();
        if count.checked_mul(bytes).is_none_or(|all| isize::try_from(all).is_err()) {
            return Err(Failure::usage(format!(
                "{count} buffers of {bytes} bytes are more than memory can have: use fewer --pool-buffers or a smaller --buffer-size"
            )));
        }
        match self.to {
            Endpoint::Stream(Address::Tcp { port: 0, .. }) => {
                refuse("nobody listens at port 0: name the port that the receiver listens at")
            }
            Endpoint::Stream(_) if self.no_reconnect || !self.allow_uid.is_empty() => {
                refuse("--no-reconnect and --allow-uid are for regions: use --to shm:NAME, or leave them out")
            }
            Endpoint::Stream(_) => Ok(()),
            #[cfg(target_os = "linux")]
            Endpoint::Region(_) => self.check_region(),
        }
    }

    /// Refuses what only sockets have.
    #[cfg(target_os = "linux")]
    fn check_region(&self) -> Result<(), Failure> {
        let for_sockets = [
            ("--connections", self.connections != 1),
            ("--zero-copy", self.zero_copy != WhenZeroCopy::Auto),
            ("--io", self.io != Io::Auto),
            ("--pool-buffers", self.pool_buffers.is_some()),
            ("--buffer-size", self.buffer_size.is_some()),
        ];
        match for_sockets.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::usage(format!(
                "{option} is for sockets, and a region has its own buffers: leave it out; several senders are several processes"
            ))),
            None => Ok(()),
        }
    }
}
