//! Why a pump ended early, or could not start.

use std::io;

use crate::device::DeviceError;

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
