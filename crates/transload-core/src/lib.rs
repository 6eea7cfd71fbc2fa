//! The lock-free algorithms of transload, on memory that the caller provides.
//!
//! This crate decides *who may touch which slot when*; it never sees a message. It is `no_std`, allocates
//! nothing, starts no threads, makes no system call and contains no unsafe code. It is also the only crate of
//! the project with raw atomics: the orderings of all the others follow from the few here. They are explored by the
//! models in `tests/`, with twins that fail when an ordering is weakened.
//!
//! In the order that a message meets them:
//!
//! * [`Ring::claim`] gives a producer positions that are its own;
//! * [`Ring::publish`] hands them to the consumer, written, skipped or held back for ever;
//! * [`Ring::take`] gives the consumer a run of written positions;
//! * [`Ring::release`] gives them back to the producers, in any order, from any thread;
//!
//! And beside the ring:
//!
//! * [`Pool::claim`] gives a thread one of many equal buffers, [`Pool::release`] gives it back.
//!
//! * [`SharedMember`] does both between processes, any of which may die at any instruction.
//! * [`SpscSender`] and [`SpscReceiver`] are a ring between two processes that do not trust each other.
//!
//! For all:
//!
//! * [`Barrier`] and the `announce` methods let either side sleep without ever missing a wake-up.
//!
//! # Example
//!
//! ```
//! use transload_core::{FullBarrier, Mark, Ring, Word};
//!
//! let words = [const { Word::new(0) }; 4]; // zero, one for each slot
//! let (ring, mut reader) = Ring::new(4, words, FullBarrier)?;
//!
//! let claim = ring.claim(1)?;                      // position 0 is ours to write
//! let must_wake = ring.publish(claim, Mark::Written);
//! assert!(!must_wake);                             // nobody sleeps
//!
//! let taken = ring.take(&mut reader, 64)?;         // and now the consumer's to read
//! assert_eq!((taken.first(), taken.count()), (0, 1));
//! let wake = ring.release(taken);                  // back to the producers
//! assert_eq!(wake, 0);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "model")]
extern crate std;

mod counter;
mod flag;
mod padded;
mod pool;
mod ring;
mod shared;
mod spsc;
mod sync;
mod wait;

pub use counter::Counter;
pub use flag::Flag;
pub use padded::Padded;
pub use pool::{
    Grant, HintWord, MAX_BUFFERS, NoGrant, Notice, Oldest, Pool, PoolGeometryError, SEATS, Seat, Slot, Tally,
};
pub use ring::{
    Claim, ClaimError, GeometryError, MAX_OPEN_BATCHES, MAX_SLOTS, Mark, Reader, Ring, Run, TakeError, Taken,
    Word,
};
pub use shared::{
    CONTROL_WORDS, ClaimCursor, FutexWord, Holding, MAX_MEMBERS, MAX_RING_SLOTS, MAX_SHARED_BUFFERS,
    MEMBER_WORDS, Poisoned, Recovered, SLEEPER_WORDS, SharedCount, SharedGeometryError, SharedGrant,
    SharedMember, SharedMessage, SharedNoGrant, SharedNotes, SharedParts, SharedReader, SharedSendError,
    SharedSendRefused, SharedTakeError, SharedTaken, SharedWord, Sleeper, SlotState,
};
pub use spsc::{
    SPSC_FUTEX_WORDS, SPSC_SIGNAL, SpscFault, SpscOwn, SpscPeer, SpscReceiver, SpscRun, SpscSendError,
    SpscSender,
};
#[cfg(feature = "model")]
pub use sync::{Died, Label, weakened};
pub use wait::{Barrier, FullBarrier, SwapBarrier};
