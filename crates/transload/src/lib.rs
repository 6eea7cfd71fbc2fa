//! Moves messages from many producers into device memory through page-locked, registered buffers: no locks on the way,
//! no copy that is not needed, nothing lost without being counted.
//!
//! ```text
//!  producers                          one consumer                     device
//!  threads --try_enqueue/reserve-->  staging ring --Batch-->  pump --submit-->  queue in device memory
//!  sockets --received into slots-->  (pinned slab)             |  <--complete-- event
//!                                                              +--> slots go back to producers only now
//!
//!  buffer pool --Lease-->  proactor --send, receive, read, write-->  kernel
//!  (registered slab) <---- the lease comes back when the kernel has let go
//! ```
//!
//! # The contract
//!
//! * A message is seen only when it is whole; each producer's messages stay in order.
//! * A slot has one owner at a time, and goes back to the producers when its owner is provably done: never at submit,
//!   never by time-out. If that can never be proved (a lost device), it is quarantined: kept mapped, never used again,
//!   counted.
//! * At rest, `accepted == delivered + dropped`.
//! * `try_` calls take no lock, allocate nothing and make no system call, unless the other side sleeps and must be
//!   woken. Names with `timeout` or `wait`, and futures, wait.
//! * No driver, no limit and no missing feature makes the process panic: absence is an error that says what to do.
//!
//! # The parts, in the order that data flows
//!
//! * [`memory`]: a [`Slab`](memory::Slab) is one piece of memory, placed as asked, honest about what was obtained.
//! * [`region`]: a [`Region`](region::Region) is a slab registered with a device or a proactor.
//! * [`pool`]: [`BufferPool`](pool::BufferPool), which lends the buffers of a region one at a time.
//! * [`proactor`]: [`Proactor`](proactor::Proactor), completion-based I/O that owns its buffers; back ends `io_uring` and
//!   readiness.
//! * [`staging`]: [`PinnedStagingBuffer`](staging::PinnedStagingBuffer), the ring.
//! * [`device`]: [`Driver`](device::Driver), [`Device`](device::Device), [`Stream`](device::Stream); back ends `host`,
//!   `opencl`, `vulkan` and `cuda`.
//! * [`pump`]: [`Pump`](pump::Pump), from the ring into the device.
//!
//! # Example
//!
//! ```
//! use transload::device::{Driver, host};
//! use transload::pump::{Intake, OnFull, Pump, PumpOptions};
//! use transload::staging::PinnedStagingBuffer;
//!
//! let device = host::Host.open(0)?;
//! let (producer, consumer) = PinnedStagingBuffer::new(1024, 64)?.split();
//! let pump = Pump::open(&*device, consumer, PumpOptions::default())?;
//! let intake = Intake::new(producer, OnFull::Block, &pump)?;
//! let running = pump.spawn()?;
//! intake.offer(&[1; 64])?;
//! drop(intake);
//! assert_eq!(running.join().delivered, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Trade-offs
//!
//! Messages of one ring have one size, so that batches are dense. The consumer waits for the oldest reservation, so none
//! may be held across anything that waits. No fairness is promised among producers that wait for room.
//!
//! # Features
//!
//! * `opencl`, `vulkan`, `cuda` (on by default): the back ends of these names. Their drivers are loaded at run time; nothing
//!   is needed to build them.
//! * `metal`: the Metal back end, on macOS. It is type-checked only, and has never run.
//! * `uring` (on by default): the `io_uring` back end of the proactor, on Linux. Without it, or where it is denied,
//!   readiness does the work.
//!
//! # Platforms
//!
//! Linux on x86-64 is tested. Other Unix systems are written for and untested; for macOS the library is type-checked.

mod barrier;
#[cfg(target_os = "linux")]
mod fork;

pub mod device;
pub mod memory;
pub mod pool;
pub mod proactor;
pub mod pump;
pub mod region;
#[cfg(target_os = "linux")]
pub mod shared;
pub mod staging;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
