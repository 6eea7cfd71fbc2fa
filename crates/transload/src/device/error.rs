//! What can go wrong with a device.

use super::Backend;
use crate::memory::SlabError;
use crate::region::RegisterError;

/// A device could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The back end, its driver or its devices are not there.
    #[error("{backend} is not available: {reason}")]
    Unavailable {
        /// The back end.
        backend: Backend,
        /// Why, and what to do.
        reason: String,
    },
    /// The back end has fewer devices.
    #[error("there is no device {backend}:{index}: {backend} has {count}, counted from 0")]
    NoSuchDevice {
        /// The back end.
        backend: Backend,
        /// The device asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// More bytes than the device can give at once.
    #[error(
        "the device queue needs {wanted} bytes, and the device gives at most {available} at once: use a smaller one"
    )]
    QueueTooLarge {
        /// Bytes wanted.
        wanted: u64,
        /// Bytes that one allocation can have.
        available: u64,
    },
    /// A setting that no stream can have.
    #[error("a stream with {what} of 0 can do nothing: use at least 1")]
    ZeroOption {
        /// Which setting.
        what: &'static str,
    },
    /// More transfers at once than any stream can have.
    #[error("a stream cannot have {wanted} transfers in flight: use at most {most}")]
    TooManyInFlight {
        /// How many were wanted.
        wanted: usize,
        /// How many there can be.
        most: usize,
    },
    /// A native handle that the caller handed in does not fit.
    #[error("the {handle} that was handed in cannot be used: {reason}")]
    Unsuitable {
        /// What it is.
        handle: &'static str,
        /// Why, and what to do.
        reason: String,
    },
    /// As many transfers are in flight as the stream was opened for.
    #[error("{limit} transfers are in flight, the most of this stream: poll one first")]
    Busy {
        /// How many there can be.
        limit: usize,
    },
    /// The transfer reaches beyond the device queue.
    #[error("{len_bytes} bytes at offset {offset} reach beyond the device queue's {available} bytes")]
    OutOfQueue {
        /// Where it should begin.
        offset: usize,
        /// How long it is.
        len_bytes: usize,
        /// How long the queue is.
        available: usize,
    },
    /// The host memory of a download is shorter than what is to be brought.
    #[error("{needed} bytes do not fit into a landing of {available} bytes: use a longer one")]
    LandingTooSmall {
        /// How long the range is.
        needed: usize,
        /// How long the landing is.
        available: usize,
    },
    /// The outputs of a launch have fewer places than its batch has messages.
    #[error(
        "a batch of {needed} messages needs as many places for outputs, and there are {available}: make more"
    )]
    OutputTooSmall {
        /// How many messages there are.
        needed: usize,
        /// How many places there are.
        available: usize,
    },
    /// Something does not begin, or end, where it must.
    #[error("{offset} bytes is not a multiple of {multiple}: use {}", offset.next_multiple_of(*multiple))]
    Misaligned {
        /// Where it begins, or how long it is.
        offset: usize,
        /// What it must be a multiple of.
        multiple: usize,
    },
    /// The back end cannot do that.
    #[error("this device has no {what}: use one of another back end")]
    Unsupported {
        /// What it cannot do.
        what: &'static str,
    },
    /// The kernel is in a language that the back end does not take.
    #[error("{backend} takes no {language}: give it {takes}")]
    OtherLanguage {
        /// The back end.
        backend: Backend,
        /// The language of the kernel.
        language: &'static str,
        /// The languages that it takes.
        takes: &'static str,
    },
    /// The kernel does not compile.
    #[error("the kernel `{entry}` does not build; the compiler says:\n{log}")]
    Build {
        /// The kernel.
        entry: String,
        /// What the compiler says.
        log: String,
    },
    /// The code has no such kernel.
    #[error("there is no kernel `{entry}` in the code: {reason}")]
    NoSuchKernel {
        /// The kernel.
        entry: String,
        /// Which there are, or why it does not count as one.
        reason: String,
    },
    /// Payloads cannot stand so far behind the beginning of their messages.
    #[error(
        "payloads cannot stand behind {prefix_bytes} bytes of messages of {message_size}: use 0, or 4 where messages begin \
         with their length"
    )]
    Prefix {
        /// Bytes wanted in front of each payload.
        prefix_bytes: u32,
        /// Bytes in each message.
        message_size: usize,
    },
    /// The kernel was built by another device, or for another use.
    #[error("the kernel `{entry}` cannot run here: {reason}")]
    OtherKernel {
        /// The kernel.
        entry: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// The transfer's memory is no part of the region, or the region was registered elsewhere or for something else.
    #[error(
        "the memory of the transfer is not registered with this device for {purpose}: register its slab first"
    )]
    NotRegistered {
        /// What it was to be used for.
        purpose: &'static str,
    },
    /// Somebody writes to the memory that processes share what no member writes.
    #[cfg(target_os = "linux")]
    #[error("the shared region is spoilt: {0}; make a new one")]
    Spoilt(transload_core::Poisoned),
    /// The driver refused a call.
    #[error("{backend}: {call} failed with {code}")]
    Driver {
        /// The back end.
        backend: Backend,
        /// The driver's name of the call.
        call: &'static str,
        /// The driver's name or number of the error.
        code: String,
    },
    /// The device is gone.
    #[error("the device is lost: {reason}; what was in flight is quarantined, open it again to go on")]
    Lost {
        /// What the driver said.
        reason: String,
    },
    /// Something that had to be done first has failed.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The memory for a transfer could not be had.
    #[error(transparent)]
    Slab(#[from] SlabError),
    /// The memory for a transfer could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The operating system refused a thread.
    #[error("the copy thread could not be started: {0}")]
    Thread(std::io::Error),
}

/// A submit that was refused hands the transfer back.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused<T> {
    /// What was to be transferred.
    pub transfer: T,
    /// Why it was not.
    #[source]
    pub error: DeviceError,
}

/// A transfer that was submitted did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The copy ended without success; the device no longer touches the memory, and the transfer may be tried again.
    #[error("the copy failed: {reason}")]
    Failed {
        /// What the driver said.
        reason: String,
    },
    /// Nobody can say whether the device still touches the memory. It is quarantined.
    #[error("the copy was lost with its device: {reason}")]
    Lost {
        /// What the driver said.
        reason: String,
    },
}
