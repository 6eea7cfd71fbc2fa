//! A bounded ring of slots with many producers and one consumer.
//!
//! ```text
//!            head                taken                         tail
//!             v                    v                             v
//!   ...free   | lent: in open      | written, skipped or still   |  free...
//!             | batches            | being written by claimers   |
//! ```
//!
//! Positions are 64-bit numbers that only grow: at one a nanosecond they last 292 years. `position % slots` is the
//! slot, `position / slots` the lap. The three marks move right and `tail - head` never exceeds the number of
//! slots. Producers move `tail`, the consumer moves `taken`, whoever gives back the oldest open batch moves
//! `head`.
//!
//! Cost of the hot path, one message: a producer loads `tail` and the copy of `head` (one line), swaps `tail`,
//! stores one word and loads one word that seldom changes (who sleeps). The consumer loads one word a message
//! and, for each batch, stores `taken` and `head`.

mod batches;
mod claim;
mod take;
mod words;

pub use batches::MAX_OPEN_BATCHES;
pub use claim::{Claim, ClaimError};
pub use ring::{GeometryError, MAX_SLOTS, Ring};
pub use take::{Reader, Run, TakeError, Taken};
pub use words::{Mark, Word};

#[expect(clippy::module_inception, reason = "the folder is the ring, this file its state")]
mod ring;
