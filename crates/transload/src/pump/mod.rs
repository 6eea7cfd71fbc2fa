//! The pump: from a staging ring into a device, several batches in flight, everything counted.
//!
//! ```text
//!  sources -> Intake -> [ staging ring ] -> Pump -> submit -> [ queue in device memory ] -> on_landed / Sink
//!              policy                         |  <- completion: slots go back to the producers
//! ```
//!
//! A [`Pump`] takes a [`Feed`], which is made from the [`Consumer`](crate::staging::Consumer) of a ring, and a
//! [`Stream`](crate::device::Stream). It runs on the caller's thread or on its own, until the ring is closed and drained or
//! it is told to stop.
//!
//! # When a batch goes out
//!
//! When `batch_bytes` are there, when `batch_delay` has passed since the pump first saw its oldest message, when the
//! ring is full or closed, or when it has reached the wrap: so each batch is one piece, and one transfer.
//!
//! # What happens when the ring is full
//!
//! That is decided where messages come in, by the [`OnFull`] of the [`Intake`]. Nothing that was accepted is lost
//! without being counted: at rest, `accepted == delivered + dropped`.
//!
//! # Sockets
//!
//! A [`SocketIntake`] receives what is already in a socket straight into slots.
//!
//! # Processes
//!
//! A pump that is opened with a [`SharedConsumer`](crate::shared::SharedConsumer), or with a [`SharedFeed`] made of one,
//! takes from a ring that processes share. Whoever sends waits for room by itself, so there are no intakes. Messages are
//! kept in the ring until they are delivered: those that are not when the pump ends, or its process dies, come to the next
//! consumer.
//!
//! # Kernels
//!
//! With [`Pump::through_kernel`], each batch is copied to the device, goes through a kernel of the user's, and its outputs
//! come back, in order, in one transfer.
//!
//! # Failures
//!
//! A copy that fails is tried again in its own place in the device queue, and holds back those behind it. When it is
//! given up, its messages count as dropped and the pump goes on. A lost device, or a sink that fails, ends the pump:
//! what was in flight and what is in the ring then count as dropped, and the report holds the error.
//!
//! # Example
//!
//! ```
//! use transload::device::{Driver, host};
//! use transload::pump::{Intake, OnFull, Outcome, Pump, PumpOptions};
//! use transload::staging::PinnedStagingBuffer;
//!
//! let device = host::Host.open(0)?;
//! let (producer, consumer) = PinnedStagingBuffer::new(1024, 64)?.split();
//! let pump = Pump::open(&*device, consumer, PumpOptions::default())?;
//! let intake = Intake::new(producer, OnFull::Block, &pump)?;
//! let running = pump.spawn()?;
//!
//! for _ in 0..10_000 {
//!     assert_eq!(intake.offer(&[7; 64])?, Outcome::Accepted);
//! }
//! drop(intake); // the last producer: the ring closes, the pump drains it and ends
//! let report = running.join();
//! assert!(report.error.is_none());
//! assert_eq!((report.accepted, report.delivered, report.dropped), (10_000, 10_000, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod after;
mod control;
mod engine;
mod error;
mod feed;
mod flight;
mod handle;
mod idle;
mod intake;
mod measure;
mod on_full;
mod options;
mod progress;
#[expect(clippy::module_inception, reason = "the folder is the part, this file its main noun")]
mod pump;
mod queue;
mod report;
#[cfg(target_os = "linux")]
mod shared_feed;
mod sink;
mod slot_layout;
#[cfg(unix)]
mod socket_intake;
mod through_kernel;

pub use error::PumpError;
pub use feed::Feed;
pub use handle::{PumpHandle, PumpStopper};
pub use intake::{Intake, Outcome};
pub use measure::Latency;
pub use on_full::{OnFull, ParseOnFullError};
pub use options::PumpOptions;
pub use progress::Progress;
pub use pump::Pump;
pub use report::Report;
#[cfg(target_os = "linux")]
pub use shared_feed::SharedFeed;
pub use sink::{Landed, Sink};
pub use slot_layout::{LENGTH_BYTES, SlotLayout};
#[cfg(unix)]
pub use socket_intake::{Drained, Remainder, SocketIntake, SocketIntakeError};
pub use through_kernel::{KernelOptions, OutputSink};
