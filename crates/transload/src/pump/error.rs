//! Why a pump ended early, or could not start.

use std::io;

use crate::device::{DeviceError, QueueLayoutError};

/// Why a pump ended early, or could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PumpError {
    /// The device refused, or is lost.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Nothing more can be taken from the shared ring.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Shared(#[from] crate::shared::TakeError),
    /// What came back from the device could not be handed on.
    #[error("the messages that came back from the device could not be written: {0}")]
    Sink(#[source] io::Error),
    /// A kernel says that it has written beyond the place for its output.
    #[error(
        "the kernel `{entry}` claims an output of {length} bytes where there is room for {output_bytes}: give it more room, \
         or mend it"
    )]
    OutputTooLong {
        /// The kernel.
        entry: String,
        /// Bytes claimed.
        length: u32,
        /// Bytes that there are.
        output_bytes: usize,
    },
    /// A queue on the device cannot be like that.
    #[error(transparent)]
    QueueLayout(#[from] QueueLayoutError),
    /// A part of what keeps a queue on the device going has failed too often.
    #[error("{what} failed too often: {reason}")]
    QueueFailed {
        /// Which part.
        what: &'static str,
        /// Why it failed the last time.
        reason: String,
    },
    /// A position in a queue on the device is none that it can have: a kernel has written where it must not.
    #[error(
        "the {what} of the device queue says {position}, where only {from} to {to} can be: a kernel has written where it          must not"
    )]
    QueueSpoilt {
        /// Which one.
        what: &'static str,
        /// What stands there.
        position: u32,
        /// The first that can be.
        from: u32,
        /// The last that can be; positions wrap.
        to: u32,
    },
    /// A kernel takes nothing any more, though there is room for what it gives.
    #[error("the kernel `{entry}` has left {messages} messages in its queue: it must take all that it finds")]
    KernelStopped {
        /// The kernel.
        entry: String,
        /// What it has left.
        messages: u32,
    },
    /// A pump over queues on the device has no sink.
    #[error("a pump over device queues has no {what}: give it an outbound queue")]
    OverQueues {
        /// What it has not.
        what: &'static str,
    },
    /// A setting that no pump can have.
    #[error("a pump with {what} of 0 can do nothing: use at least 1")]
    ZeroOption {
        /// Which setting.
        what: &'static str,
    },
    /// The producer is of another ring than the pump's.
    #[error("the producer is of another ring than the pump's: use the one that came out of the same `split`")]
    ForeignProducer,
    /// The operating system refused a thread.
    #[error("the pump's thread could not be started: {0}")]
    Thread(#[source] io::Error),
    /// The pump's thread panicked: a fault in a sink, in a callback, or in the pump.
    #[error("the pump's thread panicked: {0}")]
    Panicked(String),
}
